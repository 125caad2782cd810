package etcdtest

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/internal/etcdserver"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// However prefixes are nested, and whatever numbers they end in.
func TestPrefixesDoNotMix(t *testing.T) {
	client := connect(t, one.start(t).Endpoints())
	base := newPrefix()
	want := make(map[string][]snowflake.Record)
	prefixes := []string{"", "/b", "b", "/1", "/1/2", "/2", "/2/17", "//2", "/2/17/2", "/-1"}
	for i, prefix := range prefixes {
		s := store(t, client, base+prefix)
		for _, worker := range []int{-1, 17, 2} { // in the order of keys
			r := someRecord(worker)
			r.Nonce += strconv.Itoa(i)
			want[prefix] = append(want[prefix], swap(t, s, snowflake.Record{}, r))
		}
	}
	for _, prefix := range prefixes {
		s := store(t, client, base+prefix)
		require.ElementsMatch(t, want[prefix], records(t, s, 2), prefix)
		require.Empty(t, records(t, s, 1), prefix)
		require.Empty(t, records(t, s, 17), prefix)
	}
}

func TestRegionsOfManyPages(t *testing.T) {
	const workers = 1150 // a page has 1,100
	s := store(t, connect(t, one.start(t).Endpoints()), newPrefix())
	var group sync.WaitGroup
	for first := range 100 {
		group.Go(func() {
			for worker := first; worker < workers; worker += 100 {
				if _, err := s.Swap(t.Context(), snowflake.Record{}, someRecord(worker)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	seen := make(map[int]bool)
	for _, r := range records(t, s, 2) {
		require.False(t, seen[r.Worker], "worker %d comes twice", r.Worker)
		seen[r.Worker] = true
	}
	require.Len(t, seen, workers)
}

// What nobody understands is neither believed nor written over.
func TestDamagedAndNewerRecordsAreRefused(t *testing.T) {
	client := connect(t, one.start(t).Endpoints())
	prefix := newPrefix()
	s := store(t, client, prefix)
	now := swap(t, s, snowflake.Record{}, someRecord(17))
	key := prefix + "/2/17"
	found, err := client.Get(t.Context(), key)
	require.NoError(t, err)
	whole := string(found.Kvs[0].Value)
	for name, value := range map[string]string{
		"newer format":      strings.Replace(whole, "format 1", "format 2", 1),
		"edited":            strings.Replace(whole, "2030", "2029", 1),
		"empty":             "",
		"of another worker": strings.Replace(whole, "worker 17", "worker 18", 1),
	} {
		put, err := client.Put(t.Context(), key, value)
		require.NoError(t, err)
		_, err = s.Records(t.Context(), 2)
		require.ErrorIs(t, err, snowflake.ErrDamaged, name)
		require.ErrorContains(t, err, key, name)
		require.False(t, snowflake.Retryable(err), name)
		_, err = snowflake.AcquireLease(t.Context(), s, snowflake.LeaseConfig{Region: 2})
		require.ErrorIs(t, err, snowflake.ErrDamaged, name)
		same := now
		same.Version = uint64(put.Header.Revision)
		for _, old := range []snowflake.Record{{}, now, same} {
			next := someRecord(17)
			next.Token++
			_, err = s.Swap(t.Context(), old, next)
			if name != "edited" && name != "of another worker" || old != same { // these still have the nonce
				require.ErrorIs(t, err, snowflake.ErrConflict, name)
			}
		}
		require.Empty(t, records(t, s, 3), "other regions do not care")
	}
	_, err = client.Put(t.Context(), key, whole)
	require.NoError(t, err)
	_, err = client.Put(t.Context(), prefix+"/2/017", whole)
	require.NoError(t, err)
	_, err = s.Records(t.Context(), 2)
	require.ErrorIs(t, err, snowflake.ErrDamaged, "the right value of another key")
}

func TestSwapRefusesWhatNoRecordCanBe(t *testing.T) {
	s := store(t, connect(t, one.start(t).Endpoints()), newPrefix())
	for name, change := range map[string]func(r *snowflake.Record){
		"region is -1, must not be negative":             func(r *snowflake.Record) { r.Region = -1 },
		"worker is -2, must be at least -1":              func(r *snowflake.Record) { r.Worker = -2 },
		"token is 9223372036854775808, must be at most ": func(r *snowflake.Record) { r.Token = 1 << 63 },
		"must take at most 4096: shorten Owner":          func(r *snowflake.Record) { r.Owner = strings.Repeat("x", 4000) },
	} {
		r := someRecord(17)
		change(&r)
		_, err := s.Swap(t.Context(), snowflake.Record{}, r)
		require.ErrorContains(t, err, name)
		require.NotErrorIs(t, err, snowflake.ErrConflict)
	}
	other := someRecord(18)
	other.Version = 1
	_, err := s.Swap(t.Context(), other, someRecord(17))
	require.ErrorContains(t, err, "must be the same")
	beyond := someRecord(17)
	beyond.Version = 1 << 63
	_, err = s.Swap(t.Context(), beyond, someRecord(17))
	require.ErrorIs(t, err, snowflake.ErrConflict, "no record has it")
	_, err = s.Records(t.Context(), -1)
	require.ErrorContains(t, err, "negative")
	require.Empty(t, records(t, s, 2))
}

func TestConflictsNameTheHolder(t *testing.T) {
	s := store(t, connect(t, one.start(t).Endpoints()), newPrefix())
	swap(t, s, snowflake.Record{}, someRecord(17))
	next := someRecord(17)
	next.Nonce, next.Owner = "another", "another"
	_, err := s.Swap(t.Context(), snowflake.Record{}, next)
	var conflict *snowflake.LeaseError
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, "host/17", conflict.Holder)
}

// answerLoser lets transactions through, and then answers as a server or proxy that gives
// up on them does.
type answerLoser struct {
	code atomic.Uint32 // 0: it does not
	sent atomic.Int32
}

func (l *answerLoser) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, cc, opts...)
	if code := codes.Code(l.code.Load()); code != codes.OK && strings.HasSuffix(method, "/Txn") {
		if l.sent.Add(1) == 1 {
			return status.Error(code, "lost")
		}
	}
	return err
}

// The client sends some transactions a second time, although the first was committed: the
// second finds the record changed, which must not be taken for a write that did not happen.
func TestLostAnswersAreUnknown(t *testing.T) {
	loser := &answerLoser{}
	client := connect(t, one.start(t).Endpoints(), grpc.WithChainUnaryInterceptor(loser.intercept))
	for code, sends := range map[codes.Code]int32{
		codes.Unavailable: 1, codes.Unknown: 1, codes.Internal: 1, codes.ResourceExhausted: 1, codes.DeadlineExceeded: 2, codes.Canceled: 2,
	} {
		s := store(t, client, newPrefix())
		first := swap(t, s, snowflake.Record{}, someRecord(17))
		for _, old := range []snowflake.Record{{Region: 2, Worker: 18}, first} {
			loser.sent.Store(0)
			loser.code.Store(uint32(code))
			next := someRecord(old.Worker)
			next.Token++
			_, err := s.Swap(t.Context(), old, next)
			loser.code.Store(0)
			require.Error(t, err, code)
			require.NotErrorIs(t, err, snowflake.ErrConflict, code)
			require.Equal(t, sends, loser.sent.Load(), "%v: requests", code)
			var landed bool
			for _, r := range records(t, s, 2) {
				landed = landed || r.Worker == next.Worker && r.Token == next.Token
			}
			require.True(t, landed, "%v: it has happened", code)
		}
		loser.sent.Store(0)
		loser.code.Store(uint32(code))
		l, err := snowflake.AcquireLease(t.Context(), s, snowflake.LeaseConfig{Region: 2})
		loser.code.Store(0)
		require.NoError(t, err, code)
		require.NoError(t, l.Close(t.Context()))
		require.Len(t, records(t, s, 2), 4, "%v: the layout, two records, and the one code that was taken", code)
	}
}

func TestCallsEndWithTheirContext(t *testing.T) {
	cluster := one.start(t)
	s := store(t, connect(t, cluster.Endpoints()), newPrefix())
	now := swap(t, s, snowflake.Record{}, someRecord(17))
	pause(t, cluster, 0)
	for name, call := range map[string]func(ctx context.Context) error{
		"Swap":    func(ctx context.Context) error { _, err := s.Swap(ctx, now, someRecord(17)); return err },
		"Records": func(ctx context.Context) error { _, err := s.Records(ctx, 2); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		began := time.Now()
		err := call(ctx)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded, name)
		require.NotErrorIs(t, err, snowflake.ErrConflict, name)
		require.Less(t, time.Since(began), 5*time.Second, name)
	}
	require.NoError(t, cluster.Resume(0))
	require.Len(t, records(t, s, 2), 1)
}

// The package's comment says so to those who make users.
func TestPermissionForThePrefixIsEnough(t *testing.T) {
	ctx := limited(t)
	cluster, err := etcdserver.Start(ctx, 1, t.TempDir())
	require.NoError(t, err)
	defer cluster.Stop()
	admin := connect(t, cluster.Endpoints())
	_, err = admin.RoleAdd(ctx, "ids")
	require.NoError(t, err)
	_, err = admin.RoleGrantPermission(ctx, "ids", "snowflake/", clientv3.GetPrefixRangeEnd("snowflake/"), clientv3.PermissionType(clientv3.PermReadWrite))
	require.NoError(t, err)
	for user, role := range map[string]string{"root": "root", "service": "ids"} {
		// Nobody comes as root, and to hash its password takes the race detector seconds.
		_, err = admin.UserAddWithOptions(ctx, user, "secret", &clientv3.UserAddOptions{NoPassword: user == "root"})
		require.NoError(t, err)
		_, err = admin.UserGrantRole(ctx, user, role)
		require.NoError(t, err)
	}
	_, err = admin.AuthEnable(ctx)
	require.NoError(t, err)

	service, err := clientv3.New(clientv3.Config{Endpoints: cluster.Endpoints(), Username: "service", Password: "secret", Logger: zap.NewNop()})
	require.NoError(t, err)
	defer func() { require.NoError(t, service.Close()) }()
	l, err := snowflake.AcquireLease(ctx, store(t, service, "snowflake"), snowflake.LeaseConfig{})
	require.NoError(t, err)
	require.NoError(t, l.Close(ctx))
	for _, other := range []string{"snowflake2", "ids"} {
		s := store(t, service, other)
		_, err = s.Records(ctx, 2)
		require.ErrorContains(t, err, "permission denied", other)
		_, err = s.Swap(ctx, snowflake.Record{}, someRecord(17))
		require.ErrorContains(t, err, "permission denied", other)
		require.NotErrorIs(t, err, snowflake.ErrConflict)
	}
}

// countingDialer counts the connections that are open.
type countingDialer struct{ open atomic.Int32 }

type countedConn struct {
	net.Conn
	closed func()
}

func (c countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

func (d *countingDialer) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	d.open.Add(1)
	return countedConn{conn, sync.OnceFunc(func() { d.open.Add(-1) })}, nil
}

func TestNothingLeaks(t *testing.T) {
	endpoints := three.start(t).Endpoints()
	before := goleak.IgnoreCurrent()
	var dialer countingDialer
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialOptions: []grpc.DialOption{grpc.WithContextDialer(dialer.dial)}})
	require.NoError(t, err)
	s := store(t, client, newPrefix())
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			l, err := snowflake.AcquireLease(t.Context(), s, snowflake.LeaseConfig{})
			if err == nil {
				err = l.Close(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
			ended, cancel := context.WithTimeout(t.Context(), time.Microsecond)
			defer cancel()
			_, _ = s.Records(ended, 0)
		})
	}
	group.Wait()
	require.LessOrEqual(t, dialer.open.Load(), int32(len(endpoints)), "one connection a node, however many leases")
	require.NoError(t, client.Close())
	goleak.VerifyNone(t, before)
	require.Zero(t, dialer.open.Load())
}
