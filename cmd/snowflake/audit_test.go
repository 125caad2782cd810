//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/snowfence/snowflake"
)

// Ten million IDs, two of which repeat far apart, are 160 MB with their places. The tool
// finds them within the memory that it was given, which it takes from the disk.
func TestAuditFindsRepeatsInBoundedMemory(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "snowflake")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".")
	output, err := build.CombinedOutput()
	require.NoError(t, err, string(output))

	const n, mebibytes = 10_000_000, 32
	temp := t.TempDir()
	cmd := exec.CommandContext(t.Context(), binary, "audit", "--json", "--memory", strconv.Itoa(mebibytes), "--temp", temp, "-")
	var report, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &report, &errs
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	out := bufio.NewWriterSize(in, 1<<16)
	for i := range uint64(n) {
		// Every number below 2^24 that the multiplication reaches, in no order, and each once.
		id := 26091926323200000 + snowflake.ID(i*0x9E3779B1%(1<<24))
		switch i {
		case n - 1:
			id = 26091926323200000 // the first
		case n - 2:
			id = 26091926323200000 + 5_000_000*0x9E3779B1%(1<<24)
		}
		line, err := id.AppendText(out.AvailableBuffer())
		require.NoError(t, err)
		_, err = out.Write(append(line, '\n'))
		require.NoError(t, err)
	}
	require.NoError(t, out.Flush())
	require.NoError(t, in.Close())
	_ = cmd.Wait()
	require.Equal(t, exitRepeat, cmd.ProcessState.ExitCode(), errs.String())
	require.Contains(t, report.String(), `"ids":10000000,`)
	require.Contains(t, report.String(), `"repeated_ids":2,"repeats":2,`)
	require.Contains(t, report.String(), `"id":"26091926323200000","places":[1,10000000]`)
	require.Contains(t, report.String(), `"places":[5000001,9999999]`)
	left, err := filepath.Glob(filepath.Join(temp, "*"))
	require.NoError(t, err)
	require.Empty(t, left)

	// The runtime and the code take some 30 MB beside it.
	peak := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss / 1024
	t.Logf("%d MiB at most, %v of processor", peak, cmd.ProcessState.UserTime())
	require.Less(t, peak, int64(mebibytes+48))
}

// A quote that is never closed is told without the file being read into memory for it.
func TestAuditOfAnOpenQuote(t *testing.T) {
	var out, errs bytes.Buffer
	in := io.MultiReader(strings.NewReader("26091926323200001\n\"26091926323200002\n"), strings.NewReader(strings.Repeat("26091926323200003\n", 1<<20)))
	status := run(t.Context(), []string{"audit", "--input", "csv", "--bad", "skip", "-"}, in, &out, &errs)
	require.Equal(t, exitError, status)
	require.Contains(t, errs.String(), "after line 1: a record is longer than 1048576 bytes")
	require.Empty(t, out.String())
	rest, err := io.ReadAll(in)
	require.NoError(t, err)
	require.Greater(t, len(rest), 16<<20)
}

// The files that it sorts in are gone before it prints: a pipe that was closed, a signal
// that says so, or a terminal that is, end it with nothing left.
func TestAuditLeavesNoFiles(t *testing.T) {
	var ids strings.Builder
	for i := range 200_000 {
		fmt.Fprintln(&ids, 26091926323200000+i)
	}
	for name, end := range map[string]func(*exec.Cmd, io.WriteCloser){
		"a closed pipe": func(_ *exec.Cmd, in io.WriteCloser) { _ = in.Close() },
		"SIGHUP":        func(cmd *exec.Cmd, _ io.WriteCloser) { _ = cmd.Process.Signal(syscall.SIGHUP) },
		"SIGTERM":       func(cmd *exec.Cmd, _ io.WriteCloser) { _ = cmd.Process.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			temp := t.TempDir()
			cmd := exec.CommandContext(t.Context(), "snowflake", "audit", "--memory", "1", "--temp", temp, "-")
			read, written, err := os.Pipe()
			require.NoError(t, err)
			require.NoError(t, read.Close())
			cmd.Stdout = written
			in, err := cmd.StdinPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			require.NoError(t, written.Close())
			_, err = io.WriteString(in, ids.String())
			require.NoError(t, err)
			require.Eventually(t, func() bool {
				spilled, err := filepath.Glob(filepath.Join(temp, "*", "*"))
				return err == nil && len(spilled) > 0
			}, 10*time.Second, time.Millisecond)
			end(cmd, in)
			require.Error(t, cmd.Wait())
			left, err := filepath.Glob(filepath.Join(temp, "*"))
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}
