// Postgres is a service in small whose tables have bigint primary keys, made by the
// service itself, while its worker codes are leased from the same database.
//
//	go run ./examples/postgres                      # with a PostgreSQL of its own
//	go run ./examples/postgres -dsn postgres://...  # in yours, in tables named example_...
//
// What a service would copy is in service.go. Here three of them, as three processes would
// be, store orders in one database; in between one is replaced, as a rollout does. The run
// fails if an order or item is missing.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/internal/servers"
)

const services = 3

func main() {
	log.SetFlags(0)
	dsn := flag.String("dsn", "", "address of a PostgreSQL database; none: start a private server")
	orders := flag.Int("orders", 600, "how many orders to store")
	region := flag.Int("region", 0, "number of the region")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *dsn, *region, *orders)
	stop()
	if err != nil {
		log.Fatalf("postgres: %v", err)
	}
}

func run(ctx context.Context, dsn string, region, orders int) (err error) {
	if dsn == "" {
		fmt.Println("starting a private PostgreSQL ... (some seconds)")
		server, err := servers.Postgres()
		if err != nil {
			return howToGoOn(err)
		}
		defer server.Stop()
		dsn = server.DSN()
	}
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return err
	}
	shop := &shop{db: db, region: region, batch: time.Now().UTC().Format("2006-01-02T15:04:05.000000000")}
	defer func() { err = errors.Join(err, shop.close()) }()
	for range services {
		if err := shop.open(ctx); err != nil {
			return err
		}
	}
	if err := shop.sell(ctx, 0, orders/2); err != nil {
		return err
	}
	if err := shop.replaceOldest(ctx); err != nil {
		return err
	}
	if err := shop.sell(ctx, orders/2, orders); err != nil {
		return err
	}
	return shop.report(ctx, orders)
}

func howToGoOn(err error) error {
	if missing := (*servers.MissingError)(nil); errors.As(err, &missing) {
		return fmt.Errorf("%w: install it, or give the address of a server with -dsn", err)
	}
	return err
}

// shop is the fleet of services.
type shop struct {
	db       *sql.DB
	region   int
	batch    string // makes the references of this run its own
	services []*service
	opened   int
}

func (s *shop) open(ctx context.Context) error {
	s.opened++
	one, err := openService(ctx, s.db, s.region, fmt.Sprintf("example %d, service %d", os.Getpid(), s.opened))
	if err == nil {
		s.services = append(s.services, one)
	}
	return err
}

// replaceOldest starts a service and then ends one, which gives its code back.
func (s *shop) replaceOldest(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	oldest := s.services[0]
	s.services = s.services[1:]
	return oldest.close(ctx)
}

// close works when the run's context has ended, too.
func (s *shop) close() (err error) {
	for _, one := range s.services {
		err = errors.Join(err, one.close(context.Background()))
	}
	return err
}

const articles = 3 // of an order

// sell has the services place orders first to last-1, side by side.
func (s *shop) sell(ctx context.Context, first, last int) error {
	failed := make([]error, len(s.services))
	var group sync.WaitGroup
	for i, one := range s.services {
		group.Go(func() {
			for number := first + i; number < last && failed[i] == nil; number += len(s.services) {
				o := order{reference: fmt.Sprintf("%s/%d", s.batch, number), articles: []string{"pen", "ink", "paper"}[:articles]}
				failed[i] = patiently(ctx, func() error {
					_, err := one.place(ctx, o)
					return err
				})
			}
		})
	}
	group.Wait()
	return errors.Join(failed...)
}

// patiently tries again what passes by itself, for as long as a caller would wait. A server
// would answer 503 meanwhile, and its probe, ready, take it out.
func patiently(ctx context.Context, try func() error) error {
	for deadline := time.Now().Add(time.Minute); ; {
		err := try()
		if !snowflake.Retryable(err) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// report shows what the database holds, and fails if something is missing.
func (s *shop) report(ctx context.Context, orders int) error {
	var stored, items int
	var oldest, newest snowflake.ID
	if err := s.db.QueryRowContext(ctx, `
		SELECT count(DISTINCT o.id), count(DISTINCT i.id), min(o.id), max(i.id)
		FROM example_order o JOIN example_item i ON i.order_id = o.id WHERE o.reference LIKE $1 || '/%'`, s.batch).
		Scan(&stored, &items, &oldest, &newest); err != nil {
		return err
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	line("orders\t%d\tof %d", stored, orders)
	line("items\t%d\tof %d", items, orders*articles)
	for i, id := range []snowflake.ID{oldest, newest} {
		parts, err := s.services[0].gen.Layout().Unpack(id)
		if err != nil {
			return err
		}
		line("%s key\t%d\tmade at %s by worker %d of region %d", []string{"oldest", "newest"}[i], id, parts.Time.Format("2006-01-02T15:04:05.000Z"), parts.Worker, parts.Region)
	}
	if err := s.reportLeases(ctx, line); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	for _, one := range s.services {
		if err := one.ready(); err != nil {
			return err
		}
		if n := one.gen.Stats().Duplicates; n > 0 {
			return fmt.Errorf("%d keys were there already", n)
		}
	}
	if stored != orders || items != orders*articles {
		return errors.New("something is missing")
	}
	fmt.Println("\nno key repeats, nothing is missing")
	return nil
}

// reportLeases shows what an operator sees.
func (s *shop) reportLeases(ctx context.Context, line func(format string, args ...any)) error {
	rows, err := s.db.QueryContext(ctx, "SELECT worker, owner, ceiling, released FROM "+leasePrefix+"lease WHERE worker >= 0 AND region = $1 ORDER BY ceiling DESC LIMIT 10", s.region)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	line("\nworker\tleased by\tuntil\treleased")
	for rows.Next() {
		var worker int
		var owner, until string
		var released bool
		if err := rows.Scan(&worker, &owner, &until, &released); err != nil {
			return err
		}
		line("%d\t%s\t%s\t%t", worker, owner, until, released)
	}
	return rows.Err()
}
