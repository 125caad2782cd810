package snowflake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"
)

// A column's IDs can change their layout, for more regions, workers or IDs in a tick,
// and stay unique and in order, because a format is a range of numbers:
//
//	 0             From                 From
//	 |  format 0   |      format 1      |     format 2 ...
//	               Start                Start
//
// Every number belongs to the format whose range it lies in, whatever its bits say. So
// IDs of two formats cannot be equal as long as nobody mints outside of the range of the
// format that they use, and within one format the rules of leases and marks hold. Append
// chooses the epoch of a new layout so that its time field has reached the range at
// Start; Lease keeps a generator inside the range, below and above.

// Format is one of the layouts of a column.
type Format struct {
	// From is the lowest number of the format, which ends where the next begins.
	From ID
	// Layout is what the IDs of the format are minted with, all six values.
	Layout Layout
	// WorkerLast says that region and worker lie below the sequence, as in the IDs of
	// sony/sonyflake. Such IDs are only read: no generator of this package mints them.
	WorkerLast bool
}

// Formats are the successive layouts of one column, the oldest first. Keep them in one
// place, as code or as JSON, for everything that mints into the column or reads it:
//
//	[{"from": "0", "layout": "epoch=2026-01-01T00:00:00Z tick=1ms bits=41+2+8+12"},
//	 {"from": "264543141888000000", "layout": "epoch=2027-01-01T00:00:00Z tick=1ms bits=40+3+8+12"}]
//
// Formats are values: methods never change them and may be called from many goroutines
// at once.
type Formats []Format

// Validate returns nil if every layout is valid, no two are the same, and numbers and
// times rise from each format to the next. Append and Lease call it; call it on what
// came from elsewhere before it is used for reading.
func (f Formats) Validate() error {
	if len(f) == 0 {
		return errors.New("snowflake: formats: there are none, must be at least one")
	}
	seen := make(map[string]int, len(f))
	for i, format := range f {
		refuse := func(problem string, args ...any) error {
			return fmt.Errorf("snowflake: formats: number %d: "+problem, append([]any{i}, args...)...)
		}
		if err := format.Layout.Validate(); err != nil {
			return refuse("%w", err)
		}
		if earlier, ok := seen[format.Layout.String()]; ok {
			return refuse("its layout %v is that of number %d", format.Layout, earlier)
		}
		seen[format.Layout.String()] = i
		if format.From < 0 {
			return refuse("From is %d, must not be negative", format.From)
		}
		if i == 0 {
			continue
		}
		if before := f[i-1]; format.From <= before.From {
			return refuse("From is %d, must be above %d, where the one before begins", format.From, before.From)
		} else if end := before.end(format.From); format.Start().Before(end) {
			return refuse("it starts at %s, must not be before %s, up to when the numbers of the one before reach",
				format.Start().Format(time.RFC3339Nano), end.Format(time.RFC3339Nano))
		}
	}
	return nil
}

// Start returns the first instant at which an ID of the format may be minted: its epoch,
// or where its time field has reached From. The layout must be valid.
func (f Format) Start() time.Time {
	l := f.Layout.normal()
	return l.timeAt(ceilShift(uint64(f.From), valueBits-l.TimeBits))
}

// end returns the first instant whose tick does not lie wholly below a number: where the
// format ends if that is where the next begins.
func (f Format) end(next ID) time.Time {
	l := f.Layout.normal()
	return l.timeAt(uint64(next) >> (valueBits - l.TimeBits))
}

// ceilShift returns value / 2^shift, rounded up, for values up to 2^63.
func ceilShift(value uint64, shift int) uint64 { return (value + 1<<shift - 1) >> shift }

// Unpack returns the fields of an ID of this format. It does not look at From.
func (f Format) Unpack(id ID) (Parts, error) {
	l := f.Layout
	if f.WorkerLast {
		l.SequenceBits, l.RegionBits, l.WorkerBits = l.RegionBits+l.WorkerBits, 0, l.SequenceBits
	}
	parts, err := l.Unpack(id)
	if f.WorkerLast && err == nil {
		code := parts.Sequence
		parts.Sequence = parts.Worker
		parts.Region, parts.Worker = code>>f.Layout.WorkerBits, code&(1<<f.Layout.WorkerBits-1)
	}
	return parts, err
}

// Of returns the format that an ID belongs to. A number below the first format, zero and
// negative numbers are ErrInvalidID.
func (f Formats) Of(id ID) (Format, error) {
	if id > 0 {
		for i := len(f) - 1; i >= 0; i-- {
			if id >= f[i].From {
				return f[i], nil
			}
		}
	}
	return Format{}, invalidNumber(int64(id), "belongs to none of the column's formats")
}

