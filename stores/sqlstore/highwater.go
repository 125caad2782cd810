package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/snowfence/snowflake"
)

const markColumns = "owner, session, beat, mark_ns, mark, layout, format"

var errReplica = errors.New("the database is a replica: connect to the primary, in PostgreSQL with target_session_attrs=read-write")

// HighWater returns the store of marks for static codes.
//
// A database cannot tell that a process has died, and a lock that a session holds is lost
// with the session. So a row has the random name of the session that owns it, and whoever
// opens the code writes another. That is safe at any time, whoever is alive:
//
//   - the owner before may use what is below the last mark that was acknowledged to it,
//     and the opener has read that mark, or a later one, in the very row that it
//     replaced (it compares session and beat): it begins where the owner before ends;
//   - every later write of the owner before, whether it is under way or to come, names
//     a session that is gone and changes nothing: it gets ErrConflict, stops at its mark
//     and never begins again.
//
// What is left is that two processes with one code by mistake must not take it from one
// another for ever: Open refuses with ErrCodeInUse a code whose owner lives. An owner
// writes every half window as long as it lives, with marks ahead of its clock. It is
// taken for gone when it has not written for 3 s and its mark has passed, or when it has
// not written for 30 s. To find out, Open waits, and refuses as soon as the owner writes.
// After a crash the wait costs nothing with the default window: a generator could not start
// earlier, because it has to wait for the mark. All of this goes by the database's
// clock, and if that steps, by how long Open has looked on; a wrong verdict makes an owner
// stop, and no ID repeat.
//
// An owner that is taken for gone while it lives was cut off from the database for longer
// than a window: it had stopped by itself.
func (s *store) HighWater() snowflake.HighWaterStore {
	return &markStore{store: s, quiet: 3 * time.Second, patience: 30 * time.Second, poll: 100 * time.Millisecond}
}

type markStore struct {
	*store
	quiet, patience, poll time.Duration
}

// mark is one code's mark, open.
type mark struct {
	store   *markStore
	code    int
	session string
	layout  snowflake.Layout // normal

	opened   int64 // nanoseconds; the epoch: never used
	conflict error // why nothing is written any more, for ever
	closed   bool
}

// markRow is a row as read.
type markRow struct {
	owner, session string
	beat           int64
	mark           instant
	layout         string
	format         int
	now, age       time.Duration // by the database's clock: now since 1970
}

var (
	_ snowflake.HighWaterStore = (*markStore)(nil)
	_ snowflake.HighWater      = (*mark)(nil)
)

// Open takes the code, or finds out that its owner lives.
func (s *markStore) Open(ctx context.Context, code int, layout snowflake.Layout) (snowflake.HighWater, error) {
	if err := layout.Validate(); err != nil {
		return nil, err
	}
	if limit := 1<<(layout.RegionBits+layout.WorkerBits) - 1; code < 0 || code > limit {
		return nil, fmt.Errorf("sqlstore: code is %d, must be 0 to %d", code, limit)
	}
	if s.options.MayForget {
		return nil, fmt.Errorf("sqlstore: code %d: Options.MayForget is set: a mark that is forgotten cannot be told from one that never was. "+
			"Use leases, which settle, or FileHighWater", code)
	}
	if layout.Tick == 0 {
		layout.Tick = time.Millisecond
	}
	m := &mark{store: s, code: code, session: newSession(), layout: layout, opened: layout.Epoch.UnixNano()}
	err := m.take(ctx)
	switch {
	case err == nil:
		return m, nil
	case errors.Is(err, snowflake.ErrCodeInUse), errors.Is(err, snowflake.ErrDamaged), errors.Is(err, snowflake.ErrLayoutMismatch), errors.Is(err, errFormat):
		return nil, err
	}
	return nil, fmt.Errorf("%w: sqlstore: code %d was not opened: %w", snowflake.ErrHighWater, code, err)
}

