package etcdserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Cluster is a cluster of etcd nodes, numbered from 0. It is safe for concurrent use.
type Cluster struct {
	mu    sync.Mutex
	nodes []*node // mu protects what they hold
}

// node is one process, or what is left of it between Kill and Restart.
type node struct {
	settings
	process *os.Process   // nil while it is dead
	life    *os.File      // its standard input is the other end
	said    <-chan string // its lines; closed when it has ended
	ended   <-chan struct{}
}

// errTaken is that of a port that another process was faster to get.
var errTaken = errors.New("etcdserver: a port is taken")

const portAttempts = 5

// Start starts a cluster of 1 or 3 nodes, and returns when all of them serve. ctx is for
// the start only. The data of node 0 is in dir/node-0, its log is dir/node-0.log; dir is
// made if it is missing, and must not have been used by a cluster. The ports are free ones.
func Start(ctx context.Context, nodes int, dir string) (*Cluster, error) {
	if nodes != 1 && nodes != 3 {
		return nil, fmt.Errorf("etcdserver: nodes is %d, must be 1 or 3", nodes)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("etcdserver: %w", err)
	}
	if used, _ := filepath.Glob(filepath.Join(dir, "node-*")); len(used) > 0 {
		return nil, fmt.Errorf("etcdserver: dir is %s, must not have been used: it has %s", dir, filepath.Base(used[0]))
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("etcdserver: %w", err)
	}
	for attempt := 1; ; attempt++ {
		c, err := newCluster(nodes, dir)
		if err == nil {
			err = c.start(ctx)
		}
		if err == nil {
			return c, nil
		}
		c.Stop()
		if !errors.Is(err, errTaken) || attempt == portAttempts {
			return nil, err
		}
		for _, n := range c.nodes { // the data would name the ports
			if err := os.RemoveAll(n.Data); err != nil {
				return nil, fmt.Errorf("etcdserver: %w", err)
			}
		}
	}
}

func newCluster(nodes int, dir string) (*Cluster, error) {
	c := &Cluster{}
	addresses, err := freePorts(2 * nodes)
	if err != nil {
		return c, err
	}
	var peers []string
	for i := range nodes {
		name := fmt.Sprintf("node-%d", i)
		c.nodes = append(c.nodes, &node{settings: settings{
			Name: name, Data: filepath.Join(dir, name), Log: filepath.Join(dir, name+".log"),
			Client: addresses[2*i], Peer: addresses[2*i+1],
		}})
		peers = append(peers, name+"=http://"+addresses[2*i+1])
	}
	for _, n := range c.nodes {
		n.Peers = strings.Join(peers, ",")
	}
	return c, nil
}

// start starts all nodes at once, since none is ready before a majority is there.
func (c *Cluster) start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	failed := make(chan error, len(c.nodes))
	for _, n := range c.nodes {
		go func() {
			err := n.start(ctx)
			if err == nil {
				err = n.hear(ctx, saysReady)
			}
			failed <- err
		}()
	}
	var all error
	for range c.nodes {
		all = errors.Join(all, <-failed)
	}
	return all
}

// start executes this program as the node, and returns when the node has its ports.
func (n *node) start(ctx context.Context) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("etcdserver: %w", err)
	}
	told, err := json.Marshal(n.settings)
	if err != nil {
		return fmt.Errorf("etcdserver: %w", err)
	}
	log, err := os.OpenFile(n.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("etcdserver: %w", err)
	}
	defer func() { _ = log.Close() }()
	input, life, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("etcdserver: %w", err)
	}
	defer func() { _ = input.Close() }()
	lines, output, err := os.Pipe()
	if err != nil {
		_ = life.Close()
		return fmt.Errorf("etcdserver: %w", err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), nodeVariable+"="+string(told))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, output, log
	cmd.SysProcAttr = attributes()

	started, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // what the kernel takes for the parent is this thread
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		_ = output.Close()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	said := make(chan string, 8)
	go func() {
		defer close(said)
		defer func() { _ = lines.Close() }()
		for text := bufio.NewScanner(lines); text.Scan(); {
			said <- text.Text()
		}
	}()
	if err := <-started; err != nil {
		_ = life.Close()
		return fmt.Errorf("etcdserver: %w", err)
	}
	n.process, n.life, n.said, n.ended = cmd.Process, life, said, ended
	if err := n.hear(ctx, saysListening); err != nil {
		n.kill()
		return err
	}
	return nil
}