// Unpack returns the fields of an ID, by the format that it belongs to.
func (f Formats) Unpack(id ID) (Parts, error) {
	format, err := f.Of(id)
	if err != nil {
		return Parts{}, err
	}
	return format.Unpack(id)
}

// MinID returns the lowest number of the tick that contains t, in the format of that
// time, as Layout.MinID does for one layout: every ID minted in that tick or later is at
// least as great. A time before the first format is ErrBeforeEpoch.
func (f Formats) MinID(t time.Time) (ID, error) {
	i, err := f.at(t)
	if err != nil {
		return 0, err
	}
	if i+1 < len(f) && !t.Before(f[i].end(f[i+1].From)) {
		return f[i+1].From, nil // between the two: nothing was minted
	}
	id, err := f[i].Layout.MinID(t)
	return max(id, f[i].From), err
}

// MaxID returns the highest number of the tick that contains t, in the format of that
// time: every ID minted in that tick or earlier is at most as great. Errors as for MinID.
func (f Formats) MaxID(t time.Time) (ID, error) {
	i, err := f.at(t)
	if err != nil {
		return 0, err
	}
	if i+1 < len(f) && !t.Before(f[i].end(f[i+1].From)) {
		return f[i+1].From - 1, nil
	}
	return f[i].Layout.MaxID(t)
}

// at returns the last format that has started at t.
func (f Formats) at(t time.Time) (int, error) {
	if len(f) == 0 {
		return 0, f.Validate()
	}
	for i := len(f) - 1; i > 0; i-- {
		if !t.Before(f[i].Start()) {
			return i, nil
		}
	}
	if start := f[0].Start(); t.Before(start) {
		return 0, fmt.Errorf("%w: %s is before %s, where the first format starts",
			ErrBeforeEpoch, t.UTC().Format(time.RFC3339Nano), start.Format(time.RFC3339Nano))
	}
	return 0, nil
}

// Append returns the formats followed by one with the tick and the widths of layout,
// whose own Epoch is not looked at: the new one's is the latest at which every ID minted
// from start on is greater than all that the last format can have minted before.
//
// The new format begins with the first number that works for both, so that its Start may
// be a little after start, by less than a tick of the new layout's share of the old time
// field.
//
// It holds if no ID of the old format has a time at or past Start. The clocks of old
// writers do not promise that; one of these does: they run on Lease of the new Formats;
// or FenceLeases has shown that no ceiling of theirs is later; or they have stopped, and
// neither their highest ID nor any mark of a static code is later.
//
// Fewer time bits than before end sooner, and those that are left have been used in the
// same proportion: look at End of the new layout. An epoch before 1970, or a time field
// with no room left, is an error: take a shorter tick or another number of time bits.
func (f Formats) Append(layout Layout, start time.Time) (Formats, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	refuse := func(problem string, args ...any) (Formats, error) {
		return nil, fmt.Errorf("snowflake: appending a format: "+problem, args...)
	}
	last := f[len(f)-1]
	if !start.After(last.Start()) {
		return refuse("start is %s, must be after %s, the start of the format before",
			start.UTC().Format(time.RFC3339Nano), last.Start().Format(time.RFC3339Nano))
	}
	layout = layout.normal()
	layout.Epoch = DefaultLayout().Epoch // to look at the rest
	if err := layout.Validate(); err != nil {
		return nil, err
	}
	old := last.Layout.normal()
	tick, err := old.tickAt(start)
	if err != nil {
		return refuse("%w", err)
	}
	if old.timeAt(uint64(tick)).Before(start) {
		tick++ // the last one may be 2^TimeBits, and the number then 2^63: no room, below
	}
	oldShift, shift := valueBits-old.TimeBits, valueBits-layout.TimeBits
	first := ceilShift(uint64(tick)<<oldShift, shift) // tick of the new layout
	if first >= 1<<layout.TimeBits {
		return refuse("%w: the numbers that are left from %s on are fewer than one tick of the new layout has",
			ErrTimeOverflow, start.UTC().Format(time.RFC3339Nano))
	}
	from := first << shift
	start = old.timeAt(ceilShift(from, oldShift))
	high, elapsed := bits.Mul64(first, uint64(layout.Tick))
	if high != 0 || elapsed > math.MaxInt64 {
		return refuse("%d time bits of %v would have begun before 1970: take a shorter tick or fewer time bits", layout.TimeBits, layout.Tick)
	}
	layout.Epoch = start.Add(-time.Duration(elapsed))
	if err := layout.Validate(); err != nil {
		return refuse("%d time bits of %v: take a shorter tick or fewer time bits: %w", layout.TimeBits, layout.Tick, err)
	}
	appended := slices.Concat(f, Formats{{From: ID(from), Layout: layout}})
	return appended, appended.Validate()
}

