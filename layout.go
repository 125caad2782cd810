package snowflake

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"
)

// Layout divides the 63 value bits of an ID, from the highest to the lowest:
//
//	 0 | time since Epoch, in ticks | region | worker | sequence
//	 1 |          TimeBits          |   R    |   W    | SequenceBits
//
//	DefaultLayout:
//	+-+-----------------------------------------+--+--------+------------+
//	|0|          41 bits, milliseconds          |2 |   8    |     12     |
//	+-+-----------------------------------------+--+--------+------------+
//
// Region and worker together are the worker code, see Code. Everybody who
// mints into one ID space must use the same Layout, all six values; stores and
// mark folders pin it and refuse another with ErrLayoutMismatch.
//
// A Layout is a value: its methods never change it and may be called from many
// goroutines at once.
type Layout struct {
	// Epoch is the start of tick 0: a fixed instant shortly before the first
	// use, the same for ever. From 1970 on; it needs no time zone.
	Epoch time.Time
	// Tick is the unit of the time field, from 1 ns to 1 s. 0 means 1 ms.
	Tick time.Duration
	// The widths, in bits. They must sum to 63. TimeBits and SequenceBits are
	// at least 1, RegionBits and WorkerBits at least 0; RegionBits+WorkerBits
	// and SequenceBits are at most 30 each.
	TimeBits, RegionBits, WorkerBits, SequenceBits int
}

// Parts are the fields of an ID.
type Parts struct {
	Time     time.Time // start of the tick, in UTC
	Region   int
	Worker   int
	Sequence int
}

const (
	valueBits    = 63 // of an int64, all but the sign
	maxFieldBits = 30 // so that every field but time fits an int on 32-bit platforms
	maxTick      = time.Second
	epochLimit   = 9_214_646_400 // 2262-01-01T00:00:00Z in seconds since 1970: no epoch from here on
)

// DefaultLayout returns 41 time bits of 1 ms from 2026-01-01T00:00:00Z, 2 region
// bits, 8 worker bits and 12 sequence bits: 4 regions of 256 codes, 4,096 IDs per
// code and millisecond, until September 2095. PlanLayout derives others.
func DefaultLayout() Layout {
	return Layout{
		Epoch:        time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC),
		Tick:         time.Millisecond,
		TimeBits:     41,
		RegionBits:   2,
		WorkerBits:   8,
		SequenceBits: 12,
	}
}

// Validate returns nil for a layout that can be used, else an error that names
// the field, its value and its bound. It reads no clock: whether the present
// lies between Epoch and End is checked where a clock is at hand, by New and
// AcquireLease.
func (l Layout) Validate() error {
	l = l.normal()
	for _, field := range []struct {
		name            string
		value, min, max int
	}{
		{"TimeBits", l.TimeBits, 1, valueBits - 1},
		{"RegionBits", l.RegionBits, 0, maxFieldBits},
		{"WorkerBits", l.WorkerBits, 0, maxFieldBits},
		{"SequenceBits", l.SequenceBits, 1, maxFieldBits},
		{"RegionBits+WorkerBits", l.RegionBits + l.WorkerBits, 0, maxFieldBits},
	} {
		if field.value < field.min || field.value > field.max {
			return fmt.Errorf("snowflake: layout: %s is %d, must be %d to %d", field.name, field.value, field.min, field.max)
		}
	}
	if sum := l.TimeBits + l.RegionBits + l.WorkerBits + l.SequenceBits; sum != valueBits {
		return fmt.Errorf("snowflake: layout: TimeBits %d + RegionBits %d + WorkerBits %d + SequenceBits %d is %d, must be %d",
			l.TimeBits, l.RegionBits, l.WorkerBits, l.SequenceBits, sum, valueBits)
	}
	if l.Tick < 1 || l.Tick > maxTick {
		return fmt.Errorf("snowflake: layout: Tick is %v, must be 1ns to %v", l.Tick, maxTick)
	}
	return validateEpoch(l.Epoch)
}

func validateEpoch(epoch time.Time) error {
	switch seconds := epoch.Unix(); {
	case epoch.IsZero():
		return errors.New("snowflake: layout: Epoch is unset: give a fixed instant shortly before the first use, such as 2026-01-01T00:00:00Z")
	case seconds < 0:
		return fmt.Errorf("snowflake: layout: Epoch is %s, must not be before 1970", epoch.Format(time.RFC3339Nano))
	case seconds >= epochLimit:
		// A count of milliseconds handed to time.Unix lands here. Compared in
		// seconds, because a year can overflow an int of 32 bits.
		return fmt.Errorf("snowflake: layout: Epoch is %d seconds after 1970, must be before 2262: were milliseconds taken for seconds?", seconds)
	case seconds < 31*24*3600 && (seconds >= 24*3600 || seconds%(15*60) != 0 || epoch.Nanosecond() != 0):
		// A count of seconds from 1973 to 2054 handed to time.UnixMilli lands
		// here, and on the first day one handed to time.UnixMicro or taken for
		// nanoseconds. Nobody chose anything in January 1970 but the midnight
		// that it began with, in some time zone.
		return fmt.Errorf("snowflake: layout: Epoch is %s: were seconds taken for a smaller unit?", epoch.Format(time.RFC3339Nano))
	}
	return nil
}

