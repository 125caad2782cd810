package ops_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/ops"
	"github.com/snowfence/snowflake/telemetry/snowflakeprom"
)

type rule struct {
	Record, Alert, Expr, For string
	Labels, Annotations      map[string]string
}

func rules(t *testing.T) []rule {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	require.NoError(t, yaml.Unmarshal(ops.Rules, &file))
	var all []rule
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	require.NotEmpty(t, all)
	return all
}

type panel struct {
	Title, Description, Type string
	Targets                  []struct{ Expr string }
	GridPos                  struct{ X, Y, W, H int }
}

func panels(t *testing.T) []panel {
	t.Helper()
	var dashboard struct {
		Title, UID string
		Panels     []panel
	}
	require.NoError(t, json.Unmarshal(ops.Dashboard, &dashboard))
	require.NotEmpty(t, dashboard.UID)
	require.NotEmpty(t, dashboard.Panels)
	return dashboard.Panels
}

func promtool(t *testing.T, arguments ...string) {
	t.Helper()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: it is in the Debian package prometheus")
	}
	out, err := exec.CommandContext(t.Context(), tool, arguments...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestRulesAreValid(t *testing.T) { promtool(t, "check", "rules", "prometheus/rules.yml") }

// Every alert fires and ends as the tests beside the rules say, and none is left out there.
func TestAlertsFire(t *testing.T) {
	files, err := filepath.Glob("prometheus/*_test.yml")
	require.NoError(t, err)
	var tests []byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		tests = append(tests, text...)
	}
	for _, r := range rules(t) {
		if r.Alert != "" {
			require.Regexp(t, `"`+r.Alert+`"|alertname: `+r.Alert+`\b`, string(tests))
		}
	}
	promtool(t, append([]string{"test", "rules"}, files...)...)
}

// Whoever is woken finds out what it means and what to do: every alert links a heading of the
// runbook that exists, and the section answers the four questions.
func TestEveryAlertHasItsRunbook(t *testing.T) {
	const book = "https://github.com/snowfence/snowflake/blob/main/docs/runbook.md#"
	text, err := os.ReadFile("../docs/runbook.md")
	require.NoError(t, err)
	overview, err := os.ReadFile("../docs/monitoring.md")
	require.NoError(t, err)
	sections := map[string]string{}
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		sections[title] = body
	}
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		require.Contains(t, []string{"critical", "warning"}, r.Labels["severity"], r.Alert)
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.NotEmpty(t, r.Annotations["description"], r.Alert)
		require.Equal(t, book+strings.ToLower(r.Alert), r.Annotations["runbook_url"])
		row := "| [" + r.Alert + "](runbook.md#" + strings.ToLower(r.Alert) + ") | " + r.Labels["severity"] + " |"
		require.Contains(t, string(overview), row)
		for _, question := range []string{"**Means.**", "**Safe already.**", "**Do.**", "**Over when.**"} {
			require.Contains(t, sections[r.Alert], question, "%s", r.Alert)
		}
	}
}

// exported returns the names that a Prometheus with the rules can know.
func exported(t *testing.T) map[string]bool {
	t.Helper()
	lease, err := snowflake.AcquireLease(t.Context(), snowflake.NewMemoryStore(), snowflake.LeaseConfig{})
	require.NoError(t, err)
	gen, err := snowflake.New(t.Context(), snowflake.Config{Lease: lease})
	require.NoError(t, err)
	defer func() { require.NoError(t, gen.Close(t.Context())) }()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(snowflakeprom.NewCollector("", gen, lease))
	families, err := registry.Gather()
	require.NoError(t, err)
	names := map[string]bool{
		"snowflake_worker_codes": true, // snowflake leases watch --metrics
	}
	for _, family := range families {
		names[family.GetName()] = true
		if family.GetName() == "snowflake_wait_seconds" {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				names[family.GetName()+suffix] = true
			}
		}
	}
	for _, r := range rules(t) {
		if r.Record != "" {
			names[r.Record] = true
		}
	}
	return names
}

var metricName = regexp.MustCompile(`\bsnowflake[_:][a-z0-9_:]+`)

// An expression on a name that nobody exports is valid, and never fires.
func TestExpressionsUseWhatIsExported(t *testing.T) {
	names := exported(t)
	used := map[string]bool{}
	check := func(where, expr string) {
		found := metricName.FindAllString(expr, -1)
		require.NotEmpty(t, found, where)
		for _, name := range found {
			require.True(t, names[name], "%s: nobody exports %s", where, name)
			used[name] = true
		}
	}
	for _, r := range rules(t) {
		check(r.Alert+r.Record, r.Expr)
	}
	for _, p := range panels(t) {
		for _, target := range p.Targets {
			if !strings.Contains(target.Expr, "ALERTS") {
				check(p.Title, target.Expr)
			}
		}
	}
	for name := range names {
		if name != "snowflake_wait_seconds" && !strings.HasSuffix(name, "_sum") && !strings.HasSuffix(name, "_count") {
			require.True(t, used[name], "neither an alert nor a panel shows %s", name)
		}
	}
}

// Prometheus' own parser reads every expression of the dashboard, with what Grafana puts in.
func TestDashboardIsValid(t *testing.T) {
	var file struct {
		Groups []map[string]any `yaml:"groups"`
	}
	var records []map[string]string
	var taken [100][24]string
	for _, p := range panels(t) {
		for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				require.Empty(t, taken[y][x], "%s lies over another", p.Title)
				taken[y][x] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		require.NotEmpty(t, p.Description, p.Title)
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			expr := strings.NewReplacer("$__rate_interval", "1m", "$__range", "1h").Replace(target.Expr)
			require.NotContains(t, expr, "$__", p.Title)
			records = append(records, map[string]string{"record": "panel", "expr": expr})
		}
	}
	for i, r := range records { // equal names are a mistake in rules
		r["record"] += strings.Repeat("x", i)
	}
	file.Groups = []map[string]any{{"name": "panels", "rules": records}}
	text, err := yaml.Marshal(file)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "panels.yml")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	promtool(t, "check", "rules", path)
}
