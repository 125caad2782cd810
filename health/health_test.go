package health_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/health"
)

func ask(handler http.Handler, method, accept string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, "/readyz", nil)
	if accept != "" {
		request.Header.Set("Accept", accept)
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	return answer
}

// leaseOf is a lease whose grant a test takes away.
type leaseOf struct {
	mu    sync.Mutex
	grant *snowflake.Grant
}

func (l *leaseOf) Grant() *snowflake.Grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.grant
}

func (l *leaseOf) set(g *snowflake.Grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grant = g
}

// A generator that loses its lease takes the process out, and brings it back by itself; it
// stays alive all along.
func TestReadyFollowsTheGenerator(t *testing.T) {
	grant := &snowflake.Grant{Code: 7, Ceiling: time.Now().Add(time.Hour)}
	lease := &leaseOf{grant: grant}
	gen, err := snowflake.New(t.Context(), snowflake.Config{Lease: lease})
	require.NoError(t, err)
	ready, live := health.Ready(map[string]health.Checker{"orders": gen}), health.Live()

	answer := ask(ready, http.MethodGet, "")
	require.Equal(t, http.StatusOK, answer.Code)
	require.Equal(t, "ready\norders: ready\n", answer.Body.String())

	lease.set(nil)
	answer = ask(ready, http.MethodGet, "*/*")
	require.Equal(t, http.StatusServiceUnavailable, answer.Code)
	require.Equal(t, "not ready\norders: lease_lost: no worker code is held\n", answer.Body.String())
	require.Equal(t, http.StatusOK, ask(live, http.MethodGet, "").Code)

	lease.set(grant)
	require.Equal(t, http.StatusOK, ask(ready, http.MethodGet, "").Code)

	require.NoError(t, gen.Close(context.Background()))
	answer = ask(ready, http.MethodGet, "application/json")
	require.Equal(t, http.StatusServiceUnavailable, answer.Code)
	require.JSONEq(t, `{"ready":false,"generators":[{"name":"orders","ready":false,"reason":"closed",
		"message":"the generator was closed","retryable":false}]}`, answer.Body.String())
	require.Equal(t, http.StatusOK, ask(live, http.MethodGet, "").Code)
}

// One that cannot serve is enough, and all are told, by name.
func TestEveryGeneratorMustBeReady(t *testing.T) {
	ready := health.Ready(map[string]health.Checker{
		"b": health.Func(func() error { return &snowflake.ClockError{Behind: time.Second} }),
		"a": health.Func(func() error { return nil }),
	})
	answer := ask(ready, http.MethodGet, "application/json")
	require.Equal(t, http.StatusServiceUnavailable, answer.Code)
	require.Equal(t, "application/json", answer.Header().Get("Content-Type"))
	require.Equal(t, `{"ready":false,"generators":[{"name":"a","ready":true},`+
		`{"name":"b","ready":false,"reason":"clock_behind","message":"the clock is behind","retryable":true}]}`+"\n", answer.Body.String())
	require.Equal(t, "not ready\na: ready\nb: clock_behind: the clock is behind\n", ask(ready, http.MethodGet, "text/plain, application/json").Body.String())

	require.Equal(t, `{"ready":true,"generators":[]}`+"\n", ask(health.Ready(nil), http.MethodGet, "application/json").Body.String())
}

// Errors of a store can hold addresses, users and worse.
func TestNothingOfTheErrorsTextIsShown(t *testing.T) {
	const secret = "postgres://orders:hunter2@db.internal"
	for want, err := range map[string]error{
		"lease_lost":    &snowflake.LeaseError{Holder: secret, Err: fmt.Errorf("%w: %s", snowflake.ErrLeaseLost, secret)},
		"high_water":    fmt.Errorf("%w: %s", snowflake.ErrHighWater, secret),
		"clock_skew":    fmt.Errorf("%w: suspended: %w: %s", snowflake.ErrLeaseLost, snowflake.ErrClockSkew, secret),
		"time_overflow": fmt.Errorf("%w: %s", snowflake.ErrTimeOverflow, secret),
		"closed":        fmt.Errorf("%w: %w: %s", snowflake.ErrLeaseLost, snowflake.ErrClosed, secret),
		"other":         errors.New(secret),
	} {
		for _, accept := range []string{"", "application/json"} {
			answer := ask(health.Ready(map[string]health.Checker{"orders": health.Func(func() error { return err })}), http.MethodGet, accept)
			require.Equal(t, http.StatusServiceUnavailable, answer.Code)
			require.Contains(t, answer.Body.String(), want)
			require.NotContains(t, answer.Body.String(), "hunter2")
			require.NotContains(t, answer.Body.String(), "internal")
		}
	}
}

func TestMethodsAndHeaders(t *testing.T) {
	sick := health.Ready(map[string]health.Checker{"orders": health.Func(func() error { return snowflake.ErrLeaseLost })})
	for name, row := range map[string]struct {
		handler http.Handler
		status  int
	}{"ready": {health.Ready(nil), http.StatusOK}, "not ready": {sick, http.StatusServiceUnavailable}, "live": {health.Live(), http.StatusOK}} {
		t.Run(name, func(t *testing.T) {
			get, head := ask(row.handler, http.MethodGet, ""), ask(row.handler, http.MethodHead, "")
			require.Equal(t, row.status, get.Code)
			require.Equal(t, row.status, head.Code)
			require.NotEmpty(t, get.Body.String())
			require.Empty(t, head.Body.String())
			require.Equal(t, get.Header(), head.Header())
			require.Equal(t, "no-store", get.Header().Get("Cache-Control"))
			require.Equal(t, "nosniff", get.Header().Get("X-Content-Type-Options"))
			require.Equal(t, "text/plain; charset=utf-8", get.Header().Get("Content-Type"))
			require.Equal(t, "Accept", get.Header().Get("Vary"))
			for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions, "BREW"} {
				answer := ask(row.handler, method, "")
				require.Equal(t, http.StatusMethodNotAllowed, answer.Code)
				require.Equal(t, "GET, HEAD", answer.Header().Get("Allow"))
				require.Equal(t, "no-store", answer.Header().Get("Cache-Control"))
			}
		})
	}
	require.JSONEq(t, `{"live":true}`, ask(health.Live(), http.MethodGet, "Application/JSON;q=0.9").Body.String())
}

func TestANilGeneratorIsRefusedAtTheStart(t *testing.T) {
	require.Panics(t, func() { health.Ready(map[string]health.Checker{"orders": nil}) })
	require.Panics(t, func() { health.Ready(map[string]health.Checker{"orders": (*snowflake.Generator)(nil)}) })
}

func TestManyProbesAtOnce(t *testing.T) {
	gen, err := snowflake.New(t.Context(), snowflake.Config{Lease: &leaseOf{grant: &snowflake.Grant{Ceiling: time.Now().Add(time.Hour)}}})
	require.NoError(t, err)
	defer func() { require.NoError(t, gen.Close(context.Background())) }()
	checkers := map[string]health.Checker{"orders": gen}
	ready := health.Ready(checkers)
	delete(checkers, "orders") // the handler has a copy
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				_, _ = gen.Next()
				if answer := ask(ready, http.MethodGet, ""); answer.Code != http.StatusOK || answer.Body.Len() < len("ready\norders") {
					t.Errorf("%d %q", answer.Code, answer.Body)
				}
			}
		})
	}
	all.Wait()
}