// Lease returns lease limited to the range of its format, which is the one that has the
// lease's Layout, or the last for a lease that tells none. Give a generator that instead
// of lease itself. Before the format's Start it refuses with ErrClockBehind, or with
// ErrLeaseLost while that is further away than the lease reaches; from the Start of the
// next format on with ErrLeaseLost. So writers of both may run side by side: at that
// instant, by whatever clock, the old ones end and the new ones begin.
//
// ErrLayoutMismatch: no format has the layout of the lease. A format with WorkerLast is
// refused, and so is a StaticLease of a format that has ended or will: nothing durable
// would stop it. Stop such a writer before the next format is appended.
func (f Formats) Lease(lease Lease) (Lease, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	if l, ok := lease.(*WorkerLease); lease == nil || ok && l == nil {
		return nil, errors.New("snowflake: formats: lease is nil: use AcquireLease or StaticLease")
	}
	i := len(f) - 1
	if l, ok := lease.(interface{ Layout() Layout }); ok {
		for i >= 0 && f[i].Layout.String() != l.Layout().String() {
			i--
		}
		if i < 0 {
			return nil, fmt.Errorf("%w: the lease has %v, none of the column's formats does", ErrLayoutMismatch, l.Layout())
		}
	}
	if f[i].WorkerLast {
		return nil, fmt.Errorf("snowflake: formats: number %d has WorkerLast: its IDs are read, not minted: append a format", i)
	}
	limited := &formatLease{Lease: lease, layout: f[i].Layout.normal(), floor: f[i].Start()}
	if i+1 < len(f) {
		limited.ceiling = f[i].end(f[i+1].From)
		if grant := lease.Grant(); grant != nil && grant.Ceiling.IsZero() {
			return nil, fmt.Errorf("snowflake: formats: number %d ends at %s, and code %d has no ceiling that would stop it: use the last format, or a WorkerLease",
				i, limited.ceiling.Format(time.RFC3339Nano), grant.Code)
		}
	}
	return limited, nil
}

// formatLease is a lease whose grants are cut down to a format: a rectangle of the ID
// space remains one.
type formatLease struct {
	Lease
	layout         Layout
	floor, ceiling time.Time // zero ceiling: the format has no end
	last           atomic.Pointer[limitedGrant]
}

type limitedGrant struct{ from, to *Grant }

// Grant returns the same pointer as long as the lease under it does.
func (l *formatLease) Grant() *Grant {
	grant := l.Lease.Grant()
	if last := l.last.Load(); last != nil && last.from == grant {
		return last.to
	}
	if grant == nil {
		return nil
	}
	limited := *grant
	limited.Floor = later(limited.Floor, l.floor)
	if !l.ceiling.IsZero() {
		if limited.Ceiling.IsZero() {
			return nil // see Lease
		}
		if limited.Ceiling.After(l.ceiling) {
			limited.Ceiling = l.ceiling
		}
	}
	l.last.Store(&limitedGrant{grant, &limited})
	return &limited
}

// Layout returns that of the format.
func (l *formatLease) Layout() Layout { return l.layout }

// What follows is what a generator asks of a lease that has it.

// Release gives the code back.
func (l *formatLease) Release(ctx context.Context, unused time.Time) error {
	if lease, ok := l.Lease.(interface {
		Release(context.Context, time.Time) error
	}); ok {
		return lease.Release(ctx, unused)
	}
	return nil
}

// Err says why nothing is held.
func (l *formatLease) Err() error {
	if lease, ok := l.Lease.(interface{ Err() error }); ok {
		return lease.Err()
	}
	return nil
}

func (l *formatLease) serve() error {
	if lease, ok := l.Lease.(interface{ serve() error }); ok {
		return lease.serve()
	}
	return nil
}

func (l *formatLease) unserve() {
	if lease, ok := l.Lease.(interface{ unserve() }); ok {
		lease.unserve()
	}
}

func (l *formatLease) renewSoon() {
	if lease, ok := l.Lease.(interface{ renewSoon() }); ok {
		lease.renewSoon()
	}
}

type formatJSON struct {
	From       ID     `json:"from"`
	Layout     string `json:"layout"`
	WorkerLast bool   `json:"worker_last,omitempty"`
}

// MarshalJSON writes the layout as Layout.String does.
func (f Format) MarshalJSON() ([]byte, error) {
	return json.Marshal(formatJSON{f.From, f.Layout.String(), f.WorkerLast})
}

// UnmarshalJSON reads what MarshalJSON writes. Upon an error the Format keeps its value.
func (f *Format) UnmarshalJSON(data []byte) error {
	var read formatJSON
	if err := json.Unmarshal(data, &read); err != nil {
		return err
	}
	layout, err := ParseLayout(read.Layout)
	if err != nil {
		return err
	}
	*f = Format{read.From, layout, read.WorkerLast}
	return nil
}
