//go:build unix

package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/snowflaketest"
)

// Fleets that are too large for a process each: the workers of these tests are generators of
// this process, on real stores.

const (
	regionWorkers = 200
	regionBits    = 8 // 256 codes
)

// shaky is a store that one worker can lose, as one whose process is killed does.
type shaky struct {
	snowflake.LeaseStore
	requests *atomic.Int64
	dead     atomic.Bool
}

var errDead = errors.New("this worker is dead")

func (s *shaky) Records(ctx context.Context, region int) ([]snowflake.Record, error) {
	if s.dead.Load() {
		return nil, errDead
	}
	s.requests.Add(1)
	return s.LeaseStore.Records(ctx, region)
}

func (s *shaky) Swap(ctx context.Context, old, new snowflake.Record) (snowflake.Record, error) {
	if s.dead.Load() {
		return snowflake.Record{}, errDead
	}
	s.requests.Add(1)
	return s.LeaseStore.Swap(ctx, old, new)
}

// timed is shaky, on a store that can tell the time.
type timed struct{ *shaky }

func (s timed) Time(ctx context.Context) (time.Time, error) {
	clock, ok := s.LeaseStore.(interface {
		Time(ctx context.Context) (time.Time, error)
	})
	if !ok || s.dead.Load() {
		return time.Time{}, errDead
	}
	s.requests.Add(1)
	return clock.Time(ctx)
}

// crowd is many workers of one process.
type crowd struct {
	t        *testing.T
	store    snowflake.LeaseStore
	cfg      snowflake.LeaseConfig
	ledger   *snowflaketest.Ledger
	requests atomic.Int64
	count    atomic.Int32
	slowest  longest // to acquire
	close    func() error

	mu      sync.Mutex
	members []*member // all that have joined
}

// longest is the longest of some times.
type longest struct {
	mu sync.Mutex
	d  time.Duration
}

func (l *longest) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.d = max(l.d, d)
}

func (l *longest) get() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.d
}

// member is a worker of it.
type member struct {
	lease *snowflake.WorkerLease
	gen   *snowflake.Generator
	store *shaky
}

func newCrowd(t *testing.T, b backend, cfg snowflake.LeaseConfig) *crowd {
	t.Helper()
	where := b.shared(t)
	where.Prefix = newPrefix()
	store, closeStore, err := where.Open(t.Context())
	require.NoError(t, err)
	cfg.Layout = Plan{WorkerBits: regionBits}.Layout()
	ledger, err := snowflaketest.NewLedger(cfg.Layout)
	require.NoError(t, err)
	return &crowd{t: t, store: store, cfg: cfg, ledger: ledger, close: closeStore}
}

// join starts a worker, which mints.
func (c *crowd) join() (*member, error) {
	m := &member{store: &shaky{LeaseStore: c.store, requests: &c.requests}}
	var store snowflake.LeaseStore = m.store
	if _, ok := c.store.(interface {
		Time(ctx context.Context) (time.Time, error)
	}); ok {
		store = timed{m.store}
	}
	cfg := c.cfg
	cfg.Owner = fmt.Sprintf("worker %d", c.count.Add(1))
	began := time.Now()
	lease, err := snowflake.AcquireLease(context.Background(), store, cfg)
	if err != nil {
		return nil, err
	}
	c.slowest.add(time.Since(began))
	m.lease = lease
	m.gen, err = snowflake.New(context.Background(), snowflake.Config{Lease: lease})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.members = append(c.members, m)
	c.mu.Unlock()
	return m, c.mint(m, cfg.Owner)
}

// end ends all workers and closes the store.
func (c *crowd) end() {
	c.leave(living(c.members))
	require.NoError(c.t, c.close())
}

func (c *crowd) mint(m *member, owner string) error {
	ids := make([]snowflake.ID, 20)
	n, err := m.gen.Fill(context.Background(), ids)
	return errors.Join(err, c.ledger.Add(owner, ids[:n]...))
}

