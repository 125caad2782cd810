package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/snowfence/snowflake"
)

// shared is written by a command while a test reads it.
type shared struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// await returns what a pattern has found in the output, once it does.
func (s *shared) await(t *testing.T, pattern string) string {
	t.Helper()
	var found string
	require.Eventually(t, func() bool {
		found = regexp.MustCompile(pattern).FindString(s.String())
		return found != ""
	}, 20*time.Second, 10*time.Millisecond, pattern)
	return found
}

func TestWatchShowsChangesAndCountsCodes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases")
	store, err := snowflake.DirStore(path)
	require.NoError(t, err)
	lease, err := snowflake.AcquireLease(t.Context(), store, snowflake.LeaseConfig{Region: 2, Owner: "here"})
	require.NoError(t, err)
	defer func() { _ = lease.Close(context.Background()) }()

	ctx, stop := context.WithCancel(t.Context())
	var out, errs shared
	ended := make(chan int)
	go func() {
		ended <- run(ctx, []string{"leases", "watch", "--json", "--store", "dir:" + path, "--region", "2", "--every", "100ms", "--metrics", "127.0.0.1:0"},
			strings.NewReader(""), &out, &errs)
	}()
	url := errs.await(t, `http://127\.0\.0\.1:\d+/metrics`)
	out.await(t, `"owner":"here".*"state":"held"`)
	metrics := scrape(t, url)
	require.Contains(t, metrics, `snowflake_worker_codes{region="2",state="held"} 1`)
	require.Contains(t, metrics, `snowflake_worker_codes{region="2",state="free"} 255`)
	require.Contains(t, metrics, `snowflake_worker_codes{region="2",state="reserved"} 0`)
	require.NotContains(t, metrics, `region="0"`)

	require.NoError(t, lease.Close(t.Context()))
	out.await(t, `"owner":"here".*"state":"reserved"`)
	require.Contains(t, scrape(t, url), `snowflake_worker_codes{region="2",state="reserved"} 1`)

	stop()
	require.Equal(t, 0, <-ended)
	require.Equal(t, 2, strings.Count(out.String(), "\n"), "a line a change, and no more: renewals are none")
}

func TestWatchRefuses(t *testing.T) {
	path := "dir:" + t.TempDir()
	for name, test := range map[string]struct {
		args   []string
		status int
		says   string
	}{
		"too often":      {[]string{"--store", path, "--every", "1ms"}, exitUsage, "--every"},
		"a bad address":  {[]string{"--store", path, "--metrics", "nowhere"}, exitError, "nowhere"},
		"no store":       {nil, exitUsage, "--store is missing"},
		"a store of air": {[]string{"--store", path + "/none"}, exitError, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs shared
			require.Equal(t, test.status, run(t.Context(), append([]string{"leases", "watch"}, test.args...), strings.NewReader(""), &out, &errs))
			require.Contains(t, errs.String(), test.says)
			require.Empty(t, out.String())
		})
	}
}

// A store that does not answer makes the scrape fail, not show old numbers.
func TestMetricsOfAStoreThatIsDown(t *testing.T) {
	server := serveMetrics(downStore{}, 0)
	response := httptest.NewRecorder()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
	require.NoError(t, err)
	server.Handler.ServeHTTP(response, request)
	require.Equal(t, http.StatusInternalServerError, response.Code)
	require.Contains(t, response.Body.String(), io.ErrClosedPipe.Error())
}

type downStore struct{ snowflake.LeaseStore }

func (downStore) Records(context.Context, int) ([]snowflake.Record, error) {
	return nil, io.ErrClosedPipe
}

func scrape(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	return string(body)
}

// A command that waits for input ends when it is told to, and leaves nothing behind.
func TestInterruptedInput(t *testing.T) {
	temp := t.TempDir()
	for _, args := range [][]string{{"decode", "-"}, {"audit", "--temp", temp, "-"}} {
		ctx, stop := context.WithCancel(t.Context())
		in, never := io.Pipe()
		var out, errs shared
		ended := make(chan int)
		go func() { ended <- run(ctx, args, in, &out, &errs) }()
		_, err := never.Write([]byte("1\n2\n"))
		require.NoError(t, err)
		stop()
		require.Equal(t, exitError, <-ended)
		require.Contains(t, errs.String(), "canceled")
		require.NoError(t, never.Close())
	}
	left, err := filepath.Glob(filepath.Join(temp, "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}
