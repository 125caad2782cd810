package bench

import "testing"

// each runs a workload for every peer that its layout does not bound.
func each(b *testing.B, run func(*testing.B, Source), suits func(Peer, Source) bool) {
	for _, p := range Peers() {
		b.Run(p.Name, func(b *testing.B) {
			s, err := p.Open(WideBits)
			if err != nil {
				b.Fatal(err)
			}
			if s.Close != nil {
				defer s.Close()
			}
			if !suits(p, s) {
				b.Skip("bounded by its layout, or without such a call")
			}
			run(b, s)
		})
	}
}

func unbounded(p Peer, _ Source) bool { return p.Chosen || p.Runs || p.Limit == 0 }
func fills(_ Peer, s Source) bool     { return s.Fill != nil }

func BenchmarkCost(b *testing.B)     { each(b, Cost, unbounded) }
func BenchmarkParallel(b *testing.B) { each(b, Parallel, unbounded) }
func BenchmarkFill(b *testing.B)     { each(b, Fill, fills) }
