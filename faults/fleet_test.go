//go:build unix

package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/snowflaketest"
)

// bound is how long anything may take that must happen at last. Tests share two cores
// with their servers: it is a bound of hope, not of speed.
const bound = 60 * time.Second

// fleet is the workers of one test, and the ledger of all their IDs.
type fleet struct {
	t    *testing.T
	plan Plan // of its workers, where they do not differ

	mu      sync.Mutex
	ledger  *snowflaketest.Ledger
	holds   map[holding]Grant // the last grant of each
	workers []*worker
	repeats int // that were expected: see forgive
	forgive bool
}

// holding is one owner's time with one code.
type holding struct {
	region, code int
	token        uint64
	owner        string
}

// newFleet starts no workers yet. Of the plan, only what is not zero counts.
func newFleet(t *testing.T, store Store, plan Plan) *fleet {
	t.Helper()
	plan.Store = store
	plan.Store.Prefix = newPrefix()
	if plan.TTL == 0 {
		plan.TTL, plan.Renew = 3*time.Second, 600*time.Millisecond
	}
	if plan.WorkerBits == 0 {
		plan.WorkerBits = 5
	}
	if plan.Batch == 0 {
		plan.Batch, plan.Pace = 20, 5*time.Millisecond
	}
	ledger, err := snowflaketest.NewLedger(plan.Layout())
	require.NoError(t, err)
	f := &fleet{t: t, plan: plan, ledger: ledger, holds: make(map[holding]Grant)}
	t.Cleanup(f.end)
	return f
}

// worker is a process.
type worker struct {
	f     *fleet
	plan  Plan
	cmd   *exec.Cmd
	stdin io.Closer
	said  strings.Builder // its standard error
	ended chan struct{}

	// f.mu protects all below.
	acquired []event // codes taken
	ids      int
	first    time.Time // when its first and last IDs came
	last     time.Time
	silence  time.Duration // the longest between two messages with IDs
	refusals []event
	closed   bool
	wanted   bool // its end
}

// event is something that a worker told, and when.
type event struct {
	at    time.Time
	grant Grant
	text  string
}

// start starts a worker. change may change its plan; in is a network namespace, or "".
func (f *fleet) start(change func(*Plan), in string) *worker {
	f.t.Helper()
	path, err := workerProgram()
	require.NoError(f.t, err)
	f.mu.Lock()
	w := &worker{f: f, plan: f.plan, ended: make(chan struct{})}
	w.plan.Owner = fmt.Sprintf("worker %d", len(f.workers))
	f.workers = append(f.workers, w)
	f.mu.Unlock()
	if change != nil {
		change(&w.plan)
	}
	text, err := json.Marshal(w.plan)
	require.NoError(f.t, err)
	w.cmd = exec.Command(path)
	if in != "" {
		w.cmd = exec.Command("ip", "netns", "exec", in, path)
	}
	w.cmd.Env = append(os.Environ(), PlanEnv+"="+string(text), "GORACE=halt_on_error=1")
	w.cmd.Stderr = &w.said
	// Its own group, so that a signal reaches it through "ip netns exec" too.
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	w.stdin, err = w.cmd.StdinPipe()
	require.NoError(f.t, err)
	out, err := w.cmd.StdoutPipe()
	require.NoError(f.t, err)
	require.NoError(f.t, w.cmd.Start())
	go w.read(out)
	return w
}

// starts starts n workers and returns when each has minted.
func (f *fleet) starts(n int) []*worker {
	f.t.Helper()
	var started []*worker
	for range n {
		started = append(started, f.start(nil, ""))
	}
	for _, w := range started {
		w.mints()
	}
	return started
}

// read takes in what a worker prints, until it ends.
func (w *worker) read(out io.Reader) {
	defer close(w.ended)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var m Message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			break // the last line of the killed
		}
		w.f.take(w, m, time.Now())
	}
	err := w.cmd.Wait()
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	if !w.wanted {
		w.f.t.Errorf("%s ended by itself: %v: %s", w.plan.Owner, err, w.said.String())
	}
}

// take enters a message.
func (f *fleet) take(w *worker, m Message, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case m.Acquired != nil:
		w.acquired = append(w.acquired, event{at: now, grant: *m.Acquired})
	case m.Refused != "":
		w.refusals = append(w.refusals, event{at: now, text: m.Refused})
	case m.Closed:
		w.closed = true
	case m.Grant != nil:
		f.enter(w, m, now)
	}
}

// enter enters IDs. mu is held.
func (f *fleet) enter(w *worker, m Message, now time.Time) {
	if n := len(w.acquired); n > 0 && w.acquired[n-1].grant.Token != m.Grant.Token || n > 0 && w.acquired[n-1].grant.Code != m.Grant.Code {
		w.acquired = append(w.acquired, event{at: now, grant: *m.Grant}) // in the background
	}
	if !w.last.IsZero() {
		w.silence = max(w.silence, now.Sub(w.last))
	} else {
		w.first = now
	}
	w.last = now
	key := holding{w.plan.Region, m.Grant.Code, m.Grant.Token, w.plan.Owner}
	if held, ok := f.holds[key]; !ok || m.Grant.Ceiling.After(held.Ceiling) {
		f.holds[key] = *m.Grant
	}
	for _, run := range m.Runs {
		for id := run[0]; id <= run[0]+run[1]; id++ {
			w.ids++
			err := f.ledger.AddGranted(w.plan.Owner, m.Grant.granted(), snowflake.ID(id))
			if err == nil {
				continue
			}
			if f.forgive {
				f.repeats++
				continue
			}
			f.t.Errorf("%s: %v", w.plan.Owner, err)
			return
		}
	}
}