// hear waits for the node to say a line.
func (n *node) hear(ctx context.Context, line string) error {
	select {
	case said, alive := <-n.said:
		switch {
		case said == line:
			return nil
		case strings.Contains(said, "address already in use"):
			return fmt.Errorf("%w: %s: %s", errTaken, n.Name, said)
		case alive:
			return fmt.Errorf("etcdserver: %s says: %s: see %s", n.Name, said, n.Log)
		}
		return fmt.Errorf("etcdserver: %s has ended: see %s", n.Name, n.Log)
	case <-ctx.Done():
		return fmt.Errorf("etcdserver: %s is not yet %s: %w", n.Name, line, ctx.Err())
	}
}

func (n *node) kill() {
	if n.process != nil {
		_ = n.process.Kill()
		<-n.ended
		_ = n.life.Close()
		n.process = nil
	}
}

// Endpoints returns the addresses of all nodes for clients, as host:port, dead ones
// included.
func (c *Cluster) Endpoints() []string {
	var addresses []string
	for _, n := range c.nodes {
		addresses = append(addresses, n.Client)
	}
	return addresses
}

// Kill ends a node with SIGKILL, and returns when it is dead.
func (c *Cluster) Kill(i int) error {
	return c.with(i, func(n *node) error {
		n.kill()
		return nil
	})
}

// Restart starts a node that was killed, with its data and on its ports. It returns when
// the node has the ports; it serves as soon as there is a majority.
func (c *Cluster) Restart(i int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.node(i)
	if err != nil {
		return err
	}
	if n.process != nil {
		return fmt.Errorf("etcdserver: %s runs: Kill it first", n.Name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		if err = n.start(ctx); !errors.Is(err, errTaken) {
			return err
		}
		select { // whoever has the port may give it up
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

// Pause stops a node with SIGSTOP: its connections stay, and nothing answers.
func (c *Cluster) Pause(i int) error {
	return c.with(i, func(n *node) error { return pause(n.process) })
}

// Resume continues a paused node with SIGCONT.
func (c *Cluster) Resume(i int) error {
	return c.with(i, func(n *node) error { return resume(n.process) })
}

// Stop ends all nodes, paused ones too, and returns when they are dead. Their data stays.
func (c *Cluster) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		n.kill()
	}
}

// Leader returns the number of the node that leads. It asks until one does, or ctx ends.
func (c *Cluster) Leader(ctx context.Context) (int, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), Logger: zap.NewNop()}) // that nodes are dead is normal here
	if err != nil {
		return 0, fmt.Errorf("etcdserver: %w", err)
	}
	defer func() { _ = client.Close() }()
	for {
		for i, address := range c.Endpoints() {
			if leads(ctx, client, address) {
				return i, nil
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return 0, fmt.Errorf("etcdserver: no node leads: %w", ctx.Err())
		}
	}
}

func leads(ctx context.Context, client *clientv3.Client, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // it may be dead, or paused
	defer cancel()
	status, err := client.Status(ctx, address)
	return err == nil && status.Leader == status.Header.MemberId
}

// with calls do for a node that runs.
func (c *Cluster) with(i int, do func(n *node) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.node(i)
	if err == nil && n.process == nil {
		err = fmt.Errorf("etcdserver: %s does not run", n.Name)
	}
	if err != nil {
		return err
	}
	if err := do(n); err != nil {
		return fmt.Errorf("etcdserver: %s: %w", n.Name, err)
	}
	return nil
}

func (c *Cluster) node(i int) (*node, error) {
	if i < 0 || i >= len(c.nodes) {
		return nil, fmt.Errorf("etcdserver: node is %d, must be 0 to %d", i, len(c.nodes)-1)
	}
	return c.nodes[i], nil
}