// take makes this session the owner.
func (m *mark) take(ctx context.Context) error {
	s := m.store
	made, err := s.change(ctx, s.said.insert+" "+s.mark+" (code, "+markColumns+", updated_at) VALUES (?, ?, ?, 1, NULL, '', ?, ?, "+s.said.now+") "+
		s.said.insertEnd, m.code, shownText(s.options.Owner), m.session, m.layout.String(), format)
	if err != nil || made {
		return err
	}
	var first markRow
	for began := time.Now(); ; {
		now, err := m.read(ctx)
		if err != nil {
			return err
		}
		if first.session == "" {
			first = now
		}
		watched := time.Since(began)
		switch {
		case now.session != "" && (now.session != first.session || now.beat != first.beat):
			return &snowflake.LeaseError{
				Region: m.code >> m.layout.WorkerBits, Worker: m.code & (1<<m.layout.WorkerBits - 1), Holder: now.owner,
				Err: fmt.Errorf("%w: its owner writes", snowflake.ErrCodeInUse),
			}
		case now.session == "" || watched >= s.patience || now.gone(s):
			taken, err := s.change(ctx, "UPDATE "+s.mark+" SET owner = ?, session = ?, beat = beat + 1, updated_at = "+s.said.now+
				" WHERE code = ? AND session = ? AND beat = ? AND format = "+strconv.Itoa(format),
				shownText(s.options.Owner), m.session, m.code, now.session, now.beat)
			if err != nil || taken {
				return err
			}
			continue // somebody was faster: the next look shows who
		}
		select {
		case <-time.After(s.poll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// gone tells by the database's clock whether the owner has ceased to write.
func (r markRow) gone(s *markStore) bool {
	passed := !r.mark.ns.Valid || time.Duration(r.mark.ns.Int64) <= r.now
	return r.age >= s.patience || r.age >= s.quiet && passed
}

// read reads the row, checks it and takes its mark for the one as opened.
func (m *mark) read(ctx context.Context) (markRow, error) {
	s := m.store
	var r markRow
	var replica bool
	var now, age int64
	found := false
	err := s.query(ctx, func(rows *sql.Rows) error {
		found = true
		return rows.Scan(&replica, &now, &age, &r.owner, &r.session, &r.beat, &r.mark.ns, &r.mark.shown, &r.layout, &r.format)
	}, "SELECT "+s.said.replica+", "+s.said.nowMicros+", "+s.said.ageMicros+", "+markColumns+" FROM "+s.mark+" WHERE code = ?", m.code)
	r.owner = hiddenText(r.owner)
	r.now, r.age = time.Duration(now)*time.Microsecond, time.Duration(age)*time.Microsecond
	damaged := func(why error) (markRow, error) {
		return r, fmt.Errorf("sqlstore: code %d: %w. The row tells how far the code was used: restore it, or use a code that never was", m.code, why)
	}
	switch {
	case err != nil:
		return r, err
	case !found:
		return r, errors.New("its row has vanished: rows must never be deleted")
	case replica:
		return r, errReplica
	case r.format != format:
		return r, fmt.Errorf("sqlstore: code %d: %w: format %d", m.code, errFormat, r.format)
	case r.layout != m.layout.String():
		return r, fmt.Errorf("%w: sqlstore: code %d has %q, this process %q", snowflake.ErrLayoutMismatch, m.code, r.layout, m.layout)
	}
	opened, err := r.mark.time()
	if err != nil {
		return damaged(err)
	}
	epoch := m.layout.Epoch.UnixNano()
	m.opened = epoch
	if r.mark.ns.Valid {
		m.opened = r.mark.ns.Int64
	}
	if m.opened < epoch || (m.opened-epoch)%int64(m.layout.Tick) != 0 || opened.After(m.layout.End()) {
		return damaged(fmt.Errorf("%w: %s is no tick of the layout", snowflake.ErrDamaged, r.mark.shown))
	}
	return r, nil
}

// Mark returns the mark as opened.
func (m *mark) Mark() time.Time {
	if m.opened == m.layout.Epoch.UnixNano() {
		return time.Time{}
	}
	return time.Unix(0, m.opened).UTC()
}

// Advance raises the mark, and shows that the owner lives in any case. It compares in
// the database: an Advance that was given up on may land after later ones. A mark
// that is not a whole tick is rounded up.
func (m *mark) Advance(ctx context.Context, to time.Time) error {
	if m.closed {
		return fmt.Errorf("%w: the mark of code %d", snowflake.ErrClosed, m.code)
	}
	ns, err := m.admit(ctx, to)
	if err != nil {
		return err
	}
	at := instantAt(ns)
	// MySQL assigns from left to right: the text first, by the number as it was.
	const higher = "CASE WHEN mark_ns IS NULL OR mark_ns < ? THEN ? ELSE "
	return m.write(ctx, "mark = "+higher+"mark END, mark_ns = "+higher+"mark_ns END", ns, at.shown, ns, ns)
}

// Close sets the mark to what was used, and gives the code up. If it cannot reach the
// database, the code is free once its owner has been silent for long enough.
func (m *mark) Close(ctx context.Context, unused time.Time) error {
	if m.closed {
		return nil
	}
	m.closed = true
	ns, err := m.admit(ctx, unused)
	switch {
	case err != nil:
		return err
	case unused.IsZero():
		return m.write(ctx, "session = ''")
	}
	at := instantAt(max(ns, m.opened))
	return m.write(ctx, "mark = ?, mark_ns = ?, session = ''", at.shown, at.ns.Int64)
}

// write changes the row of this session.
func (m *mark) write(ctx context.Context, assignments string, args ...any) error {
	s := m.store
	written, err := s.change(ctx, "UPDATE "+s.mark+" SET "+assignments+", beat = beat + 1, updated_at = "+s.said.now+
		" WHERE code = ? AND session = ? AND format = "+strconv.Itoa(format), append(args, m.code, m.session)...)
	switch {
	case err != nil:
		return fmt.Errorf("%w: sqlstore: code %d: %w", snowflake.ErrHighWater, m.code, err)
	case !written:
		m.conflict = fmt.Errorf("%w: sqlstore: code %d has another owner, or its row is gone", snowflake.ErrConflict, m.code)
		return m.conflict
	}
	return nil
}

// admit returns a mark in nanoseconds, whole ticks, or why it must not be written.
func (m *mark) admit(ctx context.Context, to time.Time) (int64, error) {
	if m.conflict != nil {
		return 0, m.conflict
	}
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("%w: sqlstore: code %d: nothing was written: %w", snowflake.ErrHighWater, m.code, err)
	}
	epoch, tick := m.layout.Epoch.UnixNano(), int64(m.layout.Tick)
	if !to.After(m.layout.Epoch) {
		return epoch, nil
	}
	ns := to.UnixNano()
	if !time.Unix(0, ns).Equal(to) || to.After(m.layout.End()) {
		return 0, fmt.Errorf("%w: mark %s of code %d", snowflake.ErrTimeOverflow, to.UTC().Format(time.RFC3339Nano), m.code)
	}
	if over := (ns - epoch) % tick; over != 0 {
		ns += tick - over
	}
	return ns, nil
}

// newSession returns 128 random bits: no two sessions share a name.
func newSession() string {
	var name [16]byte
	_, _ = rand.Read(name[:]) // never fails
	return hex.EncodeToString(name[:])
}
