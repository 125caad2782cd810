package main

import (
	"fmt"
	"os"
	"strings"
)

const readme = "model/README.md"

// writeTables puts the results between their marks in the README.
func writeTables(searches []search, results []result) error {
	text, err := os.ReadFile(readme)
	if err != nil {
		return fmt.Errorf("model: run it in the root of the module: %w", err)
	}
	page := string(text)
	for _, table := range []struct{ name, rows string }{
		{"searches", soundTable(searches, results)},
		{"breaks", brokenTable(searches, results)},
	} {
		begin, end := "<!-- begin "+table.name+" -->\n", "<!-- end "+table.name+" -->"
		before, rest, ok := strings.Cut(page, begin)
		_, after, closed := strings.Cut(rest, end)
		if !ok || !closed {
			return fmt.Errorf("model: %s lacks the marks of the table of %s", readme, table.name)
		}
		page = before + begin + table.rows + end + after
	}
	return os.WriteFile(readme, []byte(page), 0o600)
}

func soundTable(searches []search, results []result) string {
	var rows strings.Builder
	rows.WriteString("| model | bounds | in CI | states | depth | CPU s |\n| --- | --- | --- | ---: | ---: | ---: |\n")
	for i, s := range searches {
		if s.name == "" {
			ci := "yes"
			if s.large {
				ci = "no"
			}
			fmt.Fprintf(&rows, "| `%s` | `%s` | %s | %d | %d | %.1f |\n",
				s.file, strings.TrimSpace(s.bounds), ci, results[i].states, results[i].depth, results[i].cpu.Seconds())
		}
	}
	return rows.String()
}

func brokenTable(searches []search, results []result) string {
	var rows strings.Builder
	rows.WriteString("| break | what it stands for | model, bounds | what is found | states | steps | CPU s |\n| --- | --- | --- | --- | ---: | ---: | ---: |\n")
	for i, s := range searches {
		if s.name != "" {
			r := results[i]
			fmt.Fprintf(&rows, "| `%s` | %s | `%s` | %s | %d | %d | %.1f |\n",
				s.name, s.stands, strings.TrimSpace(s.file+" "+s.bounds), r.found, r.states, r.depth, r.cpu.Seconds())
		}
	}
	return rows.String()
}