// normal fills in the default Tick and makes equal epochs look equal: UTC and
// without a monotonic reading.
func (l Layout) normal() Layout {
	if l.Tick == 0 {
		l.Tick = time.Millisecond
	}
	l.Epoch = l.Epoch.Round(0).UTC()
	return l
}

// String returns all six values in one canonical form: two layouts are the
// same exactly if their Strings are. Records and mark folders pin it.
func (l Layout) String() string {
	l = l.normal()
	return fmt.Sprintf("epoch=%s tick=%v bits=%d+%d+%d+%d",
		l.Epoch.Format(time.RFC3339Nano), l.Tick, l.TimeBits, l.RegionBits, l.WorkerBits, l.SequenceBits)
}

// Code joins a region and a worker into the code that goes between time and
// sequence: region<<WorkerBits | worker.
func (l Layout) Code(region, worker int) (int, error) {
	if err := l.Validate(); err != nil {
		return 0, err
	}
	if err := checkField("region", region, l.RegionBits); err != nil {
		return 0, err
	}
	if err := checkField("worker", worker, l.WorkerBits); err != nil {
		return 0, err
	}
	return region<<l.WorkerBits | worker, nil
}

func checkField(name string, value, width int) error {
	if limit := 1<<width - 1; value < 0 || value > limit {
		return fmt.Errorf("snowflake: %s is %d, must be 0 to %d (%d bits)", name, value, limit, width)
	}
	return nil
}

// Pack builds the ID of the tick that contains p.Time. A field outside its width
// is an error, never cut off; times outside the layout are ErrBeforeEpoch and
// ErrTimeOverflow. Fields that are all zero would make the number 0, which is no
// ID, and are refused with ErrInvalidID.
func (l Layout) Pack(p Parts) (ID, error) {
	code, err := l.Code(p.Region, p.Worker)
	if err != nil {
		return 0, err
	}
	if err := checkField("sequence", p.Sequence, l.SequenceBits); err != nil {
		return 0, err
	}
	tick, err := l.tickAt(p.Time)
	if err != nil {
		return 0, err
	}
	id := l.join(tick, int64(code), int64(p.Sequence))
	if id == 0 {
		return 0, fmt.Errorf("%w: all fields are zero, and 0 is no ID", ErrInvalidID)
	}
	return id, nil
}

// Unpack returns the fields of an ID that was minted with this layout. Zero and
// negative numbers are refused with ErrInvalidID. Any other number unpacks: an ID
// does not tell which layout made it.
func (l Layout) Unpack(id ID) (Parts, error) {
	if err := l.Validate(); err != nil {
		return Parts{}, err
	}
	if id <= 0 {
		return Parts{}, fmt.Errorf("%w: %d is not positive", ErrInvalidID, int64(id))
	}
	l = l.normal()
	code := int(id >> l.SequenceBits & (1<<(l.RegionBits+l.WorkerBits) - 1))
	return Parts{
		Time:     l.timeAt(uint64(id) >> (valueBits - l.TimeBits)),
		Region:   code >> l.WorkerBits,
		Worker:   code & (1<<l.WorkerBits - 1),
		Sequence: int(id & (1<<l.SequenceBits - 1)),
	}, nil
}

// MinID returns the lowest number of the tick that contains t: every ID minted
// in that tick or later is at least as great. Use it as the lower bound of a range
// query. Errors: ErrBeforeEpoch, ErrTimeOverflow. For tick 0 it is 0, which no
// generator returns.
func (l Layout) MinID(t time.Time) (ID, error) {
	if err := l.Validate(); err != nil {
		return 0, err
	}
	tick, err := l.tickAt(t)
	if err != nil {
		return 0, err
	}
	return l.join(tick, 0, 0), nil
}

// MaxID returns the highest number of the tick that contains t: every ID minted
// in that tick or earlier is at most as great. Errors as for MinID.
func (l Layout) MaxID(t time.Time) (ID, error) {
	id, err := l.MinID(t)
	if err != nil {
		return 0, err
	}
	return id | (1<<(valueBits-l.TimeBits) - 1), nil
}

