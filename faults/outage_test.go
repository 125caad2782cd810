//go:build unix

package faults

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// slack is how much later than promised a loaded machine may be.
const slack = 5 * time.Second

// The server of the store is killed. Its workers go on inside what they have been granted,
// then refuse, and heal on the codes that they had when it is back.
func TestStoreKilled(t *testing.T) {
	onEach(t, remote(), func(t *testing.T, b backend) {
		server := b.own(t)
		f := newFleet(t, b.open(t, server, server.Address()), Plan{})
		workers := f.starts(3)
		codes := f.codes(workers)

		killed := time.Now()
		require.NoError(t, server.Kill())
		first, last := f.allRefuse(workers, killed)
		require.Less(t, last, f.plan.TTL+slack)
		require.Greater(t, first, f.plan.TTL-2*f.plan.Renew, "they should go on inside the safe interval")

		require.NoError(t, server.Restart())
		back := time.Now()
		f.allMint(workers)
		healed := time.Since(back)
		require.Equal(t, codes, f.codes(workers), "healed on the codes that they had")
		silence := f.longestSilence(workers)
		f.leave(workers)
		results.add(result{
			order: 30, fault: "store killed (SIGKILL), restarted later", store: b.kind, ids: f.audit(), stopped: silence, healed: healed,
			note: fmt.Sprintf("went on for %s to %s, then refused; same codes and tokens afterwards", shown(first), shown(last)),
		})
	})
}

// Answers come later than an attempt lasts: each attempt's outcome is unknown, though every
// write lands.
func TestSlowStore(t *testing.T) {
	onEach(t, remote(), func(t *testing.T, b backend) {
		store, network := b.behind(t)
		f := newFleet(t, store, Plan{})
		workers := f.starts(3)
		codes := f.codes(workers)
		slow := time.Now()
		network.set(func(p *proxy) { p.delay = f.plan.Renew * 3 / 2 })
		_, last := f.allRefuse(workers, slow)
		network.set(func(p *proxy) { p.delay = 0 })
		fast := time.Now()
		f.allMint(workers)
		healed := time.Since(fast)
		require.Equal(t, codes, f.codes(workers))
		silence := f.longestSilence(workers)
		f.leave(workers)
		results.add(result{
			order: 50, fault: "answers delayed past the renewal interval", store: b.kind, ids: f.audit(), stopped: silence, healed: healed,
			note: fmt.Sprintf("refused after %s at most; same codes and tokens afterwards", shown(last)),
		})
	})
}

// Connections are reset instead of carrying every seventh answer: what was asked for has
// been done, and the worker is not told.
func TestResetsAfterTheCommit(t *testing.T) {
	onEach(t, remote(), func(t *testing.T, b backend) {
		store, network := b.behind(t)
		f := newFleet(t, store, Plan{Renew: 150 * time.Millisecond, TTL: 3 * time.Second})
		workers := f.starts(3)
		f.resetSilence()
		network.set(func(p *proxy) { p.every = 7 })
		f.eventually("connections break", func() bool {
			network.mu.Lock()
			defer network.mu.Unlock()
			return network.broken >= 60
		})
		for range 3 { // and codes are taken
			workers = append(workers, f.start(nil, ""))
		}
		f.allMint(workers)
		silence := f.longestSilence(workers)
		network.set(func(p *proxy) { p.every = 0 })
		f.allMint(workers)
		f.leave(workers)
		results.add(result{
			order: 60, fault: "connections reset after the commit", store: b.kind, ids: f.audit(), stopped: silence,
			note: fmt.Sprintf("%d resets, during renewals and acquires", network.broken),
		})
	})
}

