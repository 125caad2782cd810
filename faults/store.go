package faults

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/stores/sqlstore"
)

// Store says where a lease store is.
type Store struct {
	Kind      string
	Address   string // as its client is told
	Prefix    string // of the suite's tests, which share servers
	MayForget bool
}

// The kinds of stores.
const (
	Dir        = "DirStore"
	SQLite     = "SQLite"
	PostgreSQL = "PostgreSQL"
	MariaDB    = "MariaDB"
)

const (
	dialTimeout = 2 * time.Second
	connections = 8
)

// Open opens the store.
func (s Store) Open(ctx context.Context) (snowflake.LeaseStore, func() error, error) {
	none := func() error { return nil }
	switch s.Kind {
	case Dir:
		store, err := snowflake.DirStore(s.Address)
		return store, none, err
	case SQLite:
		return s.sql(ctx, "sqlite", sqlstore.SQLite)
	case PostgreSQL:
		return s.sql(ctx, "pgx", sqlstore.Postgres)
	case MariaDB:
		return s.sql(ctx, "mysql", sqlstore.MySQL)
	}
	return nil, none, fmt.Errorf("faults: no store is of kind %q", s.Kind)
}

func (s Store) sql(ctx context.Context, driver string, dialect sqlstore.Dialect) (snowflake.LeaseStore, func() error, error) {
	db, err := sql.Open(driver, s.Address)
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	store, err := sqlstore.Open(ctx, db, dialect, sqlstore.Options{Prefix: s.Prefix, MayForget: s.MayForget})
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return store, db.Close, nil
}
