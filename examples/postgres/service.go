package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/stores/sqlstore"
)

// The keys are bigint: every ID is a positive number of 64 bits. They are made before
// anything is sent, so an order and its items go into one transaction without asking for
// the order's key in between. What strangers see is public_id, because a key tells when it
// was made. reference is the caller's own name for the order.
const schema = `
CREATE TABLE IF NOT EXISTS example_order (
	id        bigint PRIMARY KEY,
	public_id uuid NOT NULL DEFAULT gen_random_uuid() UNIQUE,
	reference text NOT NULL UNIQUE
);
CREATE TABLE IF NOT EXISTS example_item (
	id       bigint PRIMARY KEY,
	order_id bigint NOT NULL REFERENCES example_order,
	article  text NOT NULL
);`

const leasePrefix = "example_snowflake_" // a service would leave it out

// service is what a process has once: a database, and the generator whose code is leased
// from that database.
type service struct {
	db    *sql.DB
	lease *snowflake.WorkerLease // shown in the report; the generator owns it
	gen   *snowflake.Generator
}

// openService leases a worker code. region is the number of the deployment's region, and
// differs wherever the database does.
func openService(ctx context.Context, db *sql.DB, region int, owner string) (*service, error) {
	store, err := sqlstore.Open(ctx, db, sqlstore.Postgres, sqlstore.Options{Prefix: leasePrefix})
	if err != nil {
		return nil, err
	}
	lease, err := snowflake.AcquireLease(ctx, store, snowflake.LeaseConfig{Region: region, Owner: owner})
	if err != nil {
		return nil, err
	}
	gen, err := snowflake.New(ctx, snowflake.Config{Lease: lease, Hooks: snowflake.LogHooks(nil)})
	if err != nil {
		return nil, errors.Join(err, lease.Close(ctx))
	}
	return &service{db: db, lease: lease, gen: gen}, nil
}

// ready is what a readiness probe asks.
func (s *service) ready() error { return s.gen.Health() }

// close gives the code back. The database must still be open.
func (s *service) close(ctx context.Context) error { return s.gen.Close(ctx) }

type order struct {
	reference string
	articles  []string
}

// place stores an order and returns its key. The same reference again, as after a lost
// answer, returns the key that it has: a retry makes fresh keys, and never sends a key
// twice. Otherwise the constraint on the key would refuse a row that is one's own.
func (s *service) place(ctx context.Context, o order) (snowflake.ID, error) {
	keys := make([]snowflake.ID, 1+len(o.articles))
	if _, err := s.gen.Fill(ctx, keys); err != nil {
		return 0, err
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it has nothing to do
	written, err := s.insert(ctx, tx, keys[0], "INSERT INTO example_order (id, reference) VALUES ($1, $2) ON CONFLICT (reference) DO NOTHING", o.reference)
	if err != nil {
		return 0, err
	}
	if !written {
		var id snowflake.ID
		return id, tx.QueryRowContext(ctx, "SELECT id FROM example_order WHERE reference = $1", o.reference).Scan(&id)
	}
	for i, article := range o.articles {
		if _, err := s.insert(ctx, tx, keys[i+1], "INSERT INTO example_item (id, order_id, article) VALUES ($1, $2, $3)", keys[0], article); err != nil {
			return 0, err
		}
	}
	return keys[0], tx.Commit()
}

// insert adds a row under a key. If the constraint on the key fires, one of the limits of
// the promise was crossed, a restored backup for instance: the row is refused, nothing is
// overwritten, and ReportDuplicate counts it, for an alert.
func (s *service) insert(ctx context.Context, tx *sql.Tx, key snowflake.ID, statement string, args ...any) (written bool, err error) {
	result, err := tx.ExecContext(ctx, statement, append([]any{key}, args...)...)
	if keyRepeats(err) {
		s.gen.ReportDuplicate(key)
	}
	if err != nil {
		return false, fmt.Errorf("key %d: %w", key, err)
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// keyRepeats says whether the constraint on a table's primary key has fired.
func keyRepeats(err error) bool {
	const uniqueViolation = "23505"
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == uniqueViolation && strings.HasSuffix(refused.ConstraintName, "_pkey")
}
