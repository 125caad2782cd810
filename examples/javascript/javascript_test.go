// Package javascript is a reader of IDs in JavaScript, and this test of it.
package javascript

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The reader agrees with every vector, under node and without packages.
func TestJavaScriptReadsTheVectors(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is missing: install the Debian package nodejs")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, node, "check.mjs").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Regexp(t, `^\d+ layouts, .* all as in vectors\.json\n$`, string(out))
}
