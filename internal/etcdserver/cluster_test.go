package etcdserver

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// abandonVariable makes the test binary a program that starts a node and waits to be killed.
const abandonVariable = "SNOWFLAKE_ETCD_ABANDON"

func TestMain(m *testing.M) {
	Main()
	if dir := os.Getenv(abandonVariable); dir != "" {
		abandon(dir)
	}
	os.Exit(m.Run())
}

func start(t *testing.T, nodes int) (*Cluster, *clientv3.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := Start(ctx, nodes, t.TempDir())
	require.NoError(t, err)
	t.Cleanup(c.Stop)
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return c, client
}

func get(t *testing.T, client *clientv3.Client, key string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		one, end := context.WithTimeout(ctx, 2*time.Second) // a paused node does not answer, the next one does
		found, err := client.Get(one, key)
		end()
		if err == nil {
			require.Len(t, found.Kvs, 1)
			return string(found.Kvs[0].Value)
		}
		require.NoError(t, ctx.Err())
	}
}

func TestNodeKeepsItsDataAndPorts(t *testing.T) {
	c, client := start(t, 1)
	_, err := client.Put(t.Context(), "a", "1")
	require.NoError(t, err)
	before := c.Endpoints()
	require.NoError(t, c.Kill(0))
	_, err = net.Dial("tcp", before[0])
	require.Error(t, err, "it is dead")
	require.ErrorContains(t, c.Kill(0), "does not run")
	require.NoError(t, c.Restart(0))
	require.Equal(t, before, c.Endpoints())
	require.Equal(t, "1", get(t, client, "a"))
	require.ErrorContains(t, c.Restart(0), "runs")
}

func TestClusterOutlivesItsLeader(t *testing.T) {
	c, client := start(t, 3)
	_, err := client.Put(t.Context(), "a", "1")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	leader, err := c.Leader(ctx)
	require.NoError(t, err)
	require.NoError(t, c.Pause(leader))
	next := leader
	for next == leader { // it leads until the others have noticed
		next, err = c.Leader(ctx)
		require.NoError(t, err)
	}
	require.Equal(t, "1", get(t, client, "a"))
	require.NoError(t, c.Resume(leader))
	require.NoError(t, c.Kill(next))
	require.Equal(t, "1", get(t, client, "a"))
}

func TestPortsThatAreTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c, err := newCluster(1, t.TempDir())
	require.NoError(t, err)
	t.Cleanup(c.Stop)
	c.nodes[0].Client = taken.Addr().String()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.ErrorIs(t, c.start(ctx), errTaken, "Start then tries others")
	time.AfterFunc(300*time.Millisecond, func() { _ = taken.Close() })
	require.NoError(t, c.Restart(0), "it waits for its own")
}

// abandon starts a node, says where it serves, and never stops it.
func abandon(dir string) {
	c, err := Start(context.Background(), 1, dir)
	if err == nil && os.Args[len(os.Args)-1] == "pause" {
		err = c.Pause(0)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(strconv.Itoa(c.nodes[0].process.Pid))
	select {}
}

func TestNodesDoNotOutliveTheirProgram(t *testing.T) {
	for _, how := range []string{"run", "pause"} {
		cmd := exec.Command(os.Args[0], how)
		cmd.Env = append(os.Environ(), abandonVariable+"="+t.TempDir())
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		said, _ := bufio.NewReader(out).ReadString('\n')
		pid, err := strconv.Atoi(strings.TrimSpace(said))
		require.NoError(t, err, how)
		require.True(t, alive(pid), how)
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		require.Eventually(t, func() bool { return !alive(pid) }, 30*time.Second, 20*time.Millisecond, how)
	}
}

func TestStartRefusesWhatCannotWork(t *testing.T) {
	for _, nodes := range []int{-1, 0, 2, 4} {
		_, err := Start(t.Context(), nodes, t.TempDir())
		require.ErrorContains(t, err, "nodes is "+strconv.Itoa(nodes))
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	_, err := Start(ended, 1, dir)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, os.MkdirAll(dir+"/node-0", 0o700))
	_, err = Start(t.Context(), 1, dir)
	require.ErrorContains(t, err, "must not have been used")
	c := &Cluster{nodes: []*node{{}}}
	for _, call := range []func(int) error{c.Kill, c.Pause, c.Resume, c.Restart} {
		require.ErrorContains(t, call(1), "node is 1, must be 0 to 0")
		require.Error(t, call(-1))
	}
}
