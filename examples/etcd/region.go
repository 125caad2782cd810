package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/stores/etcdstore"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

const (
	services = 3    // of a region; each has its own lease and generator
	batch    = 1000 // IDs that each mints at a time

	// So short that a grant runs out while you watch. A service leaves both at their
	// defaults, 2 min and 20 s, and rides out an outage of 90 s.
	ttl   = 5 * time.Second
	renew = time.Second
)

// region is what one region of a company has: services, a number, and a prefix.
type region struct {
	name       string
	number     int
	prefix     string
	wire       wire
	client     *clientv3.Client
	generators []*snowflake.Generator
}

// open starts the services of a region.
func open(ctx context.Context, number int, name string, servers []string) (r *region, err error) {
	r = &region{name: name, number: number, prefix: "snowflake-example/" + name}
	r.client, err = clientv3.New(clientv3.Config{
		Endpoints: servers, Logger: zap.NewNop(), DialOptions: []grpc.DialOption{grpc.WithContextDialer(r.wire.dial)},
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	store, err := etcdstore.New(r.client, r.prefix)
	if err != nil {
		return nil, err
	}
	for i := range services {
		lease, err := snowflake.AcquireLease(ctx, store, snowflake.LeaseConfig{
			Region: number, Owner: fmt.Sprintf("%s/service-%d", name, i), TTL: ttl, Renew: renew,
		})
		if err != nil {
			return nil, err
		}
		generator, err := snowflake.New(ctx, snowflake.Config{Lease: lease})
		if err != nil {
			return nil, errors.Join(err, lease.Close(ctx))
		}
		r.generators = append(r.generators, generator)
	}
	return r, nil
}

// close gives the codes back.
func (r *region) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var all error
	for _, g := range r.generators {
		all = errors.Join(all, g.Close(ctx))
	}
	return errors.Join(all, r.client.Close())
}

func (r *region) workers() string {
	var codes []string
	for _, g := range r.generators {
		codes = append(codes, strconv.Itoa(g.Stats().Code&(1<<g.Layout().WorkerBits-1)))
	}
	return strings.Join(codes, ", ")
}

// minted is what the services of a region have minted, and the first error that one has met.
type minted struct {
	region *region
	ids    []snowflake.ID
	err    error
}

// mintAll has every service of every region mint a batch, all at once.
func mintAll(regions []*region) []minted {
	all := make([]minted, len(regions))
	var mu sync.Mutex
	var group sync.WaitGroup
	for i, r := range regions {
		all[i].region = r
		for _, g := range r.generators {
			group.Go(func() {
				var ids []snowflake.ID
				var err error
				for len(ids) < batch && err == nil {
					var id snowflake.ID
					if id, err = g.Next(); err == nil {
						ids = append(ids, id)
					}
				}
				mu.Lock()
				defer mu.Unlock()
				all[i].ids = append(all[i].ids, ids...)
				all[i].err = cmp.Or(all[i].err, err)
			})
		}
	}
	group.Wait()
	return all
}

// wire is the network between a region and its etcd.
type wire struct {
	mu    sync.Mutex
	isCut bool
	conns []net.Conn
}

func (w *wire) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && w.isCut {
		return nil, errors.Join(errors.New("the wire is cut"), conn.Close())
	}
	if err == nil {
		w.conns = append(w.conns, conn)
	}
	return conn, err
}

// cut cuts the wire, or mends it.
func (w *wire) cut(isCut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = isCut
	for _, conn := range w.conns {
		_ = conn.Close()
	}
	w.conns = nil
}
