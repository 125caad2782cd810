// Package health answers the probes of an orchestrator over HTTP.
//
//	http.Handle("/readyz", health.Ready(map[string]health.Checker{"orders": gen}))
//	http.Handle("/livez", health.Live())
//
// Ready asks every generator, each time, and says 503 while one of them cannot serve: the
// process gets no traffic until the proof of uniqueness is back, which it waits for by
// itself.
//
// Live says 200 as long as the process answers, and never looks at a generator. A lost
// lease, an unreachable store or a clock that went back is not healed by a restart: the new
// process meets the same store and the same clock. But it costs: a process that is killed
// keeps its worker code reserved until the ceiling passes, and takes another code, so a fleet
// that is restarted by its liveness probe in an outage of the store can run out of codes. Give the
// two handlers to the two probes, and never Ready to the liveness probe.
//
// # The answers
//
// Both take GET and HEAD, say Cache-Control: no-store, and write one line of plain text for each
// generator, in the order of their names, or JSON where the request's Accept header asks for it:
//
//	not ready
//	orders: lease_lost: no worker code is held
//
//	{"ready":false,"generators":[{"name":"orders","ready":false,"reason":"lease_lost",
//	  "message":"no worker code is held","retryable":true}]}
//
// The reasons are those of the metric snowflake_errors_total, so far as they concern health:
// clock_behind, lease_lost, high_water, time_overflow and closed; clock_skew, which is told from
// lease_lost here; and other. The texts are fixed. What the error itself says may hold addresses
// and names of the store, and is for the log (snowflake.LogHooks), not for whoever can reach a
// probe. retryable is snowflake.Retryable: false needs a person.
package health

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/snowfence/snowflake"
)

// Checker is what can tell whether it can serve: a *snowflake.Generator. Health returns
// nil, or why not. It is called from many goroutines, and must be quick.
type Checker interface {
	Health() error
}

var _ Checker = (*snowflake.Generator)(nil)

// Func makes a Checker of a function, for what else must be ready before traffic comes.
type Func func() error

// Health calls f.
func (f Func) Health() error { return f() }

// Ready returns a handler for readiness probes: 200 if every checker is healthy, else 503
// with the reasons. Without a checker it is ready. The map is copied. It panics at a nil
// Checker.
func Ready(checkers map[string]Checker) http.Handler {
	for name, checker := range checkers {
		if gen, ok := checker.(*snowflake.Generator); checker == nil || ok && gen == nil {
			panic("health: Ready: " + name + " is nil: make the generator with snowflake.New first")
		}
	}
	return &ready{maps.Clone(checkers), slices.Sorted(maps.Keys(checkers))}
}

// Live returns a handler for liveness probes: 200, always.
func Live() http.Handler { return live{} }

type ready struct {
	checkers map[string]Checker // immutable
	names    []string           // sorted, immutable
}

// report is an answer, in JSON.
type report struct {
	Ready      bool        `json:"ready"`
	Generators []generator `json:"generators"`
}

type generator struct {
	Name      string `json:"name"`
	Ready     bool   `json:"ready"`
	Reason    string `json:"reason,omitempty"`
	Message   string `json:"message,omitempty"`
	Retryable *bool  `json:"retryable,omitempty"`
}

func (h *ready) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !allowed(w, r) {
		return
	}
	answer := report{Ready: true, Generators: []generator{}}
	for _, name := range h.names {
		g := generator{Name: name, Ready: true}
		if err := h.checkers[name].Health(); err != nil {
			retryable := snowflake.Retryable(err)
			g.Ready, answer.Ready, g.Retryable = false, false, &retryable
			g.Reason, g.Message = reason(err)
		}
		answer.Generators = append(answer.Generators, g)
	}
	status := http.StatusOK
	if !answer.Ready {
		status = http.StatusServiceUnavailable
	}
	if wantsJSON(r) {
		body, _ := json.Marshal(answer) // strings and booleans cannot fail
		reply(w, r, status, "application/json", string(body)+"\n")
		return
	}
	reply(w, r, status, "text/plain; charset=utf-8", answer.text())
}

// text is the answer for people.
func (a report) text() string {
	var b strings.Builder
	if a.Ready {
		b.WriteString("ready\n")
	} else {
		b.WriteString("not ready\n")
	}
	for _, g := range a.Generators {
		if g.Ready {
			b.WriteString(g.Name + ": ready\n")
		} else {
			b.WriteString(g.Name + ": " + g.Reason + ": " + g.Message + "\n")
		}
	}
	return b.String()
}

// reasons are looked for in this order: an error may wrap several.
var reasons = []struct {
	err           error
	name, message string
}{
	{snowflake.ErrClosed, "closed", "the generator was closed"},
	{snowflake.ErrClockSkew, "clock_skew", "the local clock is off"},
	{snowflake.ErrClockBehind, "clock_behind", "the clock is behind"},
	{snowflake.ErrTimeOverflow, "time_overflow", "the layout has ended"},
	{snowflake.ErrHighWater, "high_water", "the high-water mark is reached"},
	{snowflake.ErrLeaseLost, "lease_lost", "no worker code is held"},
}

func reason(err error) (name, message string) {
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return r.name, r.message
		}
	}
	return "other", "see the log"
}

type live struct{}

func (live) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !allowed(w, r) {
		return
	}
	if wantsJSON(r) {
		reply(w, r, http.StatusOK, "application/json", `{"live":true}`+"\n")
		return
	}
	reply(w, r, http.StatusOK, "text/plain; charset=utf-8", "live\n")
}

// allowed refuses every method but GET and HEAD.
func allowed(w http.ResponseWriter, r *http.Request) bool {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
	return false
}

// wantsJSON reports whether the request names JSON before plain text. What asks for
// anything gets text.
func wantsJSON(r *http.Request) bool {
	accept := strings.ToLower(strings.Join(r.Header.Values("Accept"), ","))
	before, _, found := strings.Cut(accept, "application/json")
	return found && !strings.Contains(before, "text/plain")
}

func reply(w http.ResponseWriter, r *http.Request, status int, kind, body string) {
	w.Header().Set("Content-Type", kind)
	w.Header().Add("Vary", "Accept")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = io.WriteString(w, body) // whoever asked has gone
	}
}
