package faults

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	_ "modernc.org/sqlite"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/stores/etcdstore"
	"github.com/snowfence/snowflake/stores/redisstore"
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
	Etcd       = "etcd"
	Redis      = "Redis"
)

const (
	dialTimeout = 2 * time.Second
	keepAlive   = time.Second
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
	case Etcd:
		return s.etcd()
	case Redis:
		return s.redis(ctx)
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

func (s Store) etcd() (snowflake.LeaseStore, func() error, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: strings.Split(s.Address, ","), DialTimeout: dialTimeout, Logger: zap.NewNop(),
		DialKeepAliveTime: keepAlive, DialKeepAliveTimeout: keepAlive,
	})
	if err != nil {
		return nil, nil, err
	}
	store, err := etcdstore.New(client, s.Prefix)
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	return store, client.Close, nil
}

func (s Store) redis(ctx context.Context) (snowflake.LeaseStore, func() error, error) {
	client := redis.NewClient(&redis.Options{Addr: s.Address, DialTimeout: dialTimeout, ContextTimeoutEnabled: true})
	store, err := redisstore.New(ctx, client, s.Prefix, redisstore.Options{MayForget: s.MayForget})
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	return store, client.Close, nil
}
