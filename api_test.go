package snowflake_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/snowfence/snowflake"
)

// The names and types that users' code compiles against. A line that has to change here
// is a change that breaks somebody.
var (
	_ func(string) (snowflake.ID, error)                     = snowflake.ParseID
	_ func(snowflake.ID) int64                               = snowflake.ID.Int64
	_ func(snowflake.ID) bool                                = snowflake.ID.IsZero
	_ fmt.Stringer                                           = snowflake.ID(0)
	_ encoding.TextMarshaler                                 = snowflake.ID(0)
	_ encoding.TextAppender                                  = snowflake.ID(0)
	_ driver.Valuer                                          = snowflake.ID(0)
	_ encoding.TextUnmarshaler                               = (*snowflake.ID)(nil)
	_ json.Unmarshaler                                       = (*snowflake.ID)(nil)
	_ sql.Scanner                                            = (*snowflake.ID)(nil)
	_ func(snowflake.Encoding, snowflake.ID) string          = snowflake.Encoding.Encode
	_ func(snowflake.Encoding, string) (snowflake.ID, error) = snowflake.Encoding.Decode
	_                                                        = []snowflake.Encoding{snowflake.Decimal, snowflake.Base32, snowflake.Base58, snowflake.Base62, snowflake.Hex}

	_ func() snowflake.Layout                                       = snowflake.DefaultLayout
	_ func(snowflake.Needs) (snowflake.Layout, error)               = snowflake.PlanLayout
	_ func(snowflake.Layout) error                                  = snowflake.Layout.Validate
	_ fmt.Stringer                                                  = snowflake.Layout{}
	_ func(snowflake.Layout, snowflake.Parts) (snowflake.ID, error) = snowflake.Layout.Pack
	_ func(snowflake.Layout, snowflake.ID) (snowflake.Parts, error) = snowflake.Layout.Unpack
	_ func(snowflake.Layout, time.Time) (snowflake.ID, error)       = snowflake.Layout.MinID
	_ func(snowflake.Layout, time.Time) (snowflake.ID, error)       = snowflake.Layout.MaxID
	_ func(snowflake.Layout) time.Time                              = snowflake.Layout.End
	_ func(snowflake.Layout, int, int) (int, error)                 = snowflake.Layout.Code
	_                                                               = snowflake.Layout{Epoch: time.Time{}, Tick: time.Millisecond, TimeBits: 41, RegionBits: 2, WorkerBits: 8, SequenceBits: 12}
	_                                                               = snowflake.Needs{Epoch: time.Time{}, Tick: 0, Lifetime: 0, Regions: 1, WorkersPerRegion: 1, SpareCodes: 0, BurstPerTick: 1}
	_                                                               = snowflake.Parts{Time: time.Time{}, Region: 0, Worker: 0, Sequence: 0}

	_ func() snowflake.Clock    = snowflake.SystemClock
	_                           = snowflake.Grant{Code: 0, Token: uint64(0), Floor: time.Time{}, Ceiling: time.Time{}, Deadline: time.Time{}}
	_ func(int) snowflake.Lease = snowflake.StaticLease
	_ snowflake.Lease           = (*snowflake.WorkerLease)(nil)
	_                           = snowflake.Record{
		Region: 0, Worker: 0, Owner: "", Nonce: "", Token: uint64(0), Version: uint64(0), Ceiling: time.Time{}, Released: false, Layout: "",
	}
	_ = snowflake.LeaseConfig{
		Region: 0, Layout: snowflake.Layout{}, Owner: "", TTL: 0, Renew: 0, Settle: 0, MaxClockSkew: 0, Clock: nil, Hooks: nil,
	}
	_ func(context.Context, snowflake.LeaseStore, snowflake.LeaseConfig) (*snowflake.WorkerLease, error) = snowflake.AcquireLease
	_ func(*snowflake.WorkerLease) snowflake.Layout                                                      = (*snowflake.WorkerLease).Layout
	_ func(*snowflake.WorkerLease) error                                                                 = (*snowflake.WorkerLease).Err
	_ func(*snowflake.WorkerLease) snowflake.LeaseStats                                                  = (*snowflake.WorkerLease).Stats
	_ func(*snowflake.WorkerLease, context.Context, time.Time) error                                     = (*snowflake.WorkerLease).Release
	_ func(*snowflake.WorkerLease, context.Context) error                                                = (*snowflake.WorkerLease).Close
	_ func() snowflake.LeaseStore                                                                        = snowflake.NewMemoryStore
	_ func(string) (snowflake.LeaseStore, error)                                                         = snowflake.DirStore
	_ func(string) (snowflake.HighWaterStore, error)                                                     = snowflake.FileHighWater
	_ func() snowflake.HighWaterStore                                                                    = snowflake.NoHighWater

	_ = snowflake.Config{
		Lease: nil, HighWater: nil, Window: 0, Layout: snowflake.Layout{}, Clock: nil, MaxWait: 0, MaxAhead: 0, Hooks: nil,
	}
	_ func(context.Context, snowflake.Config) (*snowflake.Generator, error)    = snowflake.New
	_ func(*snowflake.Generator) (snowflake.ID, error)                         = (*snowflake.Generator).Next
	_ func(*snowflake.Generator, context.Context) (snowflake.ID, error)        = (*snowflake.Generator).NextContext
	_ func(*snowflake.Generator, context.Context, []snowflake.ID) (int, error) = (*snowflake.Generator).Fill
	_ func(*snowflake.Generator) error                                         = (*snowflake.Generator).Health
	_ func(*snowflake.Generator) snowflake.Stats                               = (*snowflake.Generator).Stats
	_ func(*snowflake.Generator) snowflake.Layout                              = (*snowflake.Generator).Layout
	_ func(*snowflake.Generator, snowflake.ID)                                 = (*snowflake.Generator).ReportDuplicate
	_ func(*snowflake.Generator, context.Context) error                        = (*snowflake.Generator).Close

	_ = snowflake.PoolConfig{Store: nil, Size: 0, Lease: snowflake.LeaseConfig{}, Formats: nil, MaxWait: 0, MaxAhead: 0}

	_ func(context.Context, snowflake.PoolConfig) (*snowflake.Pool, error) = snowflake.NewPool
	_ func(*snowflake.Pool) []snowflake.Stats                              = (*snowflake.Pool).Generators
	_ generator                                                            = (*snowflake.Generator)(nil)
	_ generator                                                            = (*snowflake.Pool)(nil)

	_ = []error{
		snowflake.ErrClockBehind, snowflake.ErrSaturated, snowflake.ErrLeaseLost, snowflake.ErrHighWater, snowflake.ErrTimeOverflow,
		snowflake.ErrBeforeEpoch, snowflake.ErrNoWorkerCode, snowflake.ErrLayoutMismatch, snowflake.ErrConflict, snowflake.ErrCodeInUse,
		snowflake.ErrDamaged, snowflake.ErrInvalidID, snowflake.ErrClosed,
		&snowflake.ClockError{Behind: 0, MaxWait: 0},
		&snowflake.LeaseError{Region: 0, Worker: 0, Holder: "", Until: time.Time{}, Err: nil},
	}
	_ func(error) bool                    = snowflake.Retryable
	_ func(*slog.Logger) *snowflake.Hooks = snowflake.LogHooks
	_                                     = snowflake.Hooks{
		ClockBehind: func(*snowflake.ClockError) {}, Saturated: func(time.Duration) {}, HealthChanged: func(error) {},
		LeaseAcquired: func(snowflake.Grant) {}, RenewFailed: func(error) {},
		LeaseLost: func(*snowflake.LeaseError) {}, StoreForgot: func(*snowflake.LeaseError) {}, MarkFailed: func(error) {},
		EpochEnding: func(time.Duration) {},
	}
)

// generator is what a Pool has in common with a Generator: all of it.
type generator interface {
	Next() (snowflake.ID, error)
	NextContext(ctx context.Context) (snowflake.ID, error)
	Fill(ctx context.Context, ids []snowflake.ID) (int, error)
	Health() error
	Stats() snowflake.Stats
	Layout() snowflake.Layout
	ReportDuplicate(id snowflake.ID)
	Close(ctx context.Context) error
}
