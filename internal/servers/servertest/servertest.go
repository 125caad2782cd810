// Package servertest gives the servers of package servers to tests.
package servertest

import (
	"errors"
	"sync"
	"testing"

	"github.com/snowfence/snowflake/internal/servers"
)

// Need returns what start starts. It skips the test if a program is not installed, and
// says which Debian package has it: CI installs all, and counts a skipped test as a failure.
func Need[S any](tb testing.TB, start func() (S, error)) S {
	tb.Helper()
	s, err := start()
	var missing *servers.MissingError
	if errors.As(err, &missing) {
		tb.Skip(missing)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// Group is the servers that the tests of a package share. Its methods may be called from
// many goroutines.
type Group struct {
	mu    sync.Mutex
	stops []func()
}

// Share returns start for the first call and its result for all others. Stop stops what it
// has started.
func Share[S interface{ Stop() }](g *Group, start func() (S, error)) func() (S, error) {
	return sync.OnceValues(func() (S, error) {
		s, err := start()
		if err == nil {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.stops = append(g.stops, s.Stop)
		}
		return s, err
	})
}

// Stop stops all servers, the last first: TestMain calls it after the tests.
func (g *Group) Stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := len(g.stops) - 1; i >= 0; i-- {
		g.stops[i]()
	}
	g.stops = nil
}
