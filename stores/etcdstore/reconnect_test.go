package etcdstore

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/snowfence/snowflake"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// However long a server was away, a lease's next attempt finds it: gRPC alone would wait
// longer from attempt to attempt, 1 s at first and two minutes in the end.
func TestEachCallAfterAFailureConnects(t *testing.T) {
	var dials atomic.Int32
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"etcd.invalid:2379"}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			dials.Add(1)
			return nil, errors.New("it is away")
		})},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	s, err := New(client, "test")
	require.NoError(t, err)
	const calls = 40
	for i := range calls {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if i%2 == 0 {
			_, err = s.Records(ctx, 0)
		} else {
			_, err = s.Swap(ctx, snowflake.Record{}, snowflake.Record{Nonce: "00112233445566778899aabbccddeeff"})
		}
		cancel()
		require.Error(t, err)
	}
	require.Greater(t, dials.Load(), int32(calls/2), "dials in the 2 s of %d calls", calls)
}
