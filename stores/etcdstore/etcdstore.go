package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"github.com/snowfence/snowflake"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Store is a LeaseStore in etcd. It is safe for concurrent use. Close the client after the
// last generator.
type Store struct {
	client *clientv3.Client
	kv     clientv3.KV
	prefix string
	failed atomic.Bool // the last call has: see reconnect
}

var _ snowflake.LeaseStore = (*Store)(nil)

const (
	maxPrefix = 255
	maxRecord = 4096 // bytes, of which nearly all are left for Owner
	pageSize  = 1100 // records a request: a region of up to 10 bits in one
)

// New returns a store of the keys below prefix, such as "snowflake" or "/ids/eu". Stores
// whose prefixes differ share nothing, even if one prefix begins with the other. New asks
// the servers nothing, so that a service can start without them.
//
// prefix must not be empty, longer than 255 bytes, end in "/", or have characters that are
// not printable.
func New(client *clientv3.Client, prefix string) (*Store, error) {
	switch {
	case client == nil || client.KV == nil:
		return nil, errors.New("etcdstore: New: client is nil")
	case prefix == "":
		return nil, errors.New(`etcdstore: New: prefix is "", must not be empty`)
	case len(prefix) > maxPrefix:
		return nil, fmt.Errorf("etcdstore: New: prefix has %d bytes, must have at most %d", len(prefix), maxPrefix)
	case strings.HasSuffix(prefix, "/"):
		return nil, fmt.Errorf("etcdstore: New: prefix is %q, must not end in /", prefix)
	case !utf8.ValidString(prefix) || strings.ContainsFunc(prefix, func(r rune) bool { return !unicode.IsPrint(r) }):
		return nil, fmt.Errorf("etcdstore: New: prefix is %q, must be UTF-8 text of printable characters", prefix)
	}
	return &Store{client: client, kv: client.KV, prefix: prefix}, nil
}

// reconnect has the client connect at once if the call before has failed. Left alone, gRPC
// waits longer after each connection that was refused, up to two minutes: after a failover
// of 90 s, which leases live through, it would let their time run out on a server that is
// there. How often it is called is for leases to choose, which back off themselves.
func (s *Store) reconnect() {
	if !s.failed.Swap(false) {
		return
	}
	if conn := s.client.ActiveConnection(); conn != nil {
		conn.ResetConnectBackoff()
	}
}

// MayForget returns false: see the package's comment for the settings under which that is
// not so.
func (s *Store) MayForget() bool { return false }

func (s *Store) folder(region int) string { return s.prefix + "/" + strconv.Itoa(region) + "/" }

func (s *Store) key(region, worker int) string { return s.folder(region) + strconv.Itoa(worker) }

// Records returns the region's records, in linearizable reads: a majority of the members
// has confirmed that nothing newer is committed. Of more than one page each is as of its
// own moment, which is enough: records are compared one by one.
func (s *Store) Records(ctx context.Context, region int) ([]snowflake.Record, error) {
	fail := func(err error) ([]snowflake.Record, error) {
		return nil, fmt.Errorf("etcdstore: records of region %d below %q: %w", region, s.prefix, err)
	}
	switch {
	case region < 0:
		return fail(errors.New("the region must not be negative"))
	case ctx.Err() != nil:
		return fail(ctx.Err())
	}
	records := []snowflake.Record{}
	folder := s.folder(region)
	for from, more := folder, true; more; {
		s.reconnect()
		page, err := s.kv.Get(ctx, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(folder)), clientv3.WithLimit(pageSize))
		if err != nil {
			s.failed.Store(true)
			return fail(err)
		}
		for _, kv := range page.Kvs {
			from = string(kv.Key) + "\x00" // the next key there can be
			if strings.Contains(string(kv.Key[len(folder):]), "/") {
				continue // of a store whose prefix begins with this folder
			}
			r, err := decode(kv.Value)
			if err == nil && string(kv.Key) != s.key(r.Region, r.Worker) {
				err = fmt.Errorf("the record is of worker %d of region %d", r.Worker, r.Region)
			}
			if err != nil {
				return fail(fmt.Errorf("%w: key %q: %w. It tells how far a code was used: restore it; or stop every process of the region for one TTL, then delete it",
					snowflake.ErrDamaged, kv.Key, err))
			}
			r.Version = uint64(kv.ModRevision)
			records = append(records, r)
		}
		more = page.More && len(page.Kvs) > 0
	}
	return records, nil
}

