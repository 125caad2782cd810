package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/snowfence/snowflake"
)

// A block of the guide, indented or not: ```console with commands and what they print, or
// ```json and the name of a file that the commands after it use.
var block = regexp.MustCompile("(?ms)^( *)```(console|json (\\S+))\n(.*?)^ *```$")

// The guide shows what the tool prints. -update writes it anew, where it does not fit.
func TestMigrationGuideIsTrue(t *testing.T) {
	guide := filepath.Join("..", "..", "docs", "migration.md")
	text, err := os.ReadFile(guide)
	require.NoError(t, err)
	work := t.TempDir()
	prepareMigration(t, work)
	commands := 0
	checked := block.ReplaceAllStringFunc(string(text), func(found string) string {
		parts := block.FindStringSubmatch(found)
		indent, file, body := parts[1], parts[3], strings.ReplaceAll("\n"+parts[4], "\n"+parts[1], "\n")[1:]
		if file != "" {
			require.NoError(t, os.WriteFile(filepath.Join(work, file), []byte(body), 0o600))
			return found
		}
		var shown strings.Builder
		for _, part := range regexp.MustCompile(`(?m)^\$ `).Split(body, -1)[1:] {
			command, expected, _ := strings.Cut(part, "\n")
			printed := shell(t, work, command)
			commands++
			switch {
			case matches(expected, printed):
				printed = expected
			case !*update:
				require.Equal(t, expected, printed, command)
			}
			shown.WriteString("$ " + command + "\n" + printed)
		}
		lines := strings.TrimSuffix(shown.String(), "\n")
		return indent + "```console\n" + indent + strings.ReplaceAll(lines, "\n", "\n"+indent) + "\n" + indent + "```"
	})
	require.Greater(t, commands, 12)
	if *update {
		require.NoError(t, os.WriteFile(guide, []byte(regexp.MustCompile(`(?m)^ +$`).ReplaceAllString(checked, "")), 0o600))
	}
}

// prepareMigration makes what the guide takes to be there: a store in use, and IDs.
func prepareMigration(t *testing.T, work string) {
	t.Helper()
	store, err := snowflake.DirStore(filepath.Join(work, "leases"))
	require.NoError(t, err)
	for region := range 2 {
		lease, err := snowflake.AcquireLease(t.Context(), store, snowflake.LeaseConfig{Region: region, Owner: "orders/7.3.1"})
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context(), time.Now()))
	}
	ids := "26091926323200001\n26091926323200002\n"
	require.NoError(t, os.WriteFile(filepath.Join(work, "ids.txt"), []byte(ids), 0o600))
}

// shell runs a command as a person would, and returns all that it prints.
func shell(t *testing.T, dir, command string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir = dir
	output, err := cmd.CombinedOutput()
	if exited := (*exec.ExitError)(nil); err != nil {
		require.ErrorAs(t, err, &exited)
		require.Equal(t, exitFound, exited.ExitCode(), string(output))
	}
	return string(output)
}

// matches compares what is expected, in which "…" stands for anything within a line.
// Empty lines in a block that is indented have lost their indent.
func matches(expected, printed string) bool {
	var pattern strings.Builder
	for i, part := range strings.Split(expected, "…") {
		if i > 0 {
			pattern.WriteString("[^\n]*?")
		}
		pattern.WriteString(regexp.QuoteMeta(part))
	}
	return regexp.MustCompile("^" + pattern.String() + "$").MatchString(printed)
}
