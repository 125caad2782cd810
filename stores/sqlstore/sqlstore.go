package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/snowfence/snowflake"
)

// Store is a LeaseStore in a database, and a HighWaterStore beside it. It is safe for
// concurrent use. Close the database after the last generator.
//
// For PostgreSQL and MySQL it also has
//
//	Time(ctx context.Context) (time.Time, error)
//
// with which leases compare the local clock, see snowflake.LeaseConfig.MaxClockSkew. For
// SQLite it has not: its time is the local clock itself, which would agree with itself
// however wrong it is, and leases would take that for proof and no longer look at what
// their peers say.
type Store interface {
	snowflake.LeaseStore
	// MayForget returns Options.MayForget.
	MayForget() bool
	// HighWater returns the store of marks for static codes.
	HighWater() snowflake.HighWaterStore
}

// Options may be left out.
type Options struct {
	// Prefix begins the names of the tables, which are Prefix + "lease" and Prefix +
	// "mark". It may name a schema: "ids.snowflake_". "": "snowflake_".
	Prefix string
	// MayForget says that the database may lose commits that it has acknowledged, in a
	// crash or a failover. Leases then settle, so that codes can be used only about two
	// minutes after the start (see snowflake.LeaseConfig.Settle), and HighWater, for
	// which there is no such remedy, refuses to work.
	MayForget bool
	// Owner is shown to people who list the marks. "": host name and process.
	Owner string
}

// Open returns a store in db, whose driver must fit d. It makes the tables if they are
// missing, and refuses those of a newer release, and a database whose settings let it
// forget unless o.MayForget is set. It does not close db.
func Open(ctx context.Context, db *sql.DB, d Dialect, o Options) (Store, error) {
	said, ok := dialects[d]
	switch {
	case db == nil:
		return nil, errors.New("sqlstore: Open: db is nil")
	case !ok:
		return nil, fmt.Errorf("sqlstore: Open: unknown %v: give Postgres, MySQL or SQLite", d)
	}
	lease, mark, err := tables(o.Prefix)
	if err != nil {
		return nil, err
	}
	if o.Owner == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown host"
		}
		o.Owner = fmt.Sprintf("%.200s/%d", host, os.Getpid())
	}
	if len(o.Owner) > maxText {
		return nil, fmt.Errorf("sqlstore: Options.Owner has %d bytes, must have at most %d", len(o.Owner), maxText)
	}
	if !o.MayForget {
		said.now = cmp.Or(said.nowForGood, said.now)
	}
	s := &store{db: db, said: said, lease: lease, mark: mark, options: o}
	if err := s.admitSettings(ctx, db); err != nil {
		return nil, fmt.Errorf("sqlstore: Open: %w", err)
	}
	if err := s.prepare(ctx, Schema(d, o.Prefix)); err != nil {
		return nil, err
	}
	if err := s.admitTables(ctx); err != nil {
		return nil, fmt.Errorf("sqlstore: Open: %w", err)
	}
	if d == SQLite {
		return s, nil
	}
	return &timedStore{s}, nil
}

type store struct {
	db          *sql.DB
	said        speech
	lease, mark string // tables
	options     Options
}

// timedStore is a store whose database is a witness of the time.
type timedStore struct{ *store }

var (
	_ Store = (*store)(nil)
	_ Store = (*timedStore)(nil)
)

// MayForget returns Options.MayForget.
func (s *store) MayForget() bool { return s.options.MayForget }

// Time returns the database's time.
func (s *timedStore) Time(ctx context.Context) (time.Time, error) {
	var micros int64
	if err := s.db.QueryRowContext(ctx, "SELECT "+s.said.nowMicros).Scan(&micros); err != nil {
		return time.Time{}, fmt.Errorf("sqlstore: Time: %w", err)
	}
	return time.UnixMicro(micros).UTC(), nil
}

// prepare makes the tables, if they are not as they must be.
func (s *store) prepare(ctx context.Context, schema []string) error {
	err := s.check(ctx)
	for attempt := 0; err != nil && !errors.Is(err, errFormat) && attempt < 3; attempt++ {
		// Others may be making them: CREATE fails for one of two at once in PostgreSQL.
		for _, statement := range schema {
			if _, failed := s.db.ExecContext(ctx, statement); failed != nil {
				err = errors.Join(err, failed)
			}
		}
		if again := s.check(ctx); again == nil || errors.Is(again, errFormat) {
			err = again
		}
	}
	if err != nil {
		return fmt.Errorf("sqlstore: Open: %w", err)
	}
	return nil
}

var errFormat = errors.New("the table was written by a newer release: use that or later everywhere")

// check finds out whether the tables have all columns and no row of another format.
func (s *store) check(ctx context.Context) error {
	for _, of := range []struct{ table, columns string }{
		{s.lease, "region, worker, " + leaseColumns + ", updated_at"},
		{s.mark, "code, " + markColumns + ", updated_at"},
	} {
		table := of.table
		statement := "SELECT " + of.columns + " FROM " + table + " WHERE format <> " + strconv.Itoa(format)
		other := false
		if err := s.query(ctx, func(*sql.Rows) error { other = true; return nil }, statement); err != nil {
			return fmt.Errorf("table %s: %w", table, err)
		}
		if other {
			return fmt.Errorf("table %s: %w", table, errFormat)
		}
	}
	return nil
}

// change runs a statement on one row, and tells whether it has changed it for good.
func (s *store) change(ctx context.Context, statement string, args ...any) (bool, error) {
	changed, err := s.run(ctx, s.said.placed(statement), args...)
	if err == nil {
		// When ctx ends a driver may ask for the end of the statement, and then return what is
		// answered: PostgreSQL answers with success if it has only ended the wait for a replica.
		err = ctx.Err()
	}
	return changed && err == nil, err
}

