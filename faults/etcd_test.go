//go:build unix

package faults

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/snowfence/snowflake/internal/servers/servertest"
)

// Of three nodes of etcd one is lost: work goes on. Then two of three: workers go on inside
// what they have been granted, refuse, and heal on the codes that they had.
func TestEtcdLosesNodes(t *testing.T) {
	t.Parallel()
	for name, leads := range map[string]bool{"a follower first": false, "the leader first": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := servertest.Need(t, func() (*etcd, error) { return startEtcd(3) })
			t.Cleanup(cluster.Stop)
			f := newFleet(t, Store{Kind: Etcd, Address: cluster.Address()}, Plan{TTL: 12 * time.Second, Renew: time.Second})
			workers := f.starts(4)
			codes := f.codes(workers)
			f.resetSilence()
			first, err := cluster.Leader(t.Context())
			require.NoError(t, err)
			if !leads {
				first = (first + 1) % 3
			}
			lost := time.Now()
			require.NoError(t, cluster.Cluster.Kill(first))
			for _, w := range workers { // until each lives on a ceiling from after the loss
				f.eventually("it renews", func() bool { return f.held(w).Ceiling.After(lost.Add(f.plan.TTL + time.Second)) })
				require.Empty(t, w.refusedSince(lost))
			}
			workers = append(workers, f.starts(1)...) // and codes can be had
			codes = append(codes, f.codes(workers[4:])...)
			onOne := f.longestSilence(workers)

			lost = time.Now()
			require.NoError(t, cluster.Cluster.Kill((first+1)%3))
			early, last := f.allRefuse(workers, lost)
			require.Greater(t, early, f.plan.TTL-3*f.plan.Renew)
			require.Less(t, last, f.plan.TTL+slack)
			require.NoError(t, cluster.Cluster.Restart(first))
			back := time.Now()
			f.allMint(workers)
			healed := time.Since(back)
			require.Equal(t, codes, f.codes(workers))
			silence := f.longestSilence(workers)
			f.leave(workers)
			results.add(result{
				order: 35, fault: "etcd loses one node of three (" + name + "), then two", store: "etcd, 3 nodes", ids: f.audit(), stopped: silence, healed: healed,
				note: fmt.Sprintf("one: nothing refused, a new worker starts, longest pause %s. Two: went on for %s to %s, then refused; same codes and tokens afterwards",
					shown(onOne), shown(early), shown(last)),
			})
		})
	}
}
