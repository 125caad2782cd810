//go:build linux

package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
)

// onTerminal runs the tool on a terminal of its own, and returns what that shows.
func onTerminal(t *testing.T, environment []string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("snowflake") // testscript.Main has put it there
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = append(os.Environ(), environment...)
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 120})
	require.NoError(t, err)
	shown, _ := io.ReadAll(terminal) // it ends with an error, as terminals do
	_ = cmd.Wait()
	require.NoError(t, terminal.Close())
	return string(shown)
}

func TestColoursAreForTerminals(t *testing.T) {
	const escape = "\x1b["
	require.Contains(t, onTerminal(t, []string{"TERM=xterm", "NO_COLOR="}, "plan"), escape)
	require.NotContains(t, onTerminal(t, []string{"TERM=xterm", "NO_COLOR=1"}, "plan"), escape)
	require.NotContains(t, onTerminal(t, []string{"TERM=dumb"}, "plan"), escape)
	require.NotContains(t, onTerminal(t, []string{"TERM=xterm", "NO_COLOR="}, "plan", "--json"), escape)
}

func TestLongInputShowsProgress(t *testing.T) {
	ids := filepath.Join(t.TempDir(), "ids.txt")
	require.NoError(t, os.WriteFile(ids, []byte(strings.Repeat("26091926323200001\n", 300_000)), 0o600))
	shown := onTerminal(t, []string{"TERM=xterm"}, "audit", ids)
	require.Contains(t, shown, "MB/s", "the rate")
	require.Regexp(t, `\[\d+s:\d+s\]`, shown, "the time that is left")
	require.Contains(t, shown, "299,999")
	require.NotContains(t, onTerminal(t, []string{"TERM=xterm"}, "decode", "1"), "/s")

	// Who asks a person for IDs asks with a word.
	require.Contains(t, onTerminal(t, nil, "decode"), "no IDs are given")
}
