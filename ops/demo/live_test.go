package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/snowfence/snowflake/ops"
)

var pictureFile = flag.String("picture", "", "draw the dashboard's panels from the run into this file")

const runMain = "DEMO_RUN_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(runMain) != "" {
		if err := run(context.Background(), "127.0.0.1:0"); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// A real Prometheus with the shipped rules scrapes the demo, a process of its own. Every
// fault makes its alerts fire, and they end when it is over. All that is changed about the rules
// is that their minutes are seconds.
//
//	go test ./demo -picture ../../docs/dashboard.svg
func TestAlertsFireAndClear(t *testing.T) {
	server, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("prometheus is not installed: it is in the Debian package prometheus")
	}
	service := startDemo(t)
	p := startPrometheus(t, server, strings.TrimPrefix(service.url, "http://"))
	var story timeline

	p.await(t, "the first scrapes", func() bool { return len(p.query(t, `snowflake_ids_total > 100`)) == 1 })
	require.Empty(t, p.firing(t))
	require.Equal(t, http.StatusOK, service.probe(t, "/readyz"))
	story.began = time.Now().Add(-2 * time.Second)

	story.fault("duplicate key, no free codes", func() {
		service.fault(t, http.MethodPost, "duplicate")
		service.fault(t, http.MethodPost, "codes")
		p.awaitFiring(t, "SnowflakeDuplicateKey", "SnowflakeWorkerCodesLow", "SnowflakeWorkerCodesGone")
		service.fault(t, http.MethodDelete, "codes")
		service.fault(t, http.MethodDelete, "duplicate") // restarts the generator
	})
	p.awaitCleared(t)

	story.fault("more load than fits", func() {
		service.fault(t, http.MethodPost, "load")
		p.awaitFiring(t, "SnowflakeSequenceExhausted", "SnowflakeRunningAhead")
		require.Equal(t, http.StatusOK, service.probe(t, "/readyz"), "saturation is not unhealthy")
		service.fault(t, http.MethodDelete, "load")
	})
	p.awaitCleared(t)

	story.fault("clock goes back 8 s", func() {
		service.fault(t, http.MethodPost, "clock")
		p.awaitFiring(t, "SnowflakeClockRollback", "SnowflakeUnhealthy", "SnowflakeRegionUnhealthy", "SnowflakeBudgetBurnFast")
		p.await(t, "the clock to catch up", func() bool { return service.probe(t, "/readyz") == http.StatusOK })
	})
	p.awaitCleared(t)

	story.fault("lease store unreachable", func() {
		service.fault(t, http.MethodPost, "store")
		p.awaitFiring(t, "SnowflakeRenewalFailing", "SnowflakeLeaseStoreDown", "SnowflakeLeaseLost", "SnowflakeUnhealthy",
			"SnowflakeBudgetBurn", "SnowflakeBudgetBurnSlow", "SnowflakeWorkerCodesUnknown")
		require.Equal(t, http.StatusServiceUnavailable, service.probe(t, "/readyz"))
		require.Equal(t, http.StatusOK, service.probe(t, "/livez"), "a restart would not bring the store back")
		service.fault(t, http.MethodDelete, "store")
	})
	p.awaitCleared(t)
	require.Equal(t, http.StatusOK, service.probe(t, "/readyz"))
	story.ended = time.Now()

	for _, panel := range dashboard(t) {
		for i, target := range panel.Targets {
			panel.Targets[i].series = p.queryRange(t, forTest(target.Expr), story.began, story.ended)
			require.NotEmpty(t, panel.Targets[i].series, "%s shows nothing: %s", panel.Title, target.Expr)
		}
		story.panels = append(story.panels, panel)
	}
	if *pictureFile != "" {
		require.NoError(t, os.WriteFile(*pictureFile, []byte(story.draw()), 0o644))
	}
}

// forTest returns rules or an expression with their minutes and hours as seconds, so that what
// takes days can be watched: windows hold at least six scrapes, and alerts wait a moment.
func forTest(text string) string {
	text = strings.NewReplacer("$__rate_interval", "3s", "$job", ".*", "$region", ".*", "$generator", ".*").Replace(text)
	text = regexp.MustCompile(`\[\d+[smhd]\]`).ReplaceAllStringFunc(text, func(window string) string {
		if strings.HasSuffix(window, "s]") {
			return window // put in above
		}
		return "[6s]"
	})
	text = regexp.MustCompile(`\boffset \d+[smhd]`).ReplaceAllStringFunc(text, func(offset string) string {
		if offset == "offset 1m" {
			return "offset 3s"
		}
		return "offset 6s"
	})
	return regexp.MustCompile(`\bfor: \d+[smhd]`).ReplaceAllString(text, "for: 1s")
}

