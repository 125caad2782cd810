package snowflaketest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/snowfence/snowflake"
)

// Ledger holds every ID that a test has seen, and finds the first that repeats or that
// lies outside the grant that it was made under. It is safe for concurrent use.
//
// It is compact: IDs of one tick and code that follow one another are one entry, so it
// takes some 80 bytes for each tick and code in use, however many IDs that tick holds.
type Ledger struct {
	layout snowflake.Layout

	mu sync.Mutex
	// mu protects all below.
	spans   map[int64][]span // by time and code: the ID without its sequence; sorted
	holders []string
	numbers map[string]int32 // of holders
	count   int
	err     error // the first failure
}

// span is a run of sequences, both included.
type span struct {
	first, last uint32
	holder      int32
}

// NewLedger returns an empty ledger for IDs of a layout.
func NewLedger(layout snowflake.Layout) (*Ledger, error) {
	if err := layout.Validate(); err != nil {
		return nil, err
	}
	return &Ledger{layout: layout, spans: make(map[int64][]span), numbers: make(map[string]int32)}, nil
}

// Add enters IDs, in any order. holder says who has got them, for the error: of an ID
// that is in the ledger already, by whomever, or is not positive. The IDs after it are
// not entered.
func (l *Ledger) Add(holder string, ids ...snowflake.ID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.add(holder, ids, nil)
}

// AddGranted is Add for IDs that were made under grant: the error is also of one with
// another code, or a time below Floor or not below Ceiling. A generator that renews
// its lease makes IDs under one grant after another, each with a higher ceiling: the
// grant that is read after the ID was returned contains it, unless the lease has changed
// its code meanwhile, which its Token tells.
func (l *Ledger) AddGranted(holder string, grant snowflake.Grant, ids ...snowflake.ID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.add(holder, ids, &grant)
}

// Len returns how many IDs were entered.
func (l *Ledger) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// Err returns the first error that Add or AddGranted has returned.
func (l *Ledger) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *Ledger) add(holder string, ids []snowflake.ID, grant *snowflake.Grant) error {
	number := l.number(holder)
	for _, id := range ids {
		err := l.check(holder, id, grant)
		if err == nil {
			err = l.enter(number, id)
		}
		if err != nil {
			if l.err == nil {
				l.err = err
			}
			return err
		}
		l.count++
	}
	return nil
}

func (l *Ledger) number(holder string) int32 {
	n, ok := l.numbers[holder]
	if !ok {
		n = int32(len(l.holders))
		l.holders = append(l.holders, holder)
		l.numbers[holder] = n
	}
	return n
}

func (l *Ledger) check(holder string, id snowflake.ID, grant *snowflake.Grant) error {
	p, err := l.layout.Unpack(id)
	if err != nil || grant == nil {
		return err
	}
	code, err := l.layout.Code(p.Region, p.Worker)
	if err != nil {
		return err
	}
	outside := func(format string, args ...any) error {
		return fmt.Errorf("snowflaketest: %d of %s lies outside its grant: "+format, append([]any{int64(id), holder}, args...)...)
	}
	switch {
	case code != grant.Code:
		return outside("its code is %d, not %d", code, grant.Code)
	case p.Time.Before(grant.Floor):
		return outside("its time is %s, the floor %s", instant(p.Time), instant(grant.Floor))
	case !grant.Ceiling.IsZero() && !p.Time.Before(grant.Ceiling):
		return outside("its time is %s, the ceiling %s", instant(p.Time), instant(grant.Ceiling))
	}
	return nil
}

func instant(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// enter puts one ID among the spans of its tick and code.
func (l *Ledger) enter(holder int32, id snowflake.ID) error {
	slot, sequence := int64(id)>>l.layout.SequenceBits, uint32(int64(id)&(1<<l.layout.SequenceBits-1))
	spans := l.spans[slot]
	// next is the first span that ends at or after the sequence.
	next, _ := slices.BinarySearchFunc(spans, sequence, func(s span, at uint32) int {
		if s.last < at {
			return -1
		}
		return 1
	})
	if next < len(spans) && spans[next].first <= sequence {
		return fmt.Errorf("snowflaketest: %d of %s was given to %s before", int64(id), l.holders[holder], l.holders[spans[next].holder])
	}
	follows := next > 0 && spans[next-1].holder == holder && spans[next-1].last+1 == sequence
	precedes := next < len(spans) && spans[next].holder == holder && spans[next].first == sequence+1
	switch {
	case follows && precedes:
		spans[next-1].last = spans[next].last
		spans = slices.Delete(spans, next, next+1)
	case follows:
		spans[next-1].last = sequence
	case precedes:
		spans[next].first = sequence
	default:
		spans = slices.Insert(spans, next, span{sequence, sequence, holder})
	}
	l.spans[slot] = spans
	return nil
}
