package snowflake

import (
	"context"
	"time"
)

// HighWaterStore remembers, for codes that have no lease record, a mark that no
// timestamp in use has reached. Most programs use FileHighWater, or the database
// of stores/sqlstore. It is called from many goroutines.
//
// Open takes the code for one owner, until Close or until the process ends, and
// must refuse a second with ErrCodeInUse. It must refuse another layout than the
// one the code's mark was made with (ErrLayoutMismatch), and a mark that cannot be
// read or understood (ErrDamaged, never "not used yet").
type HighWaterStore interface {
	Open(ctx context.Context, code int, layout Layout) (HighWater, error)
}

// HighWater is the mark of one code, opened by one owner. Its methods are called
// by one goroutine at a time.
//
// An owner that was superseded must get ErrConflict from Advance and Close, and its
// call must change nothing.
type HighWater interface {
	// Mark returns the mark as opened, a whole tick: nothing at or above it has
	// been used. Zero: the code was never used.
	Mark() time.Time
	// Advance raises the mark to mark, a whole tick, and returns nil only after
	// that is durable. A lower mark than the stored one changes nothing.
	Advance(ctx context.Context, mark time.Time) error
	// Close gives the code up. unused is the first tick that was not used: the
	// mark becomes the later of it and the mark as opened. Zero: unknown, the
	// mark stays. The code is given up even where Close returns an error.
	Close(ctx context.Context, unused time.Time) error
}

// NoHighWater opts out of remembering. It is for codes that are never used by two
// processes one after the other within the error of their clocks, or whose IDs may
// repeat: uniqueness over restarts is then the operator's promise. Config.MaxAhead
// must be 0 with it, unless the lease has ceilings.
func NoHighWater() HighWaterStore { return noHighWater{} }

type noHighWater struct{}

func (noHighWater) Open(context.Context, int, Layout) (HighWater, error) { return noMark{}, nil }

type noMark struct{}

func (noMark) Mark() time.Time                          { return time.Time{} }
func (noMark) Advance(context.Context, time.Time) error { return nil }
func (noMark) Close(context.Context, time.Time) error   { return nil }