// demo is the service in its own process.
type demo struct{ url string }

func startDemo(t *testing.T) demo {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), runMain+"=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	start(t, cmd)
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	_, address, found := strings.Cut(strings.TrimSpace(line), "listening on ")
	require.True(t, found, line)
	return demo{address}
}

// start starts a process that ends with the test, and shows what it wrote if that fails.
func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	cmd.Stderr = log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("%s: %s", filepath.Base(cmd.Path), text)
		}
	})
}

func (d demo) probe(t *testing.T, path string) int {
	t.Helper()
	status, _ := request(t, http.MethodGet, d.url+path)
	return status
}

func (d demo) fault(t *testing.T, method, name string) {
	t.Helper()
	status, body := request(t, method, d.url+"/faults/"+name)
	require.Equal(t, http.StatusNoContent, status, "%s", body)
}

func request(t *testing.T, method, address string) (int, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, body
}

// watcher is a Prometheus, under its HTTP API.
type watcher struct{ url string }

func startPrometheus(t *testing.T, server, target string) watcher {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	config := write("prometheus.yml", fmt.Sprintf(`
global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [%s]
scrape_configs:
  - {job_name: demo, static_configs: [{targets: [%q]}]}
`, write("rules.yml", forTest(string(ops.Rules))), target))
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	start(t, exec.CommandContext(t.Context(), server, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--log.level=warn"))
	p := watcher{"http://" + address}
	p.await(t, "Prometheus", func() bool {
		answer, err := http.Get(p.url + "/-/ready")
		if err != nil {
			return false
		}
		_ = answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	return p
}

// await waits for what is said to come within seconds; a busy machine gets longer.
func (watcher) await(t *testing.T, what string, come func() bool) {
	t.Helper()
	for deadline := time.Now().Add(90 * time.Second); !come(); {
		require.True(t, time.Now().Before(deadline), "%s did not come", what)
		time.Sleep(200 * time.Millisecond)
	}
}

func (p watcher) awaitFiring(t *testing.T, alerts ...string) {
	t.Helper()
	seen := map[string]bool{} // some are over before others begin
	p.await(t, fmt.Sprint(alerts), func() bool {
		for _, name := range p.firing(t) {
			seen[name] = true
		}
		return !slices.ContainsFunc(alerts, func(name string) bool { return !seen[name] })
	})
}

func (p watcher) awaitCleared(t *testing.T) {
	t.Helper()
	p.await(t, "the end of every alert", func() bool { return len(p.firing(t)) == 0 })
}

// firing returns the names of the alerts that fire now.
func (p watcher) firing(t *testing.T) []string {
	t.Helper()
	var data struct {
		Alerts []struct {
			State  string
			Labels map[string]string
		}
	}
	p.get(t, "/api/v1/alerts", nil, &data)
	var names []string
	for _, alert := range data.Alerts {
		if alert.State == "firing" {
			names = append(names, alert.Labels["alertname"])
		}
	}
	return names
}

// series is one line of an answer.
type series struct {
	Metric map[string]string
	Value  point
	Values []point
}

// point is a time, in seconds since 1970, and a value as text.
type point [2]any

func (p point) at() float64 { return p[0].(float64) }

func (p point) value() float64 {
	v, err := strconv.ParseFloat(p[1].(string), 64)
	if err != nil {
		panic(err) // Prometheus writes floats that Go reads
	}
	return v
}

func (p watcher) query(t *testing.T, expr string) []series {
	t.Helper()
	var data struct{ Result []series }
	p.get(t, "/api/v1/query", url.Values{"query": {expr}}, &data)
	return data.Result
}

func (p watcher) queryRange(t *testing.T, expr string, from, to time.Time) []series {
	t.Helper()
	seconds := func(at time.Time) string { return fmt.Sprintf("%.3f", float64(at.UnixMilli())/1e3) }
	var data struct{ Result []series }
	p.get(t, "/api/v1/query_range", url.Values{"query": {expr}, "start": {seconds(from)}, "end": {seconds(to)}, "step": {"0.5"}}, &data)
	return data.Result
}

func (p watcher) get(t *testing.T, path string, values url.Values, data any) {
	t.Helper()
	status, body := request(t, http.MethodGet, p.url+path+"?"+values.Encode())
	require.Equal(t, http.StatusOK, status, "%s", body)
	require.NoError(t, json.Unmarshal(body, &struct{ Data any }{data}))
}
