//go:build unix

package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Clocks that are wrong by less than MaxClockSkew, and clocks that step: their workers mint,
// or refuse while they cannot, and no two IDs are equal.
func TestSkewedClocks(t *testing.T) {
	onEach(t, backends(), func(t *testing.T, b backend) {
		f := newFleet(t, b.shared(t), Plan{TTL: 30 * time.Second, Renew: time.Second, MaxClockSkew: 15 * time.Second})
		var workers []*worker
		for _, offset := range []time.Duration{0, 0, -10 * time.Second, 10 * time.Second, -3 * time.Second, 3 * time.Second} {
			workers = append(workers, f.start(func(p *Plan) { p.Offset = offset }, ""))
		}
		f.allMint(workers)
		for range 6 { // takeovers between wrong clocks: the code is free only above what was used
			workers[2].leave()
			workers[3].leave()
			workers[2] = f.start(func(p *Plan) { p.Offset = -10 * time.Second }, "")
			workers[3] = f.start(func(p *Plan) { p.Offset = 10 * time.Second }, "")
			f.allMint(workers[2:4])
		}
		f.allMint(workers)
		f.leave(workers)
		results.add(result{
			order: 70, fault: "wall clocks skewed by -10 s to +10 s, MaxClockSkew 15 s", store: b.kind, ids: f.audit(),
			note: "all mint",
		})
	})
}

func TestSteppingClocks(t *testing.T) {
	onEach(t, backends(), func(t *testing.T, b backend) {
		f := newFleet(t, b.shared(t), Plan{TTL: 6 * time.Second, Renew: time.Second})
		right := f.starts(2)
		var stepping []*worker
		for _, step := range []time.Duration{40 * time.Millisecond, -40 * time.Millisecond, 3 * time.Second, -3 * time.Second, 20 * time.Second, -20 * time.Second} {
			stepping = append(stepping, f.start(func(p *Plan) { p.Step, p.Every, p.Steps = step, 700*time.Millisecond, 10 }, ""))
		}
		began := time.Now()
		f.allMint(stepping)
		time.Sleep(time.Until(began.Add(10 * 700 * time.Millisecond))) // the last step is then behind it
		ended := time.Now()
		f.allMint(stepping)
		healed := time.Since(ended)
		f.allMint(right)
		lost := 0
		for _, w := range right {
			for _, why := range w.refusedSince(began) {
				// To a clock that is 20 s ahead, and that the store cannot contradict, every code is
				// free: one in 256 is that of a right worker, which then takes another.
				taken := strings.Contains(why, "another owner has taken the code")
				require.True(t, taken && !b.tellsTime, why)
				lost = 1
			}
		}
		note := "the right clocks' workers refused nothing"
		if lost > 0 {
			note = "one with a right clock lost its code to one that was ahead, and took another"
		}
		silence := f.longestSilence(stepping)
		f.leave(append(stepping, right...))
		results.add(result{
			order: 71, fault: "wall clocks that step by 40 ms, 3 s and 20 s either way", store: b.kind, ids: f.audit(), stopped: silence, healed: healed,
			note: "10 steps each, 700 ms apart; " + note,
		})
	})
}

// One clock stands an hour, or ten years, ahead. A store that can tell the time has it
// refused. On one that cannot, all codes seem free to it: each start costs one code, which
// is then used up to that time, and at most one living worker its code; living peers
// contradict it from then on. The region goes on.
func TestOneClockFarAhead(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"an hour": time.Hour, "ten years": 10 * 365 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			onEach(t, backends(), func(t *testing.T, b backend) {
				f := newFleet(t, b.shared(t), Plan{WorkerBits: 4})
				wrong := func(p *Plan) { p.Offset = ahead }
				early := f.start(wrong, "") // nobody is there to contradict it
				time.Sleep(time.Second)
				right := f.starts(4)
				late := f.start(wrong, "")
				contradicted := func(w *worker) bool {
					for _, r := range w.refusals {
						if strings.Contains(r.text, "clock") {
							return true
						}
					}
					return false
				}
				f.eventually("both are contradicted", func() bool { return contradicted(early) && contradicted(late) })
				began := time.Now()
				time.Sleep(5 * f.plan.Renew)
				right = append(right, f.start(nil, ""))
				f.allMint(right)
				for _, w := range right {
					require.Empty(t, w.refusedSince(began))
				}
				spent := f.spent(began.Add(ahead / 2))
				if b.tellsTime {
					require.Zero(t, spent)
				}
				require.LessOrEqual(t, spent, 2, "one for each start")
				silence := f.longestSilence(right)
				f.leave(right)
				early.kill()
				late.kill()
				results.add(result{
					order: 80, fault: "two workers with a clock " + name + " ahead", store: b.kind, ids: f.audit(),
					note: fmt.Sprintf("both refused; they cost %d of 16 codes; longest pause of a right worker %s", spent, shown(silence)),
				})
			})
		})
	}
}

// spent returns how many codes were used beyond an instant.
func (f *fleet) spent(beyond time.Time) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	codes := make(map[int]bool)
	for h, g := range f.holds {
		if g.Ceiling.After(beyond) {
			codes[h.code] = true
		}
	}
	return len(codes)
}
