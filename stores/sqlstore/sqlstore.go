package sqlstore

import (
	"context"
	"database/sql"
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
	s := &store{db: db, said: said, lease: lease, mark: mark, options: o}
	var why string
	if err := db.QueryRowContext(ctx, said.forgets).Scan(&why); err != nil {
		return nil, fmt.Errorf("sqlstore: Open: is it %s? %w", said.name, err)
	}
	if why != "" && !o.MayForget {
		return nil, fmt.Errorf("sqlstore: Open: the database may forget what it has acknowledged: %s: change that, or set Options.MayForget", why)
	}
	if err := s.prepare(ctx, Schema(d, o.Prefix)); err != nil {
		return nil, err
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
		statement := "SELECT " + of.columns + " FROM " + table + " WHERE format <> " + strconv.Itoa(format) //nolint:gosec // names that tables() has looked at
		rows, err := s.db.QueryContext(ctx, statement)
		if err != nil {
			return fmt.Errorf("table %s: %w", table, err)
		}
		other := rows.Next()
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return fmt.Errorf("table %s: %w", table, err)
		}
		if other {
			return fmt.Errorf("table %s: %w", table, errFormat)
		}
	}
	return nil
}

// change runs a statement on one row, and tells whether it has changed it.
func (s *store) change(ctx context.Context, statement string, args ...any) (changed bool, err error) {
	result, err := s.db.ExecContext(ctx, s.said.placed(statement), args...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
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