// run runs a statement and commits it.
func (s *store) run(ctx context.Context, statement string, args ...any) (changed bool, err error) {
	if s.said.commit == "" && !s.said.perConnection {
		return changes(s.db.ExecContext(ctx, statement, args...))
	}
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	if s.said.perConnection {
		if err := s.admitSettings(ctx, conn); err != nil {
			return false, fmt.Errorf("nothing was written: %w", err)
		}
	}
	changed, err = changes(conn.ExecContext(ctx, statement, args...))
	if s.said.commit == "" {
		return changed, err
	}
	if err == nil {
		_, err = conn.ExecContext(ctx, s.said.commit)
	}
	if err != nil { // What is left open must neither hold the row nor be committed later.
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		return false, err
	}
	return changed, nil
}

func changes(result sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// query runs a query that sees all that was committed before it, and has each row taken.
func (s *store) query(ctx context.Context, take func(rows *sql.Rows) error, statement string, args ...any) error {
	statement = s.said.placed(statement)
	if s.said.commit == "" {
		return taken(take)(s.db.QueryContext(ctx, statement, args...))
	}
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	// A transaction that somebody has begun would show what was there then, and one that
	// this query begins must not stay in the pool.
	if _, err := conn.ExecContext(ctx, s.said.commit); err != nil {
		return err
	}
	if err := taken(take)(conn.QueryContext(ctx, statement, args...)); err != nil {
		return err
	}
	_, err = conn.ExecContext(ctx, s.said.commit)
	return err
}

func taken(take func(rows *sql.Rows) error) func(*sql.Rows, error) error {
	return func(rows *sql.Rows, err error) error {
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			if err := take(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	}
}

// admitSettings refuses a database, or one connection, whose settings let it forget.
func (s *store) admitSettings(ctx context.Context, on querier) error {
	why, err := s.forgets(ctx, on, naming(s.lease, s.said.forgets))
	switch {
	case err != nil:
		return fmt.Errorf("is it %s? %w", s.said.name, err)
	case why != "":
		return fmt.Errorf("the database may forget what it has acknowledged: %s: change that, or set Options.MayForget", why)
	}
	return nil
}

// admitTables refuses tables that a crash empties, whatever the settings are.
func (s *store) admitTables(ctx context.Context) error {
	if s.said.tableForgets == "" {
		return nil
	}
	for _, table := range []string{s.lease, s.mark} {
		why, err := s.forgets(ctx, s.db, naming(table, s.said.tableForgets))
		switch {
		case err != nil:
			return fmt.Errorf("table %s: how is it kept? %w", table, err)
		case why != "":
			return fmt.Errorf("table %s may forget what was acknowledged: %s: make it as Schema says, or set Options.MayForget", table, why)
		}
	}
	return nil
}

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// forgets asks for the reason not to rely on what is acknowledged, "" if there is none or
// if nobody does.
func (s *store) forgets(ctx context.Context, on querier, query string) (why string, err error) {
	err = on.QueryRowContext(ctx, query).Scan(&why)
	if s.options.MayForget {
		why = ""
	}
	return why, err
}

const maxText = 255

// exactText refuses what not every database compares and keeps exactly.
func exactText(name, text string) error {
	if len(text) > maxText || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return fmt.Errorf("%s is %q, must be text of at most %d bytes", name, text, maxText)
	}
	return nil
}

// shownText returns a text that every database keeps, and that hiddenText turns back:
// the text itself, or quoted if it has zero bytes or is not UTF-8, or begins as a quoted
// one.
func shownText(text string) string {
	if strings.HasPrefix(text, `"`) || strings.ContainsRune(text, 0) || !utf8.ValidString(text) {
		return strconv.Quote(text)
	}
	return text
}

func hiddenText(shown string) string {
	if text, err := strconv.Unquote(shown); err == nil && strings.HasPrefix(shown, `"`) {
		return text
	}
	return shown
}

// An instant is stored as nanoseconds since 1970, NULL for none, beside a text for people.
type instant struct {
	ns    sql.NullInt64
	shown string
}

func instantOf(t time.Time) (instant, error) {
	if t.IsZero() {
		return instant{}, nil
	}
	ns := t.UnixNano()
	if !time.Unix(0, ns).Equal(t) {
		return instant{}, fmt.Errorf("%s cannot be counted in nanoseconds of 64 bits since 1970", t.UTC().Format(time.RFC3339Nano))
	}
	return instantAt(ns), nil
}

func instantAt(ns int64) instant {
	return instant{sql.NullInt64{Int64: ns, Valid: true}, time.Unix(0, ns).UTC().Format(time.RFC3339Nano)}
}

// time returns the instant as stored, or an error where text and number differ.
func (i instant) time() (time.Time, error) {
	if !i.ns.Valid {
		if i.shown != "" {
			return time.Time{}, fmt.Errorf("%w: the instant is NULL and %q: both must be none", snowflake.ErrDamaged, i.shown)
		}
		return time.Time{}, nil
	}
	if want := instantAt(i.ns.Int64).shown; i.shown != want {
		return time.Time{}, fmt.Errorf("%w: the instant %d is %s, but the text beside it %q", snowflake.ErrDamaged, i.ns.Int64, want, i.shown)
	}
	return time.Unix(0, i.ns.Int64).UTC(), nil
}

func inRange32(n int) bool { return n >= math.MinInt32 && n <= math.MaxInt32 }
