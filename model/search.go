package main

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

//go:embed *.pml
var models embed.FS

// search is one run of spin over one model with one set of options.
type search struct {
	name   string // of the break, an option of the model; "": none, nothing may be found
	stands string // what the break stands for
	file   string
	bounds string // the options of the search
	cycles bool   // looks for runs in which what must happen again and again does not
	large  bool   // not for CI
}

// result is what a search came to.
type result struct {
	states   int64
	depth    int64
	found    string // which promise is broken
	complete bool   // every reachable state was seen
	cpu      time.Duration
	err      error
}

func (s search) title() string {
	return strings.Join(strings.Fields(s.file+" "+s.bounds+" "+s.name), " ")
}

func (s search) options() []string {
	var options []string
	for _, option := range strings.Fields(s.bounds + " " + s.name) {
		options = append(options, "-D"+option)
	}
	if s.name != "" && !s.cycles {
		options = append(options, "-DIDS_ONLY")
	}
	return options
}

// judge says what is wrong with a result.
func (s search) judge(r result) error {
	switch {
	case r.err != nil:
		return r.err
	case s.name != "" && r.found == "":
		return errors.New("the break was not found")
	case s.name == "" && r.found != "":
		return fmt.Errorf("the protocol is broken: %s", r.found)
	case s.name == "" && !r.complete:
		return errors.New("the search was not exhaustive")
	}
	return nil
}

func (r result) String() string {
	switch {
	case r.err != nil:
		return r.err.Error()
	case r.found != "":
		return fmt.Sprintf("%s: %d states, %d steps, %.1f s", r.found, r.states, r.depth, r.cpu.Seconds())
	case !r.complete:
		return fmt.Sprintf("INCOMPLETE: %d states, %.1f s", r.states, r.cpu.Seconds())
	}
	return fmt.Sprintf("sound: %d states, depth %d, %.1f s", r.states, r.depth, r.cpu.Seconds())
}

func (s search) run() result {
	dir, err := os.MkdirTemp("", "snowflake-model-")
	if err != nil {
		return result{err: err}
	}
	defer func() { _ = os.RemoveAll(dir) }()
	return s.searchIn(dir)
}

const (
	memoryLimit = "3000"    // MiB
	depthLimit  = "5000000" // steps; a search that needs more is not exhaustive
)

// searchIn generates, compiles and runs the search.
func (s search) searchIn(dir string) result {
	model, err := models.ReadFile(s.file)
	if err != nil {
		return result{err: err}
	}
	if err := os.WriteFile(filepath.Join(dir, s.file), model, 0o600); err != nil {
		return result{err: err}
	}
	if out, _, err := command(dir, "spin", append(s.options(), "-a", s.file)...); err != nil {
		return result{err: fmt.Errorf("spin: %w: %s", err, out)}
	}
	compile := []string{"-O1", "-w", "-DMEMLIM=" + memoryLimit, "-DNOREDUCE", "-o", "pan", "pan.c"}
	search := []string{"-n", "-m" + depthLimit}
	switch {
	case s.cycles:
		compile = append(compile, "-DCOLLAPSE", "-DNFAIR=8") // fairness to more than two processes
		search = append(search, "-a", "-f")
	case s.name != "" && s.file != settle: // there it takes too much memory
		compile = append(compile, "-DSAFETY", "-DBFS") // the first way found is a shortest one
		search = []string{"-n"}
	default:
		compile = append(compile, "-DSAFETY", "-DCOLLAPSE")
	}
	if out, _, err := command(dir, "gcc", compile...); err != nil {
		return result{err: fmt.Errorf("gcc: %w: %s", err, out)}
	}
	out, cpu, err := command(dir, "./pan", search...)
	r := parse(out)
	r.cpu = cpu
	if r.err != nil && err != nil {
		r.err = fmt.Errorf("pan: %w: %s", err, out)
	}
	return r
}

func command(dir, name string, args ...string) (out string, cpu time.Duration, err error) {
	c := exec.Command(name, args...)
	c.Dir = dir
	text, err := c.CombinedOutput()
	if c.ProcessState != nil {
		cpu = c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	}
	return string(text), cpu, err
}

var (
	summary   = regexp.MustCompile(`depth reached (\d+), errors: (\d+)`)
	stored    = regexp.MustCompile(`(?m)^\s*([\d.e+]+) states, stored`)
	violated  = regexp.MustCompile(`pan:\d+: (.*) \(at depth (\d+)\)`)
	truncated = regexp.MustCompile(`max search depth too small|out of memory|not completed|reached -DMEMLIM|out of -DMEMLIM`)
)

// parse reads what pan prints.
func parse(out string) result {
	var r result
	number := func(text string) int64 {
		n, err := strconv.ParseFloat(text, 64) // large ones are printed so
		if err != nil {
			r.err = err
		}
		return int64(n)
	}
	total, states := summary.FindStringSubmatch(out), stored.FindStringSubmatch(out)
	if total == nil || states == nil {
		return result{err: errors.New("pan: no summary")}
	}
	r.depth, r.states = number(total[1]), number(states[1])
	if v := violated.FindStringSubmatch(out); v != nil {
		r.found, r.depth = promise(v[1]), number(v[2])
	}
	if r.found == "" && total[2] != "0" { // nothing that a break is meant to show
		r.err = fmt.Errorf("pan: %.300s", out)
	}
	r.complete = r.found == "" && !truncated.MatchString(out)
	return r
}

// promise names what an assertion of the models stands for, "" if it is not one of theirs.
func promise(assertion string) string {
	for _, p := range []struct{ text, name string }{
		{"used", "equal IDs"},
		{".at", "IDs do not rise"},
		{"acceptance cycle", "an owner never issues again"},
		{"ceil", "ceiling below one revealed"},
		{"durable", "mark below one revealed"},
	} {
		if strings.Contains(assertion, p.text) {
			return p.name
		}
	}
	return ""
}
