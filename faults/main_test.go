//go:build unix

package faults

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/snowfence/snowflake/internal/etcdserver"
	"github.com/snowfence/snowflake/internal/servers/servertest"
)

var write = flag.Bool("faults.write", false, "write the results into docs/faults.md and docs/stores.md")

func TestMain(m *testing.M) {
	etcdserver.Main()
	flag.Parse()
	// Tests wait more than they work.
	_ = flag.Set("test.parallel", "8")
	code := m.Run()
	running.Stop()
	_ = os.RemoveAll(program.dir)
	fmt.Print(results.table(), costs.table())
	if *write && code == 0 {
		if err := errors.Join(results.write("../docs/faults.md"), costs.write("../docs/stores.md")); err != nil {
			fmt.Println(err)
			code = 1
		}
	}
	os.Exit(code)
}

// program is the worker, built once.
var program struct {
	once      sync.Once
	dir, path string
	err       error
}

func workerProgram() (string, error) {
	program.once.Do(func() {
		if program.dir, program.err = os.MkdirTemp("", "faults"); program.err != nil {
			return
		}
		program.path = filepath.Join(program.dir, "worker")
		args := []string{"build", "-o", program.path}
		if raceDetector {
			args = append(args, "-race")
		}
		if out, err := exec.Command("go", append(args, "./worker")...).CombinedOutput(); err != nil {
			program.err = fmt.Errorf("building the worker: %w: %s", err, out)
		}
	})
	return program.path, program.err
}

// running are the servers that tests share.
var running servertest.Group