// joins starts many at once.
func (c *crowd) joins(n int) []*member {
	c.t.Helper()
	members, errs := make([]*member, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { members[i], errs[i] = c.join() })
	}
	all.Wait()
	require.NoError(c.t, errors.Join(errs...))
	return members
}

// leave ends workers: they give their codes back.
func (c *crowd) leave(members []*member) {
	c.t.Helper()
	var all sync.WaitGroup
	errs := make([]error, len(members))
	for i, m := range members {
		all.Go(func() { errs[i] = m.gen.Close(context.Background()) })
	}
	all.Wait()
	require.NoError(c.t, errors.Join(errs...))
}

// crash ends a worker as a kill does: the store hears nothing of it.
func (m *member) crash() {
	m.store.dead.Store(true)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = m.gen.Close(ctx)
}

// A rolling restart of a region, 25 workers at a time, new before old, one in ten of the old
// crashing: nobody waits for a code longer than a lease lasts.
func TestRollingRestart(t *testing.T) {
	for _, b := range backends() { // one after the other: they are timed
		t.Run(b.kind, func(t *testing.T) { rollingRestart(t, b) })
	}
}

func rollingRestart(t *testing.T, b backend) {
	t.Helper()
	const surge, crashes = 25, 10
	c := newCrowd(t, b, snowflake.LeaseConfig{})
	members := c.joins(regionWorkers)
	c.slowest = longest{}
	began := time.Now()
	for i := 0; i < regionWorkers; i += surge {
		fresh, old := c.joins(surge), members[i:i+surge]
		for j, m := range old {
			if j%crashes == 0 {
				m.crash()
			}
		}
		c.leave(living(old))
		copy(old, fresh)
	}
	took := time.Since(began)
	slowest := c.slowest.get()
	require.Less(t, slowest, 2*time.Minute)
	c.end()
	require.NoError(t, c.ledger.Err())
	results.add(result{
		order: 120, fault: "rolling restart of 200 workers over 256 codes", store: b.kind, ids: c.ledger.Len(),
		note: fmt.Sprintf("%d at a time, one in %d crashes: %s in all, the slowest waited %s for its code", surge, crashes, shown(took), shown(slowest)),
	})
}

func living(members []*member) (alive []*member) {
	for _, m := range members {
		if !m.store.dead.Load() {
			alive = append(alive, m)
		}
	}
	return alive
}

// 2,000 processes are started and killed, 10 alive at any time: the codes last.
func TestStartsAndKills(t *testing.T) {
	t.Parallel()
	const alive, cycles = 10, 2000
	b := dirBackend
	f := newFleet(t, b.shared(t), Plan{WorkerBits: regionBits, TTL: 6 * time.Second, Renew: 2 * time.Second, Batch: 5, Pace: 20 * time.Millisecond})
	began := time.Now()
	next := make(chan struct{}, cycles)
	for range cycles {
		next <- struct{}{}
	}
	close(next)
	var all sync.WaitGroup
	var slowest longest
	for range alive {
		all.Go(func() {
			for range next {
				started := time.Now()
				w := f.start(nil, "")
				if !f.within(bound, func() bool { return w.ids > 0 }) {
					t.Errorf("%s mints nothing: %v", w.plan.Owner, w.refusedSince(time.Time{}))
				}
				slowest.add(time.Since(started))
				for _, why := range w.refusedSince(time.Time{}) { // a slow answer is none of this test
					if strings.Contains(why, snowflake.ErrNoWorkerCode.Error()) {
						t.Errorf("%s found no code: %s", w.plan.Owner, why)
					}
				}
				w.kill()
			}
		})
	}
	all.Wait()
	results.add(result{
		order: 130, fault: "2,000 starts and kills, 10 alive", store: b.kind, ids: f.audit(),
		note: fmt.Sprintf("in %s; 256 codes, one free for each, the slowest minted %s after its start", shown(time.Since(began)), shown(slowest.get())),
	})
}
