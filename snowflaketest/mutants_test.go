package snowflaketest

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/snowfence/snowflake"
	"github.com/stretchr/testify/require"
)

// The suites are tested on stores that break one rule each, of which every one must be
// caught, and by the case that is about the rule.

// recorder runs a case of a suite without failing the test that it runs in.
type recorder struct {
	testing.TB
	mu      sync.Mutex
	failed  bool
	skipped bool
	text    string
}

func (r *recorder) fail(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.failed {
		r.text = text
	}
	r.failed = true
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Helper()                           {}
func (r *recorder) Log(...any)                        {}
func (r *recorder) Logf(string, ...any)               {}
func (r *recorder) Fail()                             { r.fail("") }
func (r *recorder) Error(args ...any)                 { r.fail(fmt.Sprintln(args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.fail(fmt.Sprintf(format, args...)) }
func (r *recorder) FailNow()                          { r.fail(""); runtime.Goexit() }
func (r *recorder) Fatal(args ...any)                 { r.Error(args...); runtime.Goexit() }
func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...); runtime.Goexit() }
func (r *recorder) Skip(...any)                       { r.skipped = true; runtime.Goexit() }

// verdict runs one case. It returns "" if it passed.
func verdict(t *testing.T, run func(tb testing.TB)) string {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(r)
	}()
	<-done
	require.False(t, r.skipped)
	if r.failed {
		return "failed: " + r.text
	}
	return ""
}

// toyStore is a LeaseStore, right if no fault is set.
type toyStore struct {
	mu      sync.Mutex
	records map[string]snowflake.Record
	before  map[string]snowflake.Record // as they were before the last write
	fault   string
}

func newToyStore(fault string) *toyStore {
	return &toyStore{records: make(map[string]snowflake.Record), before: make(map[string]snowflake.Record), fault: fault}
}

func (s *toyStore) key(region, worker int) string {
	if s.fault == "keys run together" {
		return fmt.Sprint(region, worker+1)[:1] + strings.ReplaceAll(fmt.Sprint(region, worker+1)[1:], " ", "")
	}
	return fmt.Sprintf("%d/%d", region, worker)
}

func (s *toyStore) Records(ctx context.Context, region int) ([]snowflake.Record, error) {
	if s.fault != "ignores its context" && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	records := s.records
	if s.fault == "Records is one write behind" {
		records = s.before
	}
	var all []snowflake.Record
	for _, r := range records {
		if r.Region == region || s.fault == "Records ignores the region" {
			all = append(all, r)
		}
	}
	return all, nil
}

