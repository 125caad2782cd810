package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// Owners are what others wrote.
func TestTablesTellNothingToTheTerminal(t *testing.T) {
	var out bytes.Buffer
	table := newTable(&out, asTable, []field{column("owner"), column("state")})
	table.add("host/\x1b[2J\x1b]52;c;eA==\a17", "größe 漢\nheld")
	require.NoError(t, table.flush())
	require.NotContains(t, out.String(), "\x1b")
	require.Contains(t, out.String(), `"host/\x1b[2J\x1b]52;c;eA==\a17"`)
	require.Contains(t, out.String(), `"größe 漢\nheld"`)
}