// End returns the first instant that the layout cannot represent. For a layout
// that is not valid it returns the zero time. A generator also stops at the end
// of the year 2261, where a count of nanoseconds in 64 bits does.
func (l Layout) End() time.Time {
	if l.Validate() != nil {
		return time.Time{}
	}
	return l.normal().timeAt(1 << l.TimeBits)
}

func (l Layout) join(tick, code, sequence int64) ID {
	return ID(tick<<(valueBits-l.TimeBits) | code<<l.SequenceBits | sequence)
}

// tickAt returns the tick that contains t. The layout must be valid.
func (l Layout) tickAt(t time.Time) (int64, error) {
	l = l.normal()
	if t.Before(l.Epoch) {
		return 0, fmt.Errorf("%w: %s is before %s", ErrBeforeEpoch, t.UTC().Format(time.RFC3339Nano), l.Epoch.Format(time.RFC3339Nano))
	}
	if end := l.timeAt(1 << l.TimeBits); !t.Before(end) {
		return 0, fmt.Errorf("%w: %s is not before %s", ErrTimeOverflow, t.UTC().Format(time.RFC3339Nano), end.Format(time.RFC3339Nano))
	}
	// In 128 bits, because a long layout lasts longer than an int64 of
	// nanoseconds. The quotient is below 2^TimeBits, so Div64 cannot panic.
	seconds := uint64(t.Unix() - l.Epoch.Unix())
	nanos := int64(t.Nanosecond() - l.Epoch.Nanosecond())
	if nanos < 0 {
		seconds--
		nanos += int64(time.Second)
	}
	hi, lo := bits.Mul64(seconds, uint64(time.Second))
	lo, carry := bits.Add64(lo, uint64(nanos), 0)
	tick, _ := bits.Div64(hi+carry, lo, uint64(l.Tick))
	return int64(tick), nil
}

// timeAt returns the start of a tick. The layout must be normal and valid, and
// tick at most 2^62: with Tick at most 1 s the product is below 2^92, so Div64
// cannot panic and the seconds fit.
func (l Layout) timeAt(tick uint64) time.Time {
	hi, lo := bits.Mul64(tick, uint64(l.Tick))
	seconds, nanos := bits.Div64(hi, lo, uint64(time.Second))
	return time.Unix(l.Epoch.Unix()+int64(seconds), int64(l.Epoch.Nanosecond())+int64(nanos)).UTC()
}

// frame is a validated Layout in the integers that claims work with: instants
// are nanoseconds since 1970, ticks are counted from the epoch. Immutable.
type frame struct {
	epoch, tick             int64 // nanoseconds
	lastTick                int64 // the last that may be claimed
	maxCode, maxSequence    int64
	timeShift, sequenceBits uint8
}

func newFrame(l Layout) frame {
	l = l.normal()
	f := frame{
		epoch:        l.Epoch.UnixNano(),
		tick:         int64(l.Tick),
		lastTick:     1<<l.TimeBits - 1,
		maxCode:      1<<(l.RegionBits+l.WorkerBits) - 1,
		maxSequence:  1<<l.SequenceBits - 1,
		timeShift:    uint8(valueBits - l.TimeBits),
		sequenceBits: uint8(l.SequenceBits),
	}
	// Stop two ticks short of what int64 nanoseconds can tell, so that the end
	// of any tick, and the tick after the last, can be computed.
	f.lastTick = min(f.lastTick, (math.MaxInt64-f.epoch)/f.tick-2)
	return f
}

// nanos returns t in nanoseconds since 1970, where the earliest epoch is: 0 before
// that, and the end of what an int64 can tell after it, so that differences cannot
// overflow.
func nanos(t time.Time) int64 {
	switch seconds := t.Unix(); {
	case seconds >= math.MaxInt64/int64(time.Second):
		return math.MaxInt64
	case seconds < 0:
		return 0
	}
	return t.UnixNano()
}

// start returns the instant at which a tick begins.
func (f *frame) start(tick int64) int64 { return f.epoch + tick*f.tick }

// floorTick returns the tick that contains the instant: 0 before the epoch, and
// one past the last at most.
func (f *frame) floorTick(at int64) int64 {
	if at <= f.epoch {
		return 0
	}
	return min((at-f.epoch)/f.tick, f.lastTick+1)
}

// ceilTick returns the first tick that begins at the instant or later.
func (f *frame) ceilTick(at int64) int64 {
	tick := f.floorTick(at)
	if tick <= f.lastTick && f.start(tick) < at {
		tick++
	}
	return tick
}

// time returns the start of a tick as a time.
func (f *frame) time(tick int64) time.Time { return time.Unix(0, f.start(tick)).UTC() }