func (s *toyStore) Swap(ctx context.Context, old, new snowflake.Record) (snowflake.Record, error) {
	if s.fault != "ignores its context" && s.fault != "writes after its context" && ctx.Err() != nil {
		return snowflake.Record{}, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := s.key(new.Region, new.Worker)
	stored := s.records[key]
	sameVersion, sameNonce := stored.Version == old.Version, stored.Nonce == old.Nonce
	switch s.fault {
	case "no compare at all":
		sameVersion, sameNonce = true, true
	case "no compare of versions":
		sameVersion = true
	case "no compare of nonces":
		sameNonce = true
	case "a lower version will do":
		sameVersion = stored.Version >= old.Version
	case "nonces without regard to case":
		sameNonce = strings.EqualFold(stored.Nonce, old.Nonce)
	case "nonces without spaces at the end":
		sameNonce = strings.TrimRight(stored.Nonce, " ") == strings.TrimRight(old.Nonce, " ")
	case "compares before it locks":
		s.mu.Unlock()
		runtime.Gosched()
		time.Sleep(time.Millisecond)
		s.mu.Lock()
	case "makes no record again that was there":
		if stored.Version == 0 && old.Version != 0 {
			sameVersion, sameNonce = true, true
		}
	}
	if !sameVersion || !sameNonce {
		if s.fault == "a conflict removes the record" {
			delete(s.records, key)
		}
		if s.fault == "a conflict is no error" {
			return stored, nil
		}
		return snowflake.Record{}, snowflake.ErrConflict
	}
	if s.fault != "the version does not rise" || stored.Version == 0 {
		new.Version = stored.Version + 1
	} else {
		new.Version = stored.Version
	}
	if s.fault == "the version is the caller's" {
		new.Version = max(old.Version, new.Version)
		if old.Version == 0 {
			new.Version = max(1, new.Version)
		}
	}
	answer := new
	switch s.fault {
	case "a ceiling of milliseconds":
		new.Ceiling = new.Ceiling.Truncate(time.Millisecond)
	case "a ceiling of microseconds, rounded":
		new.Ceiling = new.Ceiling.Round(time.Microsecond)
	case "a ceiling by the clock on the wall":
		new.Ceiling = new.Ceiling.Local()
		zone, _ := time.LoadLocation("Europe/Paris")
		text := new.Ceiling.In(zone).Format("2006-01-02 15:04:05.999999999")
		new.Ceiling, _ = time.ParseInLocation("2006-01-02 15:04:05.999999999", text, zone)
	case "no ceiling is 1970":
		if new.Ceiling.IsZero() {
			new.Ceiling = time.Unix(0, 0)
		}
	case "numbers are floats":
		data, _ := json.Marshal(new.Token)
		var f float64
		_ = json.Unmarshal(data, &f)
		new.Token = uint64(min(f, math.MaxInt64))
	case "owners are cut to 64 bytes":
		new.Owner = new.Owner[:min(len(new.Owner), 64)]
	case "released is forgotten":
		new.Released = false
	case "acknowledges and does not write":
		if stored.Version == 3 {
			return answer, nil
		}
	case "ErrConflict after it has written":
		if new.Version%7 == 0 {
			s.records[key] = new
			return snowflake.Record{}, snowflake.ErrConflict
		}
	}
	s.before = make(map[string]snowflake.Record)
	for k, r := range s.records {
		s.before[k] = r
	}
	s.records[key] = new
	return answer, ctx.Err()
}

func TestLeaseSuiteCatches(t *testing.T) {
	for _, row := range []struct{ fault, by string }{
		{"no compare at all", "of many first writers"},
		{"no compare at all", "200 acquisitions"},
		{"no compare at all", "no requests and answers"},
		{"compares before it locks", "of many first writers"},
		{"compares before it locks", "of many writers"},
		{"none", ""},
		{"no compare of versions", "Swap needs the stored version and nonce"},
		{"no compare of nonces", "Swap needs the stored version and nonce"},
		{"a lower version will do", "Swap needs the stored version and nonce"},
		{"makes no record again that was there", "Swap needs the stored version and nonce"},
		{"a conflict removes the record", "Swap needs the stored version and nonce"},
		{"a conflict is no error", "Swap needs the stored version and nonce"},
		{"nonces without regard to case", "nonces are compared byte by byte"},
		{"nonces without spaces at the end", "nonces are compared byte by byte"},
		{"compares before it locks", "any history of calls"},
		{"the version does not rise", "the store sets the version"},
		{"Records is one write behind", "what Swap acknowledged"},
		{"acknowledges and does not write", "what Swap acknowledged"},
		{"Records ignores the region", "regions and workers do not mix"},
		{"keys run together", "regions and workers do not mix"},
		{"ignores its context", "after the end of its context"},
		{"writes after its context", "after the end of its context"},
		{"a ceiling of milliseconds", "every field comes back exactly"},
		{"a ceiling of microseconds, rounded", "every field comes back exactly"},
		{"a ceiling by the clock on the wall", "every field comes back exactly"},
		{"no ceiling is 1970", "every field comes back exactly"},
		{"numbers are floats", "every field comes back exactly"},
		{"owners are cut to 64 bytes", "every field comes back exactly"},
		{"released is forgotten", "every field comes back exactly"},
		{"ErrConflict after it has written", "any history of calls"},
	} {
		t.Run(row.fault+"/"+row.by, func(t *testing.T) {
			ran := 0
			for _, c := range leaseCases {
				if strings.HasPrefix(c.name, row.by) {
					ran++
					store := newToyStore(row.fault)
					why := verdict(t, func(tb testing.TB) { c.run(tb, handles{tb, store, store}) })
					require.Equal(t, row.by == "", why == "", "%s: %s", c.name, why)
				}
			}
			require.NotZero(t, ran)
		})
	}
}

// toyMarks is a HighWaterStore, right if no fault is set.
type toyMarks struct {
	mu    sync.Mutex
	codes map[int]*toyCode
	fault string
}

type toyCode struct {
	owner  *toyMark
	mark   time.Time
	layout string
}

type toyMark struct {
	store  *toyMarks
	code   *toyCode
	opened time.Time
	mine   time.Time
	closed bool
}

func (s *toyMarks) Supersede(_ context.Context, code int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.codes[code].owner = nil
	return nil
}

func (s *toyMarks) Open(ctx context.Context, code int, layout snowflake.Layout) (snowflake.HighWater, error) {
	if ctx.Err() != nil && s.fault != "ignores its context" {
		return nil, ctx.Err()
	}
	if _, err := layout.Code(0, code); layout.Validate() != nil || (err != nil && (code < 0 || code >= 1<<(layout.RegionBits+layout.WorkerBits)) && s.fault != "any code will do") {
		return nil, fmt.Errorf("code %d", code)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault == "codes run together" {
		code %= 10
	}
	c := s.codes[code]
	if c == nil {
		c = &toyCode{layout: layout.String()}
		s.codes[code] = c
	}
	switch {
	case c.layout != layout.String() && s.fault != "no layout is pinned":
		return nil, snowflake.ErrLayoutMismatch
	case c.owner != nil && s.fault != "opens a code twice":
		return nil, snowflake.ErrCodeInUse
	}
	c.owner = &toyMark{store: s, code: c, opened: c.mark, mine: c.mark}
	return c.owner, nil
}

func (m *toyMark) Mark() time.Time {
	if m.store.fault == "Mark is the latest" {
		return m.code.mark
	}
	return m.opened
}

func (m *toyMark) Advance(ctx context.Context, mark time.Time) error {
	m.store.mu.Lock()
	defer m.store.mu.Unlock()
	fault := m.store.fault
	switch {
	case ctx.Err() != nil && fault != "ignores its context":
		return ctx.Err()
	case m.closed && fault != "advances when closed":
		return snowflake.ErrClosed
	case m.code.owner != m && fault != "a superseded owner writes" && !m.closed:
		return snowflake.ErrConflict
	case fault == "marks of seconds":
		mark = mark.Truncate(time.Second)
	case fault == "marks of microseconds":
		mark = mark.Truncate(time.Microsecond)
	}
	if mark.After(m.mine) || fault == "a lower mark is written" {
		m.mine = mark
		if fault != "is durable with Close only" {
			m.code.mark = mark
		}
	}
	return nil
}

func (m *toyMark) Close(ctx context.Context, unused time.Time) error {
	m.store.mu.Lock()
	defer m.store.mu.Unlock()
	if m.closed && m.store.fault != "closes again" {
		return nil
	}
	m.closed = true
	if m.code.owner != m && m.store.fault != "closes again" {
		return snowflake.ErrConflict
	}
	m.code.owner = nil
	if m.store.fault == "stays open when its context has ended" && ctx.Err() != nil {
		m.code.owner = m
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if m.store.fault == "is durable with Close only" {
		m.code.mark = m.mine
	}
	if !unused.IsZero() && m.store.fault != "Close leaves the mark" {
		if unused.Before(m.opened) && m.store.fault != "Close goes below the mark as opened" {
			unused = m.opened
		}
		m.code.mark = unused
	}
	if unused.IsZero() && m.store.fault == "unknown is the mark as opened" {
		m.code.mark = m.opened
	}
	return nil
}

func TestHighWaterSuiteCatches(t *testing.T) {
	for _, row := range []struct{ fault, by string }{
		{"opens a code twice", "of many that open a code at once"},
		{"none", ""},
		{"a lower mark is written", "the mark is the highest"},
		{"Mark is the latest", "the mark is the highest"},
		{"unknown is the mark as opened", "the mark is the highest"},
		{"Close leaves the mark", "Close sets the mark"},
		{"Close goes below the mark as opened", "Close sets the mark"},
		{"closes again", "Close gives the code up once"},
		{"advances when closed", "Close gives the code up once"},
		{"opens a code twice", "a code that is open is refused"},
		{"codes run together", "codes do not mix"},
		{"marks of seconds", "marks come back exactly"},
		{"marks of microseconds", "marks come back exactly"},
		{"no layout is pinned", "the layout of the first use"},
		{"any code will do", "a code that the layout does not hold"},
		{"ignores its context", "after the end of its context"},
		{"stays open when its context has ended", "after the end of its context"},
		{"a superseded owner writes", "a mark outlives its owner"},
		{"is durable with Close only", "a mark outlives its owner"},
	} {
		t.Run(row.fault+"/"+row.by, func(t *testing.T) {
			ran := 0
			for _, c := range markCases {
				if strings.HasPrefix(c.name, row.by) {
					ran++
					store := &toyMarks{codes: make(map[int]*toyCode), fault: row.fault}
					why := verdict(t, func(tb testing.TB) { c.run(tb, &markHandles{tb: tb, a: store, b: store}) })
					require.Equal(t, row.by == "", why == "", "%s: %s", c.name, why)
				}
			}
			require.NotZero(t, ran)
		})
	}
}