// eventually waits until a condition holds.
func (f *fleet) eventually(what string, holds func() bool) {
	f.t.Helper()
	if !f.within(bound, holds) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, w := range f.workers {
			f.t.Logf("%s: %d IDs, acquired %v, refused %v, %s", w.plan.Owner, w.ids, w.acquired, w.refusals, w.said.String())
		}
		f.t.Fatalf("not after %v: %s", bound, what)
	}
}

// within says whether a condition comes to hold.
func (f *fleet) within(d time.Duration, holds func() bool) bool {
	for deadline := time.Now().Add(d); ; time.Sleep(5 * time.Millisecond) {
		f.mu.Lock()
		ok := holds()
		f.mu.Unlock()
		if ok {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// mints waits until a worker mints, from now on.
func (w *worker) mints() time.Duration {
	w.f.t.Helper()
	began := time.Now()
	w.f.eventually(w.plan.Owner+" mints", func() bool { return w.last.After(began) })
	return time.Since(began)
}

// refuses waits until a worker refuses, from an instant on, and returns how long after it.
func (w *worker) refuses(since time.Time) time.Duration {
	w.f.t.Helper()
	var at time.Time
	w.f.eventually(w.plan.Owner+" refuses", func() bool {
		for _, r := range w.refusals {
			if !r.at.Before(since) {
				at = r.at
				return true
			}
		}
		return false
	})
	return at.Sub(since)
}

// refusedSince says how often a worker has refused.
func (w *worker) refusedSince(since time.Time) (why []string) {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	for _, r := range w.refusals {
		if !r.at.Before(since) {
			why = append(why, r.text)
		}
	}
	return why
}

// grant is the grant that a worker minted under last.
func (w *worker) grant() Grant {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	return w.f.held(w)
}

func (w *worker) signal(s syscall.Signal) {
	w.f.t.Helper()
	require.NoError(w.f.t, syscall.Kill(-w.cmd.Process.Pid, s))
}

// kill ends a worker as a crash does.
func (w *worker) kill() {
	w.f.t.Helper()
	w.wants()
	w.signal(syscall.SIGKILL)
	<-w.ended
}

func (w *worker) wants() {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	w.wanted = true
}

// leave ends a worker in order: it gives its code back.
func (w *worker) leave() {
	w.f.t.Helper()
	w.wants()
	require.NoError(w.f.t, w.stdin.Close())
	select {
	case <-w.ended:
	case <-time.After(bound):
		w.signal(syscall.SIGQUIT)
		<-w.ended
		w.f.t.Fatalf("%s does not end: %s", w.plan.Owner, w.said.String())
	}
}

// end ends all workers.
func (f *fleet) end() {
	for _, w := range f.workers {
		w.wants()
		_ = syscall.Kill(-w.cmd.Process.Pid, syscall.SIGKILL)
		<-w.ended
	}
}

// longestSilence is the longest time without an ID of any worker that is alive.
func (f *fleet) longestSilence(workers []*worker) (longest time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range workers {
		longest = max(longest, w.silence)
	}
	return longest
}

// resetSilence begins anew.
func (f *fleet) resetSilence() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.workers {
		w.silence = 0
	}
}

// audit holds every ceiling that a worker has used against the store, which must know it:
// as high for the same token, or another owner who begins no lower. It returns how many
// IDs were checked in all.
func (f *fleet) audit() int {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	store, closeStore, err := f.plan.Store.Open(ctx)
	require.NoError(f.t, err)
	defer func() { require.NoError(f.t, closeStore()) }()
	f.mu.Lock()
	defer f.mu.Unlock()
	byRegion := make(map[int]map[int]snowflake.Record)
	for h, g := range f.holds {
		if byRegion[h.region] == nil {
			records, err := store.Records(ctx, h.region)
			require.NoError(f.t, err)
			byRegion[h.region] = make(map[int]snowflake.Record)
			for _, r := range records {
				byRegion[h.region][r.Worker] = r
			}
		}
		r := byRegion[h.region][h.code&(1<<f.plan.WorkerBits-1)]
		require.GreaterOrEqual(f.t, r.Token, h.token, "the store has %+v, %s had %+v", r, h.owner, g)
		if r.Token == h.token {
			require.Equal(f.t, h.owner, r.Owner)
			require.True(f.t, r.Released || !r.Ceiling.Before(g.Ceiling), "the store has %+v, %s used %+v", r, h.owner, g)
		}
		for other, with := range f.holds {
			if other.region == h.region && other.code == h.code && other.token > h.token {
				require.False(f.t, with.Floor.Before(g.Floor), "%+v begins at %v, %+v at %v", other, with.Floor, h, g.Floor)
			}
		}
	}
	require.NoError(f.t, f.ledger.Err())
	return f.ledger.Len()
}

// checked is audit for a store that has forgotten.
func (f *fleet) checked() int {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	require.NoError(f.t, f.ledger.Err())
	return f.ledger.Len()
}
