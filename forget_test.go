package snowflake

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A store that forgets may have given a code to somebody whom nobody remembers. What keeps
// IDs apart is that a grant begins Settle after whatever that somebody can have been granted.
// The simulator has found these two ways around it.

// A lease is cut off until its ceiling has passed. Another owner takes the code and goes on
// to use it, and is forgotten. What comes back must not use the same ticks.
func TestForgottenOwnerWhileALeaseWasCutOff(t *testing.T) {
	inWorld(t, func(w *world) {
		mayForget := func(k *worker) {
			oneCode(k)
			k.store = forgetfulLink{k.link}
		}
		first := w.holder(mayForget)
		w.pass(time.Second)
		first.cut(true)
		before := first.stored()
		w.pass(2*time.Minute + time.Second)
		require.Nil(w, first.grant())

		second := w.holder(mayForget)
		w.pass(3 * time.Minute)
		mustNext(w, second.generator())
		second.cut(true)
		w.store.forget(0, before)
		first.cut(false)
		w.pass(30 * time.Second)

		require.NotNil(w, first.grant(), "restored")
		require.NotNil(w, second.grant(), "in use")
		require.False(w, first.grant().Floor.Before(second.grant().Ceiling),
			"from %v on, and the other up to %v", first.grant().Floor, second.grant().Ceiling)
	})
}

// A machine is suspended after it has read its clock to acquire a code, and before the
// request is sent. Meanwhile another owner takes the code, and is forgotten.
func TestForgottenOwnerWhileAnAcquisitionWasSuspended(t *testing.T) {
	inWorld(t, func(w *world) {
		mayForget := func(k *worker) {
			oneCode(k)
			k.store = forgetfulLink{k.link}
		}
		first := w.worker(mayForget)
		second := w.worker(mayForget)
		second.clock.step(-time.Minute) // and right again once the minute has passed
		pinned := false
		second.set(func(k *link) {
			k.before = func(op string) {
				if op != "swap" || first.lease.Load() != nil {
					return
				}
				if !pinned { // the layout
					pinned = true
					return
				}
				require.NoError(w, first.acquire(w.Context()))
				first.cut(true)
				w.store.forget(0, Record{})
				second.clock.suspend(time.Minute)
			}
		})
		require.NoError(w, second.acquire(w.Context()))
		require.False(w, second.grant().Floor.Before(first.grant().Ceiling),
			"from %v on, and the other up to %v", second.grant().Floor, first.grant().Ceiling)
	})
}
