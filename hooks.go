package snowflake

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// Hooks are functions that a generator, lease or mark calls when something worth
// knowing happens. Nil ones are left out. One Hooks may serve many generators.
//
// They are called after the mutex is released, on the goroutine that met the event,
// from many goroutines at once: they must be quick, and must not call Close or Release,
// which wait for the goroutine that a hook may be running on. Except for EpochEnding, which is
// due once a day in the last five years, none is called on the path of an ID that did
// not wait.
type Hooks struct {
	// ClockBehind: a caller had to wait, or was refused, because the clock went
	// back or a grant begins in its future. Once for each step back.
	ClockBehind func(*ClockError)
	// Saturated: a caller had to wait for a fresh tick, for that long, or was
	// refused because it would have to. Once for each tick at most.
	Saturated func(wait time.Duration)
	// HealthChanged: the generator was found unable to serve (the error says
	// why), or able again (nil).
	HealthChanged func(error)
	// LeaseAcquired: the lease holds a code, at the start or a fresh one.
	LeaseAcquired func(Grant)
	// RenewFailed: an attempt to renew, or to acquire in the background, failed.
	// It is tried again.
	RenewFailed func(error)
	// LeaseLost: nothing is held any more. A fresh code is acquired in the
	// background, or the same one is restored.
	LeaseLost func(*LeaseError)
	// StoreForgot: the store lost an acknowledged write.
	StoreForgot func(*LeaseError)
	// MarkFailed: the high-water mark could not be advanced. It is tried again,
	// except after ErrConflict.
	MarkFailed func(error)
	// EpochEnding: the layout ends in that much time. At New and daily, from five
	// years before.
	EpochEnding func(left time.Duration)
	// DuplicateReported: ReportDuplicate was called.
	DuplicateReported func(ID, Parts)
}

// LogHooks returns Hooks that log every event with stable messages and keys, which
// docs/monitoring.md lists. nil logs to slog.Default. Saturation, which can come a
// thousand times a second, is logged once a second at most. The attributes of
// RenewFailed and MarkFailed hold the store's own error text.
func LogHooks(logger *slog.Logger) *Hooks {
	if logger == nil {
		logger = slog.Default()
	}
	log := func(level slog.Level, message string, attrs ...slog.Attr) {
		logger.LogAttrs(context.Background(), level, "snowflake: "+message, attrs...)
	}
	failure := func(err error) slog.Attr { return slog.Any("error", err) }
	var lastSaturated atomic.Int64
	return &Hooks{
		ClockBehind: func(e *ClockError) {
			log(slog.LevelWarn, "clock behind", slog.Duration("behind", e.Behind), slog.Duration("max_wait", e.MaxWait))
		},
		Saturated: func(wait time.Duration) {
			now, last := int64(monotonic()), lastSaturated.Load()
			if (last == 0 || now-last >= int64(time.Second)) && lastSaturated.CompareAndSwap(last, now) {
				log(slog.LevelWarn, "saturated", slog.Duration("wait", wait))
			}
		},
		HealthChanged: func(err error) {
			if err != nil {
				log(slog.LevelError, "unhealthy", failure(err))
				return
			}
			log(slog.LevelInfo, "healthy")
		},
		LeaseAcquired: func(g Grant) {
			log(slog.LevelInfo, "lease acquired", slog.Int("code", g.Code), slog.Uint64("token", g.Token),
				slog.Time("floor", g.Floor), slog.Time("ceiling", g.Ceiling))
		},
		RenewFailed: func(err error) { log(slog.LevelWarn, "lease renewal failed", failure(err)) },
		LeaseLost:   func(e *LeaseError) { log(slog.LevelError, "lease lost", leaseAttrs(e)...) },
		StoreForgot: func(e *LeaseError) {
			log(slog.LevelError, "lease store forgot an acknowledged write", leaseAttrs(e)...)
		},
		MarkFailed:  func(err error) { log(slog.LevelWarn, "high-water mark not advanced", failure(err)) },
		EpochEnding: func(left time.Duration) { log(slog.LevelWarn, "epoch ending", slog.Duration("left", left)) },
		DuplicateReported: func(id ID, p Parts) {
			// The ID is text, because JSON readers round numbers above 2^53. "time" is
			// the handler's own key.
			log(slog.LevelError, "duplicate key reported", slog.String("id", id.String()), slog.Time("minted", p.Time),
				slog.Int("region", p.Region), slog.Int("worker", p.Worker), slog.Int("sequence", p.Sequence))
		},
	}
}

func leaseAttrs(e *LeaseError) []slog.Attr {
	return []slog.Attr{
		slog.Int("region", e.Region), slog.Int("worker", e.Worker), slog.String("holder", e.Holder),
		slog.Time("until", e.Until), slog.Any("error", e.Err),
	}
}

// filled returns a copy in which every function can be called.
func (h *Hooks) filled() *Hooks {
	if h == nil {
		return noHooks // each filled one has some 200 bytes
	}
	return h.fill()
}

var noHooks = new(Hooks).fill()

func (h *Hooks) fill() *Hooks {
	f := *h
	orNothing(&f.ClockBehind)
	orNothing(&f.Saturated)
	orNothing(&f.HealthChanged)
	orNothing(&f.LeaseAcquired)
	orNothing(&f.RenewFailed)
	orNothing(&f.LeaseLost)
	orNothing(&f.StoreForgot)
	orNothing(&f.MarkFailed)
	orNothing(&f.EpochEnding)
	if f.DuplicateReported == nil {
		f.DuplicateReported = func(ID, Parts) {}
	}
	return &f
}

func orNothing[T any](hook *func(T)) {
	if *hook == nil {
		*hook = func(T) {}
	}
}
