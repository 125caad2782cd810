package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/snowfence/snowflake"
)

// stepClock is the system clock, with a wall that can be set back.
type stepClock struct {
	began time.Time
	wall  atomic.Int64 // nanoseconds that the wall differs from the machine's
}

var _ interface {
	snowflake.Clock
	Elapsed() time.Duration
} = (*stepClock)(nil)

func (c *stepClock) Now() time.Time {
	return time.Now().Round(0).Add(time.Duration(c.wall.Load())) // without the monotonic reading, which never steps
}

func (*stepClock) After(d time.Duration) <-chan time.Time { return time.After(d) }
func (c *stepClock) Elapsed() time.Duration               { return time.Since(c.began) }

// step moves the wall by d, as a correction by the time service does.
func (c *stepClock) step(d time.Duration) { c.wall.Add(int64(d)) }

// cutStore is a lease store that can become unreachable.
type cutStore struct {
	snowflake.LeaseStore
	down atomic.Bool
}

var errUnreachable = errors.New("demo: the lease store is unreachable")

func (s *cutStore) Records(ctx context.Context, region int) ([]snowflake.Record, error) {
	if s.down.Load() {
		return nil, errUnreachable
	}
	return s.LeaseStore.Records(ctx, region)
}

func (s *cutStore) Swap(ctx context.Context, old, new snowflake.Record) (snowflake.Record, error) {
	if s.down.Load() {
		return snowflake.Record{}, errUnreachable
	}
	return s.LeaseStore.Swap(ctx, old, new)
}
