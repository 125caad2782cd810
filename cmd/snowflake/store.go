package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/stores/sqlstore"
)

const storeHelp = `Stores, by the address in --store:
  dir:PATH                            a folder of this machine
  sqlite:PATH                         an SQLite database of this machine
  postgres://USER@HOST/DATABASE       PostgreSQL, with the parameters of libpq
  mysql://USER@HOST/DATABASE          MySQL or MariaDB
  etcd://HOST:PORT,HOST:PORT/PREFIX   etcd (etcds: with TLS); the prefix is else snowflake
  redis://USER@HOST:PORT/DATABASE     Redis (rediss: with TLS)
A password follows USER after a colon. Tables and keys of Redis that do not begin with
snowflake_ and snowflake: begin with what is after #, as in sqlite:ids.db#ids2_. The
environment variable SNOWFLAKE_STORE keeps an address out of the list of processes.`

// storeFlag is --store: where the leases are.
type storeFlag struct {
	address   string
	mayForget bool
	mayMake   bool // a database in a file, if it is missing
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
	"etcd":       openEtcd,
	"etcds":      openEtcd,
	"redis":      openRedis,
	"rediss":     openRedis,
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
		return nil, nil, usage("--store must begin with dir:, sqlite:, postgres:, mysql:, etcd: or redis:%s", notWith(scheme))
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
	address, prefix, err := cutPrefix(f.address)
	if err != nil {
		return nil, nil, err
	}
	if path, ok := strings.CutPrefix(address, "sqlite:"); ok && !f.mayMake {
		if _, err := os.Stat(path); err != nil { // as for a folder
			return nil, nil, err
		}
	}
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

// cutPrefix takes the prefix from the end of an address.
func cutPrefix(whole string) (address, prefix string, err error) {
	address, prefix, _ = strings.Cut(whole, "#")
	if strings.ContainsAny(prefix, "@/:= ") { // of what comes before a host
		return "", "", usage("what is after # is no prefix: %s", escapes)
	}
	return address, prefix, nil
}
