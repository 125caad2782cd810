package faults

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/snowfence/snowflake/internal/servers"
	"github.com/snowfence/snowflake/internal/servers/servertest"
)

// namespace is a network of its own, with one cable to the machine's.
type namespace struct{ name, near string }

var namespaces atomic.Int32

// newNamespace makes a network namespace. It takes root.
func newNamespace() (namespace, error) {
	for program, debian := range map[string]string{"ip": "iproute2", "nft": "nftables"} {
		if _, err := exec.LookPath(program); err != nil {
			return namespace{}, &servers.MissingError{Program: program, Package: debian}
		}
	}
	n := namespaces.Add(1)
	ns := namespace{name: fmt.Sprintf("snowflake%d", n), near: fmt.Sprintf("10.203.%d.1", n)}
	cable, far := fmt.Sprintf("snow%da", n), fmt.Sprintf("snow%db", n)
	_ = exec.Command("ip", "netns", "delete", ns.name).Run() // of a run that was killed
	_ = exec.Command("ip", "link", "delete", cable).Run()
	for _, line := range []string{
		"ip netns add " + ns.name,
		"ip link add " + cable + " type veth peer name " + far + " netns " + ns.name,
		"ip address add " + ns.near + "/30 dev " + cable,
		"ip link set " + cable + " up",
		fmt.Sprintf("ip -n %s address add 10.203.%d.2/30 dev %s", ns.name, n, far),
		"ip -n " + ns.name + " link set " + far + " up",
		"ip -n " + ns.name + " link set lo up",
	} {
		words := strings.Fields(line)
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			return ns, errors.Join(fmt.Errorf("%s: %w: %s", line, err, out), ns.remove())
		}
	}
	return ns, nil
}

func (n namespace) remove() error { return exec.Command("ip", "netns", "delete", n.name).Run() }

// drop drops all packets in one direction, "input" or "output" as the namespace sees it.
func (n namespace) drop(direction string) error {
	return n.nft(fmt.Sprintf("table inet %s { chain c { type filter hook %s priority 0; policy drop; }; }", direction, direction))
}

func (n namespace) heal(direction string) error { return n.nft("delete table inet " + direction) }

func (n namespace) nft(command string) error {
	if out, err := exec.Command("ip", "netns", "exec", n.name, "nft", command).CombinedOutput(); err != nil {
		return fmt.Errorf("nft %s: %w: %s", command, err, out)
	}
	return nil
}

// One worker is cut off from the store, at the level of packets: nothing is refused, nothing
// is reset, packets of one direction or of both just vanish. It stops by its deadline, the
// others go on, and it heals when packets pass again.
func TestPartition(t *testing.T) {
	for name, directions := range map[string][]string{
		"nothing reaches the store":    {"output"},
		"nothing comes from the store": {"input"},
		"a black hole":                 {"input", "output"},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, remote(), func(t *testing.T, b backend) {
				ns := servertest.Need(t, newNamespace)
				t.Cleanup(func() { require.NoError(t, ns.remove()) })
				s := servertest.Need(t, b.share)
				cable := newProxy(t, ns.near, s.Address())
				f := newFleet(t, b.shared(t), Plan{})
				others := f.starts(2)
				far := b.open(t, s, net.JoinHostPort(ns.near, strconv.Itoa(cable.port())))
				far.Prefix = f.plan.Store.Prefix
				cutOff := f.start(func(p *Plan) { p.Store = far }, ns.name)
				cutOff.mints()
				codes := f.codes([]*worker{cutOff})
				f.resetSilence()

				cut := time.Now()
				for _, d := range directions {
					require.NoError(t, ns.drop(d))
				}
				stopped := cutOff.refuses(cut)
				require.Less(t, stopped, f.plan.TTL+slack)
				f.allMint(others)
				for _, w := range others {
					require.Empty(t, w.refusedSince(cut))
				}
				time.Sleep(2 * time.Second)
				for _, d := range directions {
					require.NoError(t, ns.heal(d))
				}
				healed := cutOff.mints()
				require.Equal(t, codes, f.codes([]*worker{cutOff}))
				silence := f.longestSilence([]*worker{cutOff})
				f.leave(append(others, cutOff))
				results.add(result{
					order: 40, fault: "partition of one worker, packets dropped: " + name, store: b.kind, ids: f.audit(), stopped: silence, healed: healed,
					note: fmt.Sprintf("refused %s after the cut; same code afterwards; the others refused nothing", shown(stopped)),
				})
			})
		})
	}
}
