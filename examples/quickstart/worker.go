//go:build unix

package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/snowfence/snowflake"
)

const (
	workerEnv    = "SNOWFLAKE_QUICKSTART_WORKER"
	databaseName = "lines.db"
	leasesName   = "leases"
	pace         = 8 * time.Millisecond // what else a service does for a row
)

// message is what a worker tells its parent, one a line.
type message struct {
	Grant   *grant         `json:",omitempty"` // it may use this from now on
	Chunk   int            `json:",omitempty"` // it has committed this chunk,
	IDs     []snowflake.ID `json:",omitempty"` // and minted these
	Refused string         `json:",omitempty"` // Next refused, and why
}

// grant is a snowflake.Grant on its way through a pipe.
type grant struct {
	Code           int
	Token          uint64
	Floor, Ceiling time.Time
	Acquired       time.Time `json:",omitzero"` // zero: it is a renewal
}

// work is a service in small: it leases a code, mints a key for each line that it is
// asked to insert, and gives the code back when its standard input ends.
func work(dir string) (err error) {
	ctx := context.Background()
	tell := newTeller(os.Stdout)
	rows, err := readRows(tzdata)
	if err != nil {
		return err
	}
	chunks := inChunks(rows, chunkRows)
	db, err := openDatabase(filepath.Join(dir, databaseName))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()

	store, err := snowflake.DirStore(filepath.Join(dir, leasesName))
	if err != nil {
		return err
	}
	lease, err := snowflake.AcquireLease(ctx, store, snowflake.LeaseConfig{
		Layout: layout(), TTL: ttl, Renew: renew,
		Hooks: &snowflake.Hooks{LeaseAcquired: tell.acquired},
	})
	if err != nil {
		return err
	}
	gen, err := snowflake.New(ctx, snowflake.Config{Lease: lease})
	if err != nil {
		return err
	}

	// Every grant is reported before an ID of it can be: the parent checks them.
	m := minter{gen: gen, lease: lease, tell: tell}
	if err := m.report(); err != nil {
		return err
	}
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		var number int
		if err := json.Unmarshal(input.Bytes(), &number); err != nil {
			return err
		}
		ids, err := m.insert(ctx, db, chunks[number-1])
		if err != nil {
			return err
		}
		if err := tell.say(message{Chunk: number, IDs: ids}); err != nil {
			return err
		}
	}
	return errors.Join(input.Err(), gen.Close(ctx))
}

type minter struct {
	gen   *snowflake.Generator
	lease *snowflake.WorkerLease
	tell  *teller
	last  *snowflake.Grant
}

// report tells the parent of a grant that is new.
func (m *minter) report() error {
	g := m.lease.Grant()
	if g == nil || g == m.last {
		return nil
	}
	m.last = g
	return m.tell.say(message{Grant: &grant{Code: g.Code, Token: g.Token, Floor: g.Floor, Ceiling: g.Ceiling}})
}

// next mints a key. Errors that pass by themselves are waited out: a service would
// answer 503 meanwhile.
func (m *minter) next() (snowflake.ID, error) {
	for refused := false; ; {
		id, err := m.gen.Next()
		if err == nil {
			return id, m.report()
		}
		if !snowflake.Retryable(err) {
			return 0, err
		}
		if !refused {
			refused = true
			if err := m.tell.say(message{Refused: err.Error()}); err != nil {
				return 0, err
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// insert puts a chunk into the table in one transaction. A chunk that a killed worker
// had committed, but not reported, is there already: its lines are left alone. A key that
// is there already is an error.
func (m *minter) insert(ctx context.Context, db *sql.DB, c chunk) (ids []snowflake.ID, err error) {
	for range c.Rows {
		id, err := m.next()
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
		time.Sleep(pace)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it has nothing to do
	for i, r := range c.Rows {
		_, err := tx.ExecContext(ctx,
			"INSERT INTO lines (id, line, kind, text) VALUES (?, ?, ?, ?) ON CONFLICT (line) DO NOTHING", ids[i], r.Line, r.Kind, r.Text)
		if err != nil {
			if keyRepeats(err) {
				m.gen.ReportDuplicate(ids[i]) // what every service should do: it is counted, and alerts
			}
			return nil, fmt.Errorf("line %d, key %d: %w", r.Line, ids[i], err)
		}
	}
	return ids, tx.Commit()
}

// keyRepeats says whether the constraint on the key has fired.
func keyRepeats(err error) bool {
	var refused *sqlite.Error
	return errors.As(err, &refused) &&
		(refused.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY || refused.Code() == sqlite3.SQLITE_CONSTRAINT_ROWID)
}

// createTable makes the table. In SQLite an INTEGER PRIMARY KEY is the row's own 64-bit
// number; elsewhere it would be a bigint.
func createTable(path string) (*sql.DB, error) {
	db, err := openDatabase(path)
	if err != nil {
		return nil, err
	}
	_, err = db.Exec(`CREATE TABLE lines (
		id   INTEGER PRIMARY KEY,
		line INTEGER NOT NULL UNIQUE,
		kind TEXT NOT NULL,
		text TEXT NOT NULL
	)`)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func openDatabase(path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(30000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// teller writes messages.
type teller struct {
	mu  sync.Mutex
	out *json.Encoder
}

func newTeller(w io.Writer) *teller { return &teller{out: json.NewEncoder(w)} }

// acquired is a hook: the lease holds a code, the first one or a fresh one.
func (t *teller) acquired(g snowflake.Grant) {
	// If nobody listens any more, the worker is about to end.
	_ = t.say(message{Grant: &grant{g.Code, g.Token, g.Floor, g.Ceiling, time.Now()}})
}

func (t *teller) say(m message) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.out.Encode(m)
}
