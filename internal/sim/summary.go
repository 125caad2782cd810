package sim

import "fmt"

// Summary is what many runs did.
type Summary struct {
	Seeds   int            `json:"seeds"`
	First   uint64         `json:"first_seed"`
	Last    uint64         `json:"last_seed"`
	IDs     int            `json:"ids"`
	Claims  int            `json:"claims"`
	Seconds float64        `json:"seconds"`
	Hits    map[string]int `json:"hits"`
	Errors  map[string]int `json:"refusals"`
	Shapes  map[string]int `json:"shapes"`
}

// Add adds one run.
func (s *Summary) Add(r Report) {
	s.Join(Summary{
		Seeds: 1, First: r.Seed, Last: r.Seed, IDs: r.IDs, Claims: r.Claims,
		Hits: r.Hits, Errors: r.Errors, Shapes: map[string]int{r.Shape: 1},
	})
}

// Join adds the runs of another summary, and leaves Seconds alone.
func (s *Summary) Join(o Summary) {
	if s.Seeds == 0 {
		s.First, s.Last = o.First, o.Last
		s.Hits, s.Errors, s.Shapes = make(map[string]int), make(map[string]int), make(map[string]int)
	}
	s.Seeds += o.Seeds
	s.First, s.Last = min(s.First, o.First), max(s.Last, o.Last)
	s.IDs += o.IDs
	s.Claims += o.Claims
	for _, m := range []struct{ to, from map[string]int }{{s.Hits, o.Hits}, {s.Errors, o.Errors}, {s.Shapes, o.Shapes}} {
		for key, n := range m.from {
			m.to[key] += n
		}
	}
}

func (s Summary) String() string {
	n := Faults(s.Hits)
	return fmt.Sprintf("%d seeds, %d IDs (%.0f/s) in %d claims, %d faults (%.0f/s), %.1f s",
		s.Seeds, s.IDs, float64(s.IDs)/s.Seconds, s.Claims, n, float64(n)/s.Seconds, s.Seconds)
}
