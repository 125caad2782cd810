package snowflake

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// processModes are what this test binary does instead of running tests when it is
// started by startProcess. Files add theirs in an init function.
var processModes = map[string]func(args []string){}

const processModeVariable = "SNOWFLAKE_TEST_PROCESS"

func TestMain(m *testing.M) {
	if name := os.Getenv(processModeVariable); name != "" {
		processModes[name](os.Args[1:])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// process is another process that runs a mode. It ends with the test at the latest.
type process struct {
	*exec.Cmd
	t     *testing.T
	stdin io.Closer // closing it is the sign to end, for modes that wait for one
	out   *bufio.Reader
}

func startProcess(t *testing.T, mode string, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), processModeVariable+"="+mode)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &process{cmd, t, stdin, bufio.NewReader(stdout)}
	t.Cleanup(func() {
		if p.ProcessState == nil {
			_ = p.Process.Kill()
			_ = p.Wait()
		}
	})
	return p
}

// line returns the next line that the process prints, "" if it has ended.
func (p *process) line() string {
	line, _ := p.out.ReadString('\n')
	return strings.TrimSuffix(line, "\n")
}

// kill ends the process as kill -9 does, and returns once it has, with the lines that
// it had printed and nobody had read.
func (p *process) kill() []string {
	p.t.Helper()
	require.NoError(p.t, p.Process.Kill())
	left, err := io.ReadAll(p.out)
	require.NoError(p.t, err)
	_ = p.Wait() // "signal: killed"
	return strings.Fields(string(left))
}

// must ends a process that cannot do what its test needs.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
