package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/stores/etcdstore"
	"github.com/snowfence/snowflake/stores/redisstore"
)

const keyPrefix = "snowflake"

// openEtcd opens etcd://USER:PASSWORD@HOST:PORT,HOST:PORT/PREFIX, or etcds:// with TLS.
func openEtcd(_ context.Context, f *storeFlag) (snowflake.LeaseStore, func() error, error) {
	scheme, rest, _ := strings.Cut(f.address, "://")
	hosts, prefix, _ := strings.Cut(rest, "/")
	user, hosts, ok := strings.Cut(hosts, "@")
	if !ok {
		user, hosts = "", user
	}
	if strings.Contains(prefix, "@") {
		return nil, nil, usage("it is no address of etcd: %s", escapes)
	}
	name, password, _ := strings.Cut(user, ":")
	if hosts == "" {
		return nil, nil, usage("it must name hosts, as in etcd://etcd-0:2379,etcd-1:2379/snowflake")
	}
	cfg := clientv3.Config{
		Endpoints: strings.Split(hosts, ","), DialTimeout: 5 * time.Second,
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
		Logger: zap.NewNop(), // what matters is in the errors
	}
	var err error
	if cfg.Username, err = url.PathUnescape(name); err == nil {
		cfg.Password, err = url.PathUnescape(password)
	}
	if err != nil {
		return nil, nil, usage("it is no address of etcd: %s", escapes)
	}
	if scheme == "etcds" {
		cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	client, err := clientv3.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	store, err := etcdstore.New(client, cmp.Or(prefix, keyPrefix))
	if err != nil {
		_ = client.Close()
		return nil, nil, err
	}
	return store, client.Close, nil
}

// openRedis opens redis://USER:PASSWORD@HOST:PORT/DATABASE#PREFIX, or rediss:// with TLS.
func openRedis(ctx context.Context, f *storeFlag) (snowflake.LeaseStore, func() error, error) {
	address, prefix, err := cutPrefix(f.address)
	if err != nil {
		return nil, nil, err
	}
	options, err := redis.ParseURL(address)
	if err != nil {
		return nil, nil, usage("it is no address of Redis, such as redis://host:6379/0")
	}
	client := redis.NewClient(options)
	store, err := redisstore.New(ctx, client, cmp.Or(prefix, keyPrefix+":"), redisstore.Options{MayForget: f.mayForget})
	if err != nil {
		_ = client.Close()
		return nil, nil, err
	}
	return store, client.Close, nil
}
