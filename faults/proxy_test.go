//go:build unix

package faults

import (
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// proxy is a network between workers and a server, with faults.
type proxy struct {
	listener net.Listener

	mu     sync.Mutex
	target string
	delay  time.Duration // of every answer
	held   chan struct{} // not nil: nothing passes until it is closed
	dead   bool          // connections are refused
	every  int           // of the answers, each of that number
	count  int
	conns  map[net.Conn]struct{}
	broken int // connections that were reset
}

// newProxy listens at host, "127.0.0.1" or the address of a network namespace's other end.
func newProxy(t *testing.T, host, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	require.NoError(t, err)
	p := &proxy{listener: l, target: target, conns: make(map[net.Conn]struct{})}
	go p.serve()
	t.Cleanup(p.close)
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) port() int {
	_, port, _ := net.SplitHostPort(p.address())
	n, _ := strconv.Atoi(port)
	return n
}

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target, dead := p.target, p.dead
		p.mu.Unlock()
		if dead {
			reset(client)
			continue
		}
		go p.join(client, target)
	}
}

// join carries bytes both ways until either end closes.
func (p *proxy) join(client net.Conn, target string) {
	server, err := net.Dial("tcp", target)
	if err != nil {
		reset(client)
		return
	}
	p.mu.Lock()
	p.conns[client], p.conns[server] = struct{}{}, struct{}{}
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.carry(server, client, false) })
	both.Go(func() { p.carry(client, server, true) })
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, client)
	delete(p.conns, server)
}

// carry carries bytes one way.
func (p *proxy) carry(to, from net.Conn, answers bool) {
	defer func() {
		_ = to.Close()
		_ = from.Close()
	}()
	for buffer := make([]byte, 64<<10); ; {
		n, err := from.Read(buffer)
		if err != nil && !errors.Is(err, io.EOF) || n == 0 {
			return
		}
		p.mu.Lock()
		delay, held, broken := time.Duration(0), p.held, false
		if answers {
			delay, broken = p.delay, p.breaks()
		}
		p.mu.Unlock()
		if broken { // The server has done it; nobody is told.
			reset(to)
			return
		}
		time.Sleep(delay)
		if held != nil {
			<-held
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// breaks says whether this answer is replaced by a reset. mu is held.
func (p *proxy) breaks() bool {
	if p.every == 0 {
		return false
	}
	p.count++
	broken := p.count%p.every == 0
	if broken {
		p.broken++
	}
	return broken
}

// set changes what the proxy does.
func (p *proxy) set(change func(*proxy)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

// hold makes a black hole: nothing passes, nothing is refused. Until release.
func (p *proxy) hold() { p.set(func(p *proxy) { p.held = make(chan struct{}) }) }

func (p *proxy) release() {
	p.set(func(p *proxy) {
		if p.held != nil {
			close(p.held)
			p.held = nil
		}
	})
}

// cut resets all connections and refuses new ones, until mend.
func (p *proxy) cut() {
	p.set(func(p *proxy) {
		p.dead = true
		for c := range p.conns {
			reset(c)
		}
	})
}

// mend ends a cut. New connections go to target.
func (p *proxy) mend(target string) {
	p.set(func(p *proxy) { p.dead, p.target = false, target })
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.release()
	p.cut()
}

// reset closes a connection with a reset.
func reset(c net.Conn) {
	if c, ok := c.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	_ = c.Close()
}
