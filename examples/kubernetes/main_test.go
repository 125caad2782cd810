package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/snowfence/snowflake"
)

func TestRegionHasNoDefault(t *testing.T) {
	layout := snowflake.DefaultLayout()
	for _, text := range []string{"", " ", "-1", "4", "00", "+1", "1 ", "one", "１", "1.0", "0x1"} {
		_, err := parseRegion(text, layout)
		require.ErrorContains(t, err, "SNOWFLAKE_REGION", "%q", text)
	}
	for want, text := range []string{"0", "1", "2", "3"} {
		region, err := parseRegion(text, layout)
		require.NoError(t, err)
		require.Equal(t, want, region)
	}
}

// A pod that is told to end becomes unready, serves what still comes, and gives its code
// back.
func TestItEndsInOrder(t *testing.T) {
	store := snowflake.NewMemoryStore()
	gen, err := lease(t.Context(), store, 2, "pod")
	require.NoError(t, err)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	base := "http://" + listener.Addr().String()
	ctx, terminate := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- serve(ctx, gen, listener, pace{leave: 2 * time.Second, drain: time.Minute, close: time.Minute})
	}()
	require.Equal(t, http.StatusOK, ask(t, "GET", base+"/live", nil))
	require.Equal(t, http.StatusOK, ask(t, "GET", base+"/ready", nil))
	var made struct{ ID snowflake.ID }
	require.Equal(t, http.StatusOK, ask(t, "POST", base+"/keys", &made))
	parts, err := gen.Layout().Unpack(made.ID)
	require.NoError(t, err)
	require.Equal(t, 2, parts.Region)

	terminate()
	require.Eventually(t, func() bool { return ask(t, "GET", base+"/ready", nil) == http.StatusServiceUnavailable }, time.Minute, 5*time.Millisecond)
	require.Equal(t, http.StatusOK, ask(t, "POST", base+"/keys", nil), "until the cluster has noticed")
	require.NoError(t, <-ended)
	all, err := store.Records(t.Context(), 2)
	require.NoError(t, err)
	require.Len(t, all, 2) // the layout's, and the pod's
	require.True(t, all[1].Released)
	require.Equal(t, "pod", all[1].Owner)
}

// Without a proof there are no keys, and the pod says so; it is alive all the same.
func TestAPodWithoutACodeIsUnready(t *testing.T) {
	gen, err := lease(t.Context(), snowflake.NewMemoryStore(), 0, "pod")
	require.NoError(t, err)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	base := "http://" + listener.Addr().String()
	ctx, terminate := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, gen, listener, pace{drain: time.Minute, close: time.Minute}) }()
	require.NoError(t, gen.Close(t.Context()))
	require.Equal(t, http.StatusServiceUnavailable, ask(t, "GET", base+"/ready", nil))
	require.Equal(t, http.StatusInternalServerError, ask(t, "POST", base+"/keys", nil), "closed is for good")
	require.Equal(t, http.StatusOK, ask(t, "GET", base+"/live", nil))
	terminate()
	require.NoError(t, <-ended)
}

// ask sends a request and returns the status of the answer, and its body in into.
func ask(t *testing.T, method, url string, into any) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(""))
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	if into != nil {
		require.NoError(t, json.NewDecoder(answer.Body).Decode(into))
	}
	require.NoError(t, answer.Body.Close())
	return answer.StatusCode
}