// The stores of three regions are unreachable: the fourth does not notice.
func TestOtherRegionsAreUnreachable(t *testing.T) {
	onEach(t, remote(), func(t *testing.T, b backend) {
		store, network := b.behind(t)
		far := store
		f := newFleet(t, b.shared(t), Plan{})
		far.Prefix = f.plan.Store.Prefix
		here := f.starts(2)
		var others []*worker
		for region := 1; region < 4; region++ {
			others = append(others, f.start(func(p *Plan) { p.Region, p.Store = region, far }, ""))
		}
		f.allMint(others)
		f.resetSilence()
		cut := time.Now()
		network.hold()
		f.allRefuse(others, cut)
		for _, w := range here {
			w.mints()
			require.Empty(t, w.refusedSince(cut))
		}
		silence := f.longestSilence(here)
		network.release()
		back := time.Now()
		f.allMint(others)
		healed := time.Since(back)
		f.leave(append(others, here...))
		results.add(result{
			order: 100, fault: "stores of the three other regions unreachable", store: b.kind, ids: f.audit(), healed: healed,
			note: fmt.Sprintf("the region whose store answers: nothing refused, longest pause between two IDs %s; the others stopped and healed", shown(silence)),
		})
	})
}

// The store fails over for 90 s, at the default TTL of 2 min: nobody stops.
func TestFailoverOf90Seconds(t *testing.T) {
	onEach(t, remote(), func(t *testing.T, b backend) {
		store, network := b.behind(t)
		f := newFleet(t, store, Plan{TTL: 2 * time.Minute, Renew: 20 * time.Second, Batch: 5, Pace: 20 * time.Millisecond})
		workers := f.starts(5)
		f.resetSilence()
		began := time.Now()
		network.hold() // first a black hole, then refused connections
		time.Sleep(45 * time.Second)
		network.cut()
		network.release()
		time.Sleep(time.Until(began.Add(90 * time.Second)))
		network.mend(network.target)
		ceilings := f.ceilings(workers)
		f.eventually("all renew", func() bool {
			for i, w := range workers {
				if !f.held(w).Ceiling.After(ceilings[i]) {
					return false
				}
			}
			return true
		})
		for _, w := range workers {
			require.Empty(t, w.refusedSince(began))
		}
		silence := f.longestSilence(workers)
		f.leave(workers)
		results.add(result{
			order: 110, fault: "store failover of 90 s at the default TTL", store: b.kind, ids: f.audit(),
			note: "5 workers, nothing refused, longest pause between two IDs " + shown(silence),
		})
	})
}

// allRefuse waits until each worker refuses and returns when the first and the last did.
func (f *fleet) allRefuse(workers []*worker, since time.Time) (first, last time.Duration) {
	f.t.Helper()
	for i, w := range workers {
		after := w.refuses(since)
		if i == 0 || after < first {
			first = after
		}
		last = max(last, after)
	}
	return first, last
}

// allMint waits until each worker mints, from now on.
func (f *fleet) allMint(workers []*worker) {
	f.t.Helper()
	now := time.Now()
	for _, w := range workers {
		f.eventually(w.plan.Owner+" mints", func() bool { return w.last.After(now) })
	}
}

// leave ends workers in order.
func (f *fleet) leave(workers []*worker) {
	f.t.Helper()
	for _, w := range workers {
		w.leave()
	}
}

// codes returns which codes, by which tokens, the workers have.
func (f *fleet) codes(workers []*worker) (codes [][2]int) {
	for _, w := range workers {
		g := w.grant()
		codes = append(codes, [2]int{g.Code, int(g.Token)})
	}
	return codes
}

func (f *fleet) ceilings(workers []*worker) (ceilings []time.Time) {
	for _, w := range workers {
		ceilings = append(ceilings, w.grant().Ceiling)
	}
	return ceilings
}

// held is what a worker minted under last. f.mu is held.
func (f *fleet) held(w *worker) Grant {
	last := w.acquired[len(w.acquired)-1].grant
	if g, ok := f.holds[holding{w.plan.Region, last.Code, last.Token, w.plan.Owner}]; ok {
		return g
	}
	return last
}
