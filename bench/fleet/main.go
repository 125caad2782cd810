// Command fleet runs a whole fleet for real: regions of workers, a process for each region
// and a generator with a lease in etcd for each worker, that together mint as many IDs as
// they are asked for, in bursts, and checks every one of them for repeats:
//
//	go -C bench/fleet run .                        # 4 x 200 workers, 2,000,000 IDs/s, a minute
//	go -C bench/fleet run . -duration 5s -workers 20
//
// Workers take turns: each asks for 3,000 IDs within one millisecond, and then waits for its
// next turn. Nothing is sampled: every call is timed, and every ID is checked.
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
	"time"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/internal/etcdserver"
)

// Plan is what the fleet is to do. Every region does the same.
type Plan struct {
	Regions, Workers int // Workers of each region
	Rate             int // IDs a second, of all together
	Burst            int // IDs that a worker asks for in its turn
	Duration         time.Duration
}

func main() {
	etcdserver.Main() // the server and
	regionMain()      // the regions are this program, executed anew
	log.SetFlags(0)
	log.SetPrefix("fleet: ")
	var p Plan
	flag.IntVar(&p.Regions, "regions", 4, "how many `regions`, a process each")
	flag.IntVar(&p.Workers, "workers", 200, "how many `workers` each region has, with a lease and a generator each")
	flag.IntVar(&p.Rate, "rate", 2_000_000, "`IDs` a second, of all together")
	flag.IntVar(&p.Burst, "burst", 3000, "how many `IDs` a worker asks for in one millisecond")
	flag.DurationVar(&p.Duration, "duration", time.Minute, "how `long`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, p)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func (p Plan) check() error {
	layout := snowflake.DefaultLayout()
	for _, field := range []struct {
		name              string
		value, least, max int
	}{
		{"regions", p.Regions, 1, 1 << layout.RegionBits},
		{"workers", p.Workers, 1, 1 << layout.WorkerBits},
		{"burst", p.Burst, 1, 1 << layout.SequenceBits},
		{"rate", p.Rate, 1, 1e9},
	} {
		if field.value < field.least || field.value > field.max {
			return fmt.Errorf("-%s is %d, must be %d to %d", field.name, field.value, field.least, field.max)
		}
	}
	if p.turns() < 1 {
		return fmt.Errorf("-duration is %v, must be at least %v: a turn of each region", p.Duration, p.every())
	}
	return nil
}

// every is how often a region has a turn.
func (p Plan) every() time.Duration {
	return time.Duration(float64(p.Burst*p.Regions) / float64(p.Rate) * float64(time.Second))
}

// turns is how many turns each region has.
func (p Plan) turns() int { return int(p.Duration / p.every()) }

// asked is how many IDs are asked for in all.
func (p Plan) asked() int { return p.turns() * p.Regions * p.Burst }

var (
	errRepeats = errors.New("IDs repeat")
	errRefused = errors.New("calls were refused")
	errMissing = errors.New("IDs are missing")
)

// run starts a store and the regions, has them mint, and prints what came of it.
func run(ctx context.Context, out io.Writer, p Plan) (err error) {
	if err := p.check(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "snowflake-fleet-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is the system's folder for such things
	cluster, err := etcdserver.Start(ctx, 1, dir)
	if err != nil {
		return err
	}
	defer cluster.Stop()

	fleet, err := startFleet(ctx, p, cluster.Endpoints())
	if err != nil {
		return err
	}
	results, ledger, err := fleet.mint()
	if err != nil {
		return err
	}
	cluster.Stop() // its CPU can be told then
	total := tell(out, p, results, ledger, fleet.started)
	repeated := ledger.repeats()
	_, _ = fmt.Fprintf(out, "\nchecked %s IDs, in %s runs: repeats %d\n", group(ledger.count()), group(len(ledger.runs)), repeated)
	switch {
	case repeated > 0:
		return errRepeats
	case total.Refused > 0:
		return fmt.Errorf("%w: %d, the first with: %s", errRefused, total.Refused, total.Error)
	case ledger.count() != p.asked():
		return fmt.Errorf("%w: %d of %d were minted", errMissing, ledger.count(), p.asked())
	}
	return nil
}
