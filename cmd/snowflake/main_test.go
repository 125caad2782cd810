package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/snowfence/snowflake"
)

var update = flag.Bool("update", false, "write the output that the scripts expect anew")

// The test binary is the tool too, under the name snowflake.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"snowflake": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("TZ", "America/Caracas") // nothing may depend on it
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "record": record, "sql": execute},
	})
}

// exits STATUS COMMAND... [<FILE] runs a command that must end with a status. What it
// prints is there for stdout, stderr and cmp, as after exec.
func exits(ts *testscript.TestScript, negated bool, args []string) {
	if negated || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND... [<FILE]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	var in io.Reader
	if last := args[len(args)-1]; strings.HasPrefix(last, "<") {
		file, err := os.Open(ts.MkAbs(last[1:]))
		ts.Check(err)
		defer func() { _ = file.Close() }()
		in, args = file, args[:len(args)-1]
	}
	path := args[1]
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if _, err := os.Stat(filepath.Join(dir, path)); err == nil {
			path = filepath.Join(dir, path)
			break
		}
	}
	cmd := exec.Command(path, args[2:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Dir = in, ts.Stdout(), ts.Stderr(), ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "TZ", storeVariable} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	_ = cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != want {
		ts.Fatalf("it exits with %d, must be %d", got, want)
	}
}

// record DIR WORKER OWNER CEILING writes a lease record, and pins region 0 of a folder to
// a layout of two codes.
func record(ts *testscript.TestScript, negated bool, args []string) {
	if negated || len(args) != 4 {
		ts.Fatalf("usage: record DIR WORKER OWNER CEILING")
	}
	store, err := snowflake.DirStore(ts.MkAbs(args[0]))
	ts.Check(err)
	worker, err := strconv.Atoi(args[1])
	ts.Check(err)
	ceiling, err := time.Parse(time.RFC3339, args[3])
	ts.Check(err)
	layout := snowflake.DefaultLayout()
	layout.WorkerBits, layout.SequenceBits = 1, 19
	_, err = store.Swap(context.Background(), snowflake.Record{Worker: layoutWorker},
		snowflake.Record{Worker: layoutWorker, Nonce: "layout", Layout: layout.String()})
	if !errors.Is(err, snowflake.ErrConflict) {
		ts.Check(err)
	}
	_, err = store.Swap(context.Background(), snowflake.Record{Worker: worker}, snowflake.Record{
		Worker: worker, Owner: args[2], Nonce: args[2], Token: 5, Ceiling: ceiling, Layout: layout.String(),
	})
	ts.Check(err)
}

// sql FILE STATEMENT runs a statement in an SQLite database.
func execute(ts *testscript.TestScript, negated bool, args []string) {
	if negated || len(args) != 2 {
		ts.Fatalf("usage: sql FILE STATEMENT")
	}
	db, err := sql.Open("sqlite", ts.MkAbs(args[0]))
	ts.Check(err)
	_, err = db.Exec(args[1])
	ts.Check(errors.Join(err, db.Close()))
}
