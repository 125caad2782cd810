package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/snowfence/snowflake"
)

// ErrForgetful says that the server may lose writes that it has acknowledged, or does not
// tell that it may not. The error that wraps it tells what is set and what must be.
var ErrForgetful = errors.New("redisstore: the server may forget what it has acknowledged")

// Options may be left out.
type Options struct {
	// MayForget accepts a server that may lose writes that it has acknowledged. Leases
	// then settle, so that codes can be used only about two minutes after the start (see
	// snowflake.LeaseConfig.Settle).
	MayForget bool
	// Warn is told, in New, what ErrForgetful would have said if MayForget were not set.
	// nil: it is logged to slog.Default.
	Warn func(why error)
}

// Store is a snowflake.LeaseStore in Redis. It is safe for concurrent use. Close the
// client after the last generator.
type Store struct {
	client    redis.UniversalClient
	prefix    string
	mayForget bool
}

var _ snowflake.LeaseStore = (*Store)(nil)

// New returns a store under the keys that begin with prefix, which must not be empty. It
// asks the server for its role and settings, and so takes a context. It refuses a replica,
// a redis.Ring and, with ErrForgetful, a server that may forget, unless o.MayForget is set.
// It does not close the client.
func New(ctx context.Context, client redis.UniversalClient, prefix string, o Options) (*Store, error) {
	s := &Store{client: client, prefix: prefix, mayForget: o.MayForget}
	switch client.(type) {
	case nil:
		return nil, errors.New("redisstore: New: client is nil")
	case *redis.Ring:
		return nil, errors.New("redisstore: New: client is a redis.Ring, which moves keys when a shard does not answer: give a client of one server, of Sentinel or of a cluster")
	}
	if prefix == "" {
		return nil, errors.New(`redisstore: New: prefix is empty: name the service or the ID space, as in "snowflake:"`)
	}
	// What leases will need, before they do: the right to run scripts, a primary, a hash
	// at the key.
	if _, err := s.records(ctx, 0); err != nil {
		return nil, fmt.Errorf("redisstore: New: %w", err)
	}
	reasons, err := await(ctx, func() ([]string, error) { return forgets(ctx, client) })
	if err != nil {
		return nil, fmt.Errorf("redisstore: New: %w", err)
	}
	if len(reasons) == 0 {
		return s, nil
	}
	why := fmt.Errorf("%w: %s", ErrForgetful, strings.Join(reasons, "; "))
	switch {
	case !o.MayForget:
		return nil, fmt.Errorf("redisstore: New: %w: change that, or set Options.MayForget", why)
	case o.Warn != nil:
		o.Warn(why)
	default:
		slog.Default().WarnContext(ctx, "redisstore: leases settle before a code is used", slog.Any("error", why))
	}
	return s, nil
}

// MayForget returns Options.MayForget.
func (s *Store) MayForget() bool { return s.mayForget }

// Time returns the server's time; in a cluster that of any node.
func (s *Store) Time(ctx context.Context) (time.Time, error) {
	now, err := await(ctx, func() (time.Time, error) { return s.client.Time(ctx).Result() })
	if err != nil {
		return time.Time{}, fmt.Errorf("redisstore: Time: %w", err)
	}
	return now.UTC(), nil
}

// key is the name of the region's hash. What is in braces chooses the slot in a cluster.
func (s *Store) key(region int) string { return fmt.Sprintf("%s{%d}", s.prefix, region) }
