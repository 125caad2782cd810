// Etcd shows four regions whose services lease their worker codes from etcd, each below a
// prefix of its own, and what becomes of them when one of the four can no longer reach its
// prefix. It starts a server of its own, for as long as it runs, unless -endpoints names
// those of a cluster.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/internal/etcdserver"
)

// The number of a region is its place here: part of every ID, and fixed for good.
var names = []string{"eu", "us", "asia", "africa"}

const unlucky = 2 // the region that is cut off

func main() {
	etcdserver.Main() // the server is this program, executed anew
	log.SetFlags(0)
	endpoints := flag.String("endpoints", "", "addresses of an etcd cluster, separated by commas; none: start a server")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	var servers []string
	if *endpoints != "" {
		servers = strings.Split(*endpoints, ",")
	}
	err := run(ctx, os.Stdout, servers)
	stop()
	if err != nil {
		log.Fatalf("etcd: %v", err)
	}
}

func run(ctx context.Context, out io.Writer, servers []string) (err error) {
	if len(servers) == 0 {
		dir, err := os.MkdirTemp("", "snowflake-etcd-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir) //nolint:errcheck // it is the system's folder for such things
		cluster, err := etcdserver.Start(ctx, 1, dir)
		if err != nil {
			return err
		}
		defer cluster.Stop()
		servers = cluster.Endpoints()
	}
	regions := make([]*region, len(names))
	for number, name := range names {
		if regions[number], err = open(ctx, number, name, servers); err != nil {
			return fmt.Errorf("region %s: %w", name, err)
		}
		defer func() { err = errors.Join(err, regions[number].close()) }()
	}
	s := story{out: out, regions: regions, seen: make(map[snowflake.ID]string)}
	return s.tell(ctx)
}

// story has all regions mint, in one situation after the other.
type story struct {
	out     io.Writer
	regions []*region
	seen    map[snowflake.ID]string // every ID, and the region that has it
	refused error
}

func (s *story) tell(ctx context.Context) error {
	if err := s.introduce(); err != nil {
		return err
	}
	s.line("")
	s.row("IDs minted", names...)
	cut := s.regions[unlucky]
	if err := s.mint("while all is well"); err != nil {
		return err
	}
	cut.wire.cut(true)
	if err := s.mint(cut.name + " is cut off, and has its grants"); err != nil {
		return err
	}
	if err := cut.await(ctx, func(health error) bool { return health != nil }); err != nil {
		return err
	}
	if err := s.mint(cut.name + " is cut off, and they have run out"); err != nil {
		return err
	}
	cut.wire.cut(false)
	if err := cut.await(ctx, func(health error) bool { return health == nil }); err != nil {
		return err
	}
	if err := s.mint(cut.name + " is back"); err != nil {
		return err
	}
	s.line("\n%d IDs, none of them twice", len(s.seen))
	if s.refused == nil {
		return fmt.Errorf("%s was cut off, and nobody noticed", cut.name)
	}
	s.line("%s was refused with: %v", cut.name, s.refused)
	s.line("which passes by itself: snowflake.Retryable says %t", snowflake.Retryable(s.refused))
	return nil
}

// introduce shows what each region has, and takes one of its IDs apart.
func (s *story) introduce() error {
	table := tabwriter.NewWriter(s.out, 0, 8, 3, ' ', 0)
	_, _ = fmt.Fprintln(table, "region\tkeys in etcd\tworker codes\tan ID\tminted at\tin region\tby worker")
	for _, r := range s.regions {
		id, err := r.generators[0].Next()
		if err != nil {
			return fmt.Errorf("region %s: %w", r.name, err)
		}
		s.seen[id] = r.name
		parts, err := r.generators[0].Layout().Unpack(id)
		if err != nil {
			return fmt.Errorf("region %s: %w", r.name, err)
		}
		_, _ = fmt.Fprintf(table, "%s\t%s/%d/…\t%s\t%d\t%s\t%d\t%d\n", r.name, r.prefix, r.number, r.workers(), id,
			parts.Time.Format("15:04:05.000"), parts.Region, parts.Worker)
	}
	return table.Flush()
}

// mint has all regions mint at once, and adds a line to the table. Only the region that is
// cut off may refuse.
func (s *story) mint(when string) error {
	var cells []string
	for _, b := range mintAll(s.regions) {
		switch {
		case errors.Is(b.err, snowflake.ErrLeaseLost) && b.region.number == unlucky && len(b.ids) == 0:
			s.refused = b.err
			cells = append(cells, "refused")
			continue
		case b.err != nil:
			return fmt.Errorf("region %s: %w", b.region.name, b.err)
		}
		for _, id := range b.ids {
			if other, twice := s.seen[id]; twice {
				return fmt.Errorf("%d was minted in %s and in %s", id, other, b.region.name)
			}
			s.seen[id] = b.region.name
		}
		cells = append(cells, strconv.Itoa(len(b.ids)))
	}
	s.row(when, cells...)
	return nil
}

// row writes a line of the second table, in columns that are known beforehand: so that it
// shows at once.
func (s *story) row(when string, cells ...string) {
	_, _ = fmt.Fprintf(s.out, "%-40s", when)
	for _, cell := range cells {
		_, _ = fmt.Fprintf(s.out, " %8s", cell)
	}
	s.line("")
}

func (s *story) line(format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, format+"\n", args...)
}

// await waits until all generators of the region are well, or none is.
func (r *region) await(ctx context.Context, is func(health error) bool) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, g := range r.generators {
		for !is(g.Health()) {
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
				return fmt.Errorf("region %s: %w", r.name, errors.Join(ctx.Err(), g.Health()))
			}
		}
	}
	return nil
}