// Swap compares and swaps one record, in one transaction. A version is the revision of
// etcd at which the key was written; the nonce is compared as the beginning of the value.
func (s *Store) Swap(ctx context.Context, old, new snowflake.Record) (snowflake.Record, error) {
	fail := func(err error) (snowflake.Record, error) {
		return snowflake.Record{}, &snowflake.LeaseError{Region: new.Region, Worker: new.Worker, Err: fmt.Errorf("etcdstore: %w", err)}
	}
	if err := admit(old, new); err != nil {
		return fail(err)
	}
	value := encode(new)
	switch {
	case len(value) > maxRecord:
		return fail(fmt.Errorf("the record takes %d bytes, must take at most %d: shorten Owner", len(value), maxRecord))
	case ctx.Err() != nil:
		return fail(fmt.Errorf("nothing was written: %w", ctx.Err()))
	case old.Version == 0 && old.Nonce != "" || old.Version > math.MaxInt64: // no record has that
		return snowflake.Record{}, &snowflake.LeaseError{Region: new.Region, Worker: new.Worker, Err: snowflake.ErrConflict}
	}
	key := s.key(new.Region, new.Worker)
	same := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", int64(old.Version))} // 0: there is no key
	if old.Version != 0 {
		// Between these two lies exactly what begins with the first.
		first, last := span(old.Nonce)
		same = append(same, clientv3.Compare(clientv3.Value(key), ">", first), clientv3.Compare(clientv3.Value(key), "<", last))
	}
	s.reconnect()
	answer, err := s.kv.Txn(ctx).If(same...).Then(clientv3.OpPut(key, value)).Else(clientv3.OpGet(key)).Commit()
	if err != nil {
		s.failed.Store(true)
		return fail(err)
	}
	if answer.Succeeded {
		new.Version = uint64(answer.Header.Revision)
		new.Ceiling = new.Ceiling.Round(0).UTC()
		return new, nil
	}
	conflict := &snowflake.LeaseError{Region: new.Region, Worker: new.Worker, Err: snowflake.ErrConflict}
	for _, kv := range answer.Responses[0].GetResponseRange().GetKvs() {
		if string(kv.Value) == value {
			// A conflict says that nothing was written. Here it may be the request itself
			// that was, and was sent a second time.
			return fail(errSentTwice)
		}
		if stored, err := decode(kv.Value); err == nil {
			conflict.Holder = stored.Owner
		}
	}
	return snowflake.Record{}, conflict
}

var errSentTwice = errors.New("the record is already what was to be written, perhaps by this request, sent twice")

// admit refuses what no record can be.
func admit(old, new snowflake.Record) error {
	switch {
	case new.Region < 0:
		return fmt.Errorf("region is %d, must not be negative", new.Region)
	case new.Worker < -1:
		return fmt.Errorf("worker is %d, must be at least -1", new.Worker)
	case (old.Version != 0 || old.Nonce != "") && (old.Region != new.Region || old.Worker != new.Worker):
		return fmt.Errorf("old is worker %d of region %d, new is worker %d of region %d, must be the same",
			old.Worker, old.Region, new.Worker, new.Region)
	case new.Token > math.MaxInt64:
		return fmt.Errorf("token is %d, must be at most %d", new.Token, int64(math.MaxInt64))
	}
	return nil
}
