//go:build unix

package faults

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A worker that is killed leaves its code reserved up to its ceiling; whoever takes the
// code then begins there.
func TestKill(t *testing.T) {
	onEach(t, backends(), func(t *testing.T, b backend) {
		const workers, kills = 4, 12
		f := newFleet(t, b.shared(t), Plan{WorkerBits: 4, TTL: 1500 * time.Millisecond, Renew: 300 * time.Millisecond})
		alive := f.starts(workers)
		var slowest time.Duration
		for range kills {
			i := rand.IntN(workers)
			alive[i].kill()
			began := time.Now()
			alive[i] = f.start(nil, "")
			alive[i].mints()
			slowest = max(slowest, time.Since(began))
		}
		for _, w := range alive {
			w.leave()
		}
		results.add(result{
			order: 10, fault: "kill -9 and restart in a loop", store: b.kind, ids: f.audit(), healed: slowest,
			note: fmt.Sprintf("%d kills of %d workers", kills, workers),
		})
	})
}

// A worker that is stopped past its lease, while another takes the same code, has minted
// nothing above its ceiling, and refuses as soon as it is resumed. Two codes, both held:
// it has no other to take. When one is free it heals.
func TestStopAndContinue(t *testing.T) {
	onEach(t, backends(), func(t *testing.T, b backend) {
		f := newFleet(t, b.shared(t), Plan{WorkerBits: 1})
		both := f.starts(2)
		stopped := both[0]
		old := stopped.grant()
		stopped.signal(syscall.SIGSTOP)
		began := time.Now()
		successor := f.start(nil, "")
		successor.mints()
		reused := time.Since(began)
		taken := successor.grant()
		require.Equal(t, old.Code, taken.Code)
		require.Equal(t, old.Token+1, taken.Token)
		require.False(t, taken.Floor.Before(old.Ceiling), "%+v after %+v", taken, old)

		resumed := time.Now()
		stopped.signal(syscall.SIGCONT)
		refused := stopped.refuses(resumed)
		successor.leave()
		left := time.Now()
		healed := stopped.mints()
		require.Greater(t, stopped.grant().Token, taken.Token)

		killed := time.Now()
		stopped.kill()
		heir := f.start(nil, "")
		heir.mints()
		costs.note(b.kind, func(row *cost) {
			row.ttl, row.reused, row.refused = f.plan.TTL, time.Since(killed), refused
		})
		f.leave([]*worker{both[1], heir})
		results.add(result{
			order: 20, fault: "SIGSTOP past the lease, a successor on the code, SIGCONT", store: b.kind, ids: f.audit(),
			stopped: left.Sub(began) + healed, healed: healed,
			note: fmt.Sprintf("code reused %s after the stop; refused %s after SIGCONT; fresh code when one was free", shown(reused), shown(refused)),
		})
	})
}
