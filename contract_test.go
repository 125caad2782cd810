package snowflake_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sources are the Go files of the repository, all modules, by path.
func sources(t *testing.T) map[string]string {
	t.Helper()
	files := make(map[string]string)
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && strings.HasPrefix(entry.Name(), "."):
			return filepath.SkipDir
		case entry.Type().IsRegular() && (strings.HasSuffix(path, ".go") || strings.HasPrefix(path, "model"+string(filepath.Separator))):
			text, err := os.ReadFile(path)
			files[filepath.ToSlash(path)] = string(text)
			return err
		}
		return nil
	}))
	return files
}

// evidence tells where a name of docs/contract.md must stand, and as what.
func evidence(name string) (where func(path string) bool, text string) {
	kind, what, found := strings.Cut(name, ": ")
	quoted := strconv.Quote(what)
	under := func(folder string) func(string) bool {
		return func(path string) bool { return strings.HasPrefix(path, folder) }
	}
	switch {
	case regexp.MustCompile(`^(Test|Fuzz)\w+$`).MatchString(name):
		return func(path string) bool { return strings.HasSuffix(path, "_test.go") }, "\nfunc " + name + "("
	case !found:
		return nil, ""
	case kind == "case":
		return under("snowflaketest/"), "{" + quoted + ","
	case kind == "fault" || kind == "state":
		return under("internal/sim/coverage.go"), quoted
	case kind == "mutant":
		return under("internal/sim/mutants/"), "{" + quoted + ","
	case kind == "model":
		return under("model/"), what
	}
	return nil, ""
}

var inBackquotes = regexp.MustCompile("`([^`]+)`")

// rows returns the rows of the tables whose last column has the title.
func rows(t *testing.T, title string) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile("docs/contract.md")
	require.NoError(t, err)
	inside := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			inside = false
			continue
		}
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		switch last := cells[len(cells)-1]; {
		case last == title:
			inside = true
		case inside && !strings.HasPrefix(last, "---"):
			require.Len(t, cells, 3, line)
			rows = append(rows, cells)
		}
	}
	return rows
}

// A row of the contract without evidence cannot be written.
func TestContractNamesItsEvidence(t *testing.T) {
	if _, err := os.Stat("go.work"); err != nil {
		return // the root module alone: the others are not here
	}
	files := sources(t)
	all := rows(t, "evidence")
	require.Greater(t, len(all), 40)
	for _, row := range all {
		names := inBackquotes.FindAllStringSubmatch(row[2], -1)
		require.NotEmpty(t, names, "%q has no evidence", row[0])
		for _, name := range names {
			where, text := evidence(name[1])
			require.NotNil(t, where, "%q: %q is not a kind of evidence", row[0], name[1])
			found := false
			for path, source := range files {
				found = found || where(path) && strings.Contains(source, text)
			}
			require.True(t, found, "%q: there is no %q", row[0], name[1])
		}
	}
}

// The checks of the hot path are made where the contract says.
func TestContractNamesFunctions(t *testing.T) {
	files := sources(t)
	all := rows(t, "made by")
	require.Len(t, all, 4)
	function := regexp.MustCompile(`^(?:\((\*?\w+)\)\.)?(\w+)$`)
	for _, row := range all {
		names := inBackquotes.FindAllStringSubmatch(row[2], -1)
		require.NotEmpty(t, names, row[0])
		for _, name := range names {
			match := function.FindStringSubmatch(name[1])
			require.NotNil(t, match, name[1])
			declared := `(?m)^func ` + regexp.QuoteMeta(match[2]) + `\(`
			if match[1] != "" {
				declared = `(?m)^func \(\w+ ` + regexp.QuoteMeta(match[1]) + `\) ` + regexp.QuoteMeta(match[2]) + `\(`
			}
			found := false
			for path, source := range files {
				found = found || !strings.Contains(path, "/") && !strings.HasSuffix(path, "_test.go") && regexp.MustCompile(declared).MatchString(source)
			}
			require.True(t, found, "%s: there is no %s", row[0], name[1])
		}
	}
}
