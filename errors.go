package snowflake

import (
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// The sentinels say what kind of thing went wrong; the errors that wrap them
// carry the numbers. Compare with errors.Is. Retryable tells which of them
// pass by themselves.
var (
	// ErrClockBehind: the wall clock reads less than the generator needs, by
	// more than the caller may wait. The error is a *ClockError.
	ErrClockBehind = errors.New("snowflake: clock is behind")

	// ErrSaturated: more IDs were asked for than the ticks within the caller's
	// budget hold. Nothing is wrong with the generator.
	ErrSaturated = errors.New("snowflake: sequence is exhausted")

	// ErrLeaseLost: no worker code is held for the tick that is needed: the
	// lease is suspended, was taken by another owner, or its ceiling is reached.
	ErrLeaseLost = errors.New("snowflake: no worker code is held")

	// ErrHighWater: the tick that is needed lies at or above the durable
	// high-water mark, or the mark could not be read, reached or advanced.
	ErrHighWater = errors.New("snowflake: high-water mark")

	// ErrTimeOverflow: the time lies past the last tick of the layout.
	ErrTimeOverflow = errors.New("snowflake: time is past the end of the layout")

	// ErrBeforeEpoch: the time lies before the layout's epoch.
	ErrBeforeEpoch = errors.New("snowflake: time is before the epoch of the layout")

	// ErrNoWorkerCode: every worker code of the region is held.
	ErrNoWorkerCode = errors.New("snowflake: no worker code is free")

	// ErrClockSkew: the local clock contradicts the lease store's time, living
	// peers, or the time that has elapsed, by more than MaxClockSkew.
	ErrClockSkew = errors.New("snowflake: local clock is off")

	// ErrLayoutMismatch: the store or folder is pinned to another layout.
	ErrLayoutMismatch = errors.New("snowflake: layout differs from the recorded one")

	// ErrConflict: a compare-and-swap found another version, or a mark has a
	// newer owner.
	ErrConflict = errors.New("snowflake: record was changed by another owner")

	// ErrCodeInUse: the code, lease or mark already serves another generator.
	ErrCodeInUse = errors.New("snowflake: worker code is in use")

	// ErrDamaged: a file or record that must hold state cannot be understood.
	// It is never taken for a fresh one.
	ErrDamaged = errors.New("snowflake: stored state is damaged")

	// ErrInvalidID: the text or number is not an ID.
	ErrInvalidID = errors.New("snowflake: invalid ID")

	// ErrClosed: the generator or lease was closed.
	ErrClosed = errors.New("snowflake: closed")
)

// Retryable reports whether err passes without anybody changing the program
// or its settings: the caller may try again after a pause, and a readiness
// probe should take the service out meanwhile. It is true for ErrClockBehind,
// ErrSaturated, ErrLeaseLost, ErrHighWater, ErrNoWorkerCode and ErrClockSkew,
// except where they wrap ErrDamaged, ErrLayoutMismatch, ErrCodeInUse,
// ErrConflict, ErrClosed or fs.ErrPermission, which do not pass.
func Retryable(err error) bool {
	for _, final := range []error{ErrDamaged, ErrLayoutMismatch, ErrCodeInUse, ErrConflict, ErrClosed, fs.ErrPermission} {
		if errors.Is(err, final) {
			return false
		}
	}
	for _, passing := range []error{ErrClockBehind, ErrSaturated, ErrLeaseLost, ErrHighWater, ErrNoWorkerCode, ErrClockSkew} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}

// saturationError is ErrSaturated with the numbers. Above the limit of the layout most
// calls get one, so that its text is made only for those who read it.
type saturationError struct{ wait, limit time.Duration }

func (e *saturationError) Error() string {
	return fmt.Sprintf("%v: the next free tick is %v away, more than the wait of %v that is allowed", ErrSaturated, e.wait, e.limit)
}

func (e *saturationError) Unwrap() error { return ErrSaturated }

// ClockError tells how far the clock is behind what the generator needs.
// errors.Is(err, ErrClockBehind) is true for it.
type ClockError struct {
	// Behind is how far the clock reads below the highest reading seen or,
	// where a grant or mark begins later than that, below its floor.
	Behind time.Duration
	// MaxWait is the longest wait that the call allowed: the generator's
	// MaxWait, or what was left of the caller's context if that was less.
	MaxWait time.Duration
}

// Error tells both durations.
func (e *ClockError) Error() string {
	return fmt.Sprintf("%v by %v, more than the wait of %v that is allowed", ErrClockBehind, e.Behind, e.MaxWait)
}

// Is reports whether target is ErrClockBehind.
func (e *ClockError) Is(target error) bool { return target == ErrClockBehind }

// LeaseError tells which worker code an error is about, who holds it and
// until when. It wraps Err, usually one of the sentinels.
type LeaseError struct {
	Region, Worker int       // Worker is -1 where no single code is meant
	Holder         string    // owner by the store's record, for people; may be empty
	Until          time.Time // ceiling or earliest free time; zero where unknown
	Err            error     // never nil
}

// Error tells all fields that are set.
func (e *LeaseError) Error() string {
	text := fmt.Sprintf("%v (region %d", e.Err, e.Region)
	if e.Worker >= 0 {
		text += fmt.Sprintf(", worker %d", e.Worker)
	}
	if e.Holder != "" {
		text += fmt.Sprintf(", holder %q", e.Holder)
	}
	if !e.Until.IsZero() {
		text += ", until " + e.Until.UTC().Format(time.RFC3339Nano)
	}
	return text + ")"
}

// Unwrap returns Err.
func (e *LeaseError) Unwrap() error { return e.Err }
