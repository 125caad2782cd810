//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// fleet is the parent's view of its worker processes. One goroutine uses it.
type fleet struct {
	dir    string
	chunks []chunk
	todo   []int // numbers of chunks that nobody works on
	done   int
	events chan event
	ledger ledger

	processes   []*process
	killed      *process
	replacement *process // of the killed
	stopped     *process
}

// process is one worker process.
type process struct {
	cmd     *exec.Cmd
	started time.Time
	stdin   io.WriteCloser
	grants  []grant // as reported, the latest last
	chunk   int     // it works on; 0: none
	rows    int
	gone    bool
	// What became of it.
	end     string
	paused  int // how many grants it had reported when it was stopped; 0: it was not
	refused string
	healed  bool
}

// event is a message of a process, or its end.
type event struct {
	from  *process
	said  message
	ended bool
	err   error
}

func newFleet(dir string, chunks []chunk) *fleet {
	f := &fleet{dir: dir, chunks: chunks, events: make(chan event, 64), ledger: newLedger()}
	for _, c := range chunks {
		f.todo = append(f.todo, c.Number)
	}
	return f
}

// start starts a worker.
func (f *fleet) start() error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), workerEnv+"="+f.dir)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the parent, which ends the workers
	p := &process{cmd: cmd, started: time.Now()}
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	f.processes = append(f.processes, p)
	go func() {
		lines := bufio.NewScanner(stdout)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var m message
			if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
				break // cut off by a kill
			}
			f.events <- event{from: p, said: m}
		}
		f.events <- event{from: p, ended: true, err: cmd.Wait()}
	}()
	return nil
}

// startAndWait starts a worker and waits for its first grant.
func (f *fleet) startAndWait(until func(string, func() bool) error) (*process, error) {
	if err := f.start(); err != nil {
		return nil, err
	}
	p := f.processes[len(f.processes)-1]
	return p, until("a new worker has a code", func() bool { return len(p.grants) > 0 })
}

// handle takes in what a process said, and gives it more to do.
func (f *fleet) handle(e event) error {
	p := e.from
	switch {
	case e.ended:
		p.gone = true
		if p.end == "" {
			return fmt.Errorf("worker %d ended: %w", p.cmd.Process.Pid, errors.Join(errors.New("nobody asked it to"), e.err))
		}
		if p.chunk != 0 {
			f.todo = append(f.todo, p.chunk) // for somebody else
			p.chunk = 0
		}
		return f.assignAll()
	case e.said.Grant != nil:
		p.grants = append(p.grants, *e.said.Grant)
		f.ledger.grant(p, *e.said.Grant)
		if p.paused > 0 && !p.healed && !e.said.Grant.continues(p.oldGrant()) {
			p.healed = true
			return f.assignAll() // what was kept for it
		}
	case e.said.Refused != "":
		p.refused = e.said.Refused
		return nil
	case e.said.Chunk != 0:
		if err := f.ledger.minted(p, e.said.IDs); err != nil {
			return err
		}
		p.rows += len(f.chunks[e.said.Chunk-1].Rows)
		p.chunk = 0
		f.done++
	}
	return f.assign(p)
}

// assign gives a process that has nothing to do its next chunk.
func (f *fleet) assign(p *process) error {
	kept := 0 // for the stopped worker, so that it must mint when it is resumed
	if f.stopped != nil && p != f.stopped && !f.stopped.healed {
		kept = 2
	}
	if p.chunk != 0 || p.end != "" || p.gone || len(p.grants) == 0 || len(f.todo) <= kept {
		return nil
	}
	p.chunk, f.todo = f.todo[0], f.todo[1:]
	if _, err := fmt.Fprintln(p.stdin, p.chunk); err != nil && !errors.Is(err, syscall.EPIPE) {
		return err
	}
	return nil
}

func (f *fleet) assignAll() error {
	for _, p := range f.processes {
		if err := f.assign(p); err != nil {
			return err
		}
	}
	return nil
}

// continues says whether g is the same owner's turn at the same code as old.
func (g grant) continues(old grant) bool { return g.Code == old.Code && g.Token == old.Token }

func (p *process) grant() grant { return p.grants[len(p.grants)-1] }

// oldGrant is the last grant before the process was stopped.
func (p *process) oldGrant() grant { return p.grants[p.paused-1] }

// busy returns a worker in the middle of something, that nothing has happened to yet.
func (f *fleet) busy() *process {
	for _, p := range f.processes {
		if p.chunk != 0 && p.end == "" && p != f.killed && p != f.stopped {
			return p
		}
	}
	return f.processes[0]
}

func (f *fleet) kill(p *process) {
	p.end = "killed (SIGKILL)"
	f.signal(p, syscall.SIGKILL)
}

func (f *fleet) signal(p *process, s syscall.Signal) {
	_ = p.cmd.Process.Signal(s) // one that has ended needs none
}

// stop stops a worker, as a debugger does or a host that hangs. It takes the lock of the
// leases meanwhile: a process that was stopped in the middle of an operation on them would
// hold it, and everybody else up, which is a limit of DirStore and not of this story.
func (f *fleet) stop(p *process) error {
	lock, err := os.OpenFile(filepath.Join(f.dir, leasesName, "region-0", "lock"), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return errors.Join(err, lock.Close())
	}
	p.paused = len(p.grants)
	f.signal(p, syscall.SIGSTOP)
	return errors.Join(awaitStopped(p.cmd.Process.Pid), lock.Close()) // unlocks
}

// awaitStopped returns when a process has obeyed SIGSTOP: until then it could still lock.
func awaitStopped(pid int) error {
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return fmt.Errorf("stopping worker %d: %w", pid, err)
		case status.Stopped():
			return nil
		default:
			return fmt.Errorf("stopping worker %d: it has ended", pid)
		}
	}
}

// close asks a worker to finish, and to give its code back.
func (f *fleet) close(p *process) {
	if p.end == "" {
		p.end = "closed"
		_ = p.stdin.Close()
	}
}

func (f *fleet) closeAll() {
	for _, p := range f.processes {
		f.close(p)
	}
}

// killAll leaves nothing behind, whatever happened.
func (f *fleet) killAll() {
	for _, p := range f.processes {
		if !p.gone {
			p.end = "killed at the end"
			f.signal(p, syscall.SIGKILL)
		}
	}
	for deadline := time.After(10 * time.Second); f.alive() > 0; {
		select {
		case e := <-f.events:
			_ = f.handle(e) // the run has failed or ended before
		case <-deadline:
			return
		}
	}
}

func (f *fleet) alive() (n int) {
	for _, p := range f.processes {
		if !p.gone {
			n++
		}
	}
	return n
}

// successor says whether somebody else has got the code that p had when it was killed or
// stopped.
func (f *fleet) successor(p *process) bool { return f.ledger.after(p) != nil }
