package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	"github.com/spf13/cobra"
	_ "modernc.org/sqlite" // the driver sqlite

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/stores/sqlstore"
)

const storeHelp = `Stores: dir:PATH, sqlite:PATH, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE,
with :PASSWORD after USER. For tables with another prefix than
snowflake_, append it: #ids.snowflake_. The environment variable SNOWFLAKE_STORE
keeps an address, and its password, out of the list of processes.`

// storeFlag is --store: where the leases are.
type storeFlag struct {
	address   string
	mayForget bool
}

const storeVariable = "SNOWFLAKE_STORE"

func (f *storeFlag) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&f.address, "store", "", "the lease store, else $"+storeVariable)
	c.Flags().BoolVar(&f.mayForget, "may-forget", false, "use a database that may forget what it has acknowledged: leases then settle")
}

// storeSchemes are how addresses begin, and who opens them.
var storeSchemes = map[string]func(ctx context.Context, f *storeFlag) (snowflake.LeaseStore, func() error, error){
	"dir":        openDir,
	"sqlite":     openSQL,
	"postgres":   openSQL,
	"postgresql": openSQL,
	"mysql":      openSQL,
}

// given says whether there is an address.
func (f *storeFlag) given() bool {
	if f.address == "" {
		f.address = os.Getenv(storeVariable)
	}
	return f.address != ""
}

// open opens the store. The function that it returns closes it.
func (f *storeFlag) open(ctx context.Context) (snowflake.LeaseStore, func() error, error) {
	if !f.given() {
		return nil, nil, usage("--store is missing, such as dir:leases")
	}
	scheme, _, _ := strings.Cut(f.address, ":")
	open, ok := storeSchemes[scheme]
	if !ok {
		return nil, nil, usage("--store must begin with dir:, sqlite:, postgres:, mysql:, and not with %.20q", scheme+":")
	}
	store, closer, err := open(ctx, f)
	if err != nil {
		return nil, nil, fmt.Errorf("--store: %w", err)
	}
	return store, closer, nil
}

func openDir(_ context.Context, f *storeFlag) (snowflake.LeaseStore, func() error, error) {
	path := strings.TrimPrefix(f.address, "dir:")
	if _, err := os.Stat(path); err != nil { // it is made by those who use it, not by who looks
		return nil, nil, err
	}
	store, err := snowflake.DirStore(path)
	return store, func() error { return nil }, err
}

// openSQL opens a store in the database that an address names.
func openSQL(ctx context.Context, f *storeFlag) (snowflake.LeaseStore, func() error, error) {
	address, prefix, _ := strings.Cut(f.address, "#")
	// What sqlstore asks of a database in a file.
	db, dialect, err := openDatabase(address, "_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, nil, err
	}
	store, err := sqlstore.Open(ctx, db, dialect, sqlstore.Options{Prefix: prefix, MayForget: f.mayForget})
	if err != nil {
		_ = db.Close()
		return nil, nil, err
	}
	return store, db.Close, nil
}

// openDatabase opens sqlite:PATH, postgres://... or mysql://..., without a word to it yet.
// Errors do not tell the password.
func openDatabase(address, sqliteOptions string) (*sql.DB, sqlstore.Dialect, error) {
	scheme, rest, _ := strings.Cut(address, ":")
	switch scheme {
	case "sqlite":
		db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: rest}).EscapedPath()+"?"+sqliteOptions)
		return db, sqlstore.SQLite, err
	case "postgres", "postgresql":
		db, err := sql.Open("pgx", address)
		return db, sqlstore.Postgres, err
	case "mysql":
		dsn, err := mysqlAddress(address)
		if err != nil {
			return nil, 0, err
		}
		db, err := sql.Open("mysql", dsn)
		return db, sqlstore.MySQL, err
	}
	return nil, 0, usage("a database must begin with sqlite:, postgres: or mysql:, and not with %.20q", scheme+":")
}

// mysqlAddress turns mysql://user:password@host:port/database into what the driver wants.
func mysqlAddress(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", errors.Unwrap(err)
	}
	cfg := mysql.NewConfig()
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.Net, cfg.Addr, cfg.DBName = "tcp", u.Host, strings.TrimPrefix(u.Path, "/")
	if socket := u.Query().Get("socket"); socket != "" {
		cfg.Net, cfg.Addr = "unix", socket
	} else if u.Port() == "" {
		cfg.Addr = net.JoinHostPort(u.Hostname(), "3306")
	}
	cfg.ParseTime = true
	return cfg.FormatDSN(), nil
}
