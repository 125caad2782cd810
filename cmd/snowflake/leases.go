package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/snowfence/snowflake"
)

func (t *tool) leasesCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "leases",
		Short: "Look after the worker codes of a region: list, watch, release, fence",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(t.listCommand(), t.watchCommand(), t.releaseCommand(), t.fenceCommand())
	return c
}

// regionFlags say whose records.
type regionFlags struct {
	store  storeFlag
	region int
}

func (f *regionFlags) addFlags(c *cobra.Command) {
	f.store.addFlags(c)
	c.Flags().IntVar(&f.region, regionName, 0, "the number of the region")
}

// run is a command with its store, which is closed in the end.
func (f *regionFlags) run(command func(c *cobra.Command, store snowflake.LeaseStore) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, _ []string) error {
		store, closer, err := f.store.open(c.Context())
		if err != nil {
			return err
		}
		defer func() { _ = closer() }()
		return command(c, store)
	}
}

// The states of a code.
const (
	held     = "held"     // by an owner, up to the ceiling
	reserved = "reserved" // given back or fenced, and free from the ceiling on
	expired  = "expired"  // free: the owner has gone without giving it back
	released = "released" // free: given back
)

func stateOf(r snowflake.Record, now time.Time) string {
	switch past := !now.Before(r.Ceiling); {
	case past && r.Released:
		return released
	case past:
		return expired
	case r.Released:
		return reserved
	}
	return held
}

const layoutWorker = -1

// codesOf returns the records of codes, and the layout that the region is pinned to; none
// if the region was never used.
func codesOf(records []snowflake.Record) (codes []snowflake.Record, layout *snowflake.Layout, err error) {
	for _, r := range records {
		if r.Worker != layoutWorker {
			codes = append(codes, r)
			continue
		}
		pinned, err := snowflake.ParseLayout(r.Layout)
		if err != nil {
			return nil, nil, err
		}
		layout = &pinned
	}
	return codes, layout, nil
}

var recordFields = []field{
	number(regionName), number("worker"), column("owner"), number("token"), number("version"), column("ceiling"),
	{name: "state", paint: paintState},
}

func paintState(state string) string {
	switch state {
	case held:
		return good(state)
	case expired:
		return bad(state)
	}
	return dim(state)
}

func recordValues(r snowflake.Record, state string) []string {
	return []string{
		strconv.Itoa(r.Region), strconv.Itoa(r.Worker), r.Owner, strconv.FormatUint(r.Token, 10), strconv.FormatUint(r.Version, 10),
		stamp(r.Ceiling), state,
	}
}

func (t *tool) listCommand() *cobra.Command {
	var f regionFlags
	var state string
	c := &cobra.Command{
		Use:   "list",
		Short: "List the records of a region",
		Long: `List the records of a region. A code is held up to its ceiling; reserved, if it was
given back or fenced and its ceiling is still to come; expired, if its owner has gone
without giving it back; or released. The last two are free, as are codes without a record.

` + storeHelp,
		Example: `  snowflake leases list --store dir:/var/lib/ids
  snowflake leases list --store postgres://ids@db/ids --region 2 --state expired --json`,
		Args: exactly(0),
		RunE: f.run(func(c *cobra.Command, store snowflake.LeaseStore) error {
			records, err := store.Records(c.Context(), f.region)
			if err != nil {
				return err
			}
			codes, layout, err := codesOf(records)
			if err != nil {
				return err
			}
			now := time.Now()
			out := t.newTable(recordFields...)
			for _, r := range codes {
				if s := stateOf(r, now); state == "" || s == state {
					out.add(recordValues(r, s)...)
				}
			}
			if err := out.flush(); err != nil || t.json {
				return err
			}
			if layout == nil {
				t.printf("region %d was never used\n", f.region)
				return nil
			}
			count := countStates(codes, *layout, now)
			t.printf("%d held, %d reserved, %d free of %d; layout %s\n", count[held], count[reserved], count[free], 1<<layout.WorkerBits, layout)
			return nil
		}),
	}
	f.addFlags(c)
	c.Flags().Var(&choice{value: &state, allowed: []string{held, reserved, expired, released}}, "state", "only these")
	complete(c, "state", held, reserved, expired, released)
	return c
}

// free is a code that the next worker can have at once.
const free = "free"

// countStates counts the codes of a region: held, reserved and free are all.
func countStates(codes []snowflake.Record, layout snowflake.Layout, now time.Time) map[string]int {
	count := map[string]int{held: 0, reserved: 0, free: 1 << layout.WorkerBits}
	for _, r := range codes {
		if s := stateOf(r, now); r.Worker < 1<<layout.WorkerBits && (s == held || s == reserved) {
			count[s]++
			count[free]--
		}
	}
	return count
}

func (t *tool) releaseCommand() *cobra.Command {
	var f regionFlags
	var workers []int
	c := &cobra.Command{
		Use:   "release",
		Short: "Take expired codes from owners that have gone",
		Long: `Take codes whose ceiling has passed from owners that have gone without giving them
back: all of the region, or those named. They are free in any case; now their old
owners cannot revive them either. A code that is held is refused: stop its owner.

` + storeHelp,
		Example: `  snowflake leases release --store dir:/var/lib/ids
  snowflake leases release --store postgres://ids@db/ids --region 2 --worker 17,18`,
		Args: exactly(0),
		RunE: f.run(func(c *cobra.Command, store snowflake.LeaseStore) error {
			done, err := snowflake.ReleaseExpired(c.Context(), store, f.region, workers...)
			out := t.newTable(recordFields...)
			for _, r := range done {
				out.add(recordValues(r, stateOf(r, time.Now()))...)
			}
			if err := errors.Join(err, out.flush()); err != nil || t.json {
				return err
			}
			t.printf("%s released\n", plural(len(done), "code"))
			return nil
		}),
	}
	f.addFlags(c)
	c.Flags().IntSliceVar(&workers, "worker", nil, "only these")
	return c
}

func (t *tool) fenceCommand() *cobra.Command {
	var f regionFlags
	var layout layoutFlag
	var until timeFlag
	var ttl time.Duration
	var forGood, yes bool
	c := &cobra.Command{
		Use:   "fence",
		Short: "After a restored backup: raise every ceiling of a region, replace every nonce",
		Long: `Raise every ceiling of a region, and replace every nonce, so that no code is used below
the new ceilings again, whatever its old records said. Run it after the store was
restored from a backup or has lost writes, before workers reach it. Every worker of
the region waits until then: a running one loses its code within its renewal interval.

Until is the workers' TTL, their clocks' skew (5 s) and a minute from now on, or what
--until says. With --for-good it is the end of the layout: the region is retired.

"highest" is the latest ceiling that was found. No ID made from these records is
later. If the fence fails, run it again: the rest is completed.

` + storeHelp,
		Example: `  snowflake leases fence --store postgres://ids@db/ids --region 2 --yes
  snowflake leases fence --store dir:/var/lib/ids --ttl 10m --yes
  snowflake leases fence --store dir:/var/lib/ids --for-good --yes`,
		Args: exactly(0),
		RunE: f.run(func(c *cobra.Command, store snowflake.LeaseStore) error {
			const skew = 5 * time.Second
			switch {
			case !yes:
				return usage("no code of region %d will be usable until the new ceilings: say --yes", f.region)
			case ttl <= 0:
				return usage("--ttl is %v, must be above 0", ttl)
			}
			fence := snowflake.Fence{Region: f.region, Until: until.Time, Owner: "fence"}
			if len(layout.formats) > 0 {
				fence.Layout = layout.last()
			}
			var err error
			switch {
			case forGood:
				if fence.Until, err = endOf(c, store, f.region, fence.Layout); err != nil {
					return err
				}
			default:
				now, err := timeOf(c.Context(), store)
				if err != nil {
					return err
				}
				now = now.Truncate(time.Millisecond)
				if until.IsZero() {
					fence.Until = now.Add(ttl + skew + time.Minute)
				} else if !fence.Until.After(now) {
					return usage("--until is %s, and it is %s: the new ceilings must be to come", stamp(fence.Until), stamp(now))
				}
			}
			done, err := snowflake.FenceLeases(c.Context(), store, fence)
			if t.json {
				highest := ""
				if !done.Highest.IsZero() {
					highest = stamp(done.Highest)
				}
				return errors.Join(err, t.printJSON(struct {
					Region  int    `json:"region"`
					Codes   int    `json:"codes"`
					Highest string `json:"highest,omitempty"`
					Until   string `json:"until"`
				}{f.region, done.Codes, highest, stamp(fence.Until)}))
			}
			if err != nil && done.Codes == 0 {
				return err
			}
			t.printf("%s of region %d fenced until %s\n", plural(done.Codes, "code"), f.region, stamp(fence.Until))
			if !done.Highest.IsZero() {
				t.printf("highest ceiling found: %s\n", stamp(done.Highest))
			}
			return err
		}),
	}
	f.addFlags(c)
	flags := c.Flags()
	addLayout(c, &layout, "layout", "of a region without any record, which it is then pinned to")
	flags.Var(&until, "until", "the new ceilings: "+timeHelp)
	flags.DurationVar(&ttl, "ttl", 2*time.Minute, "LeaseConfig.TTL of the workers")
	flags.BoolVar(&forGood, "for-good", false, "until the end of the layout")
	flags.BoolVar(&yes, "yes", false, "do it")
	c.MarkFlagsMutuallyExclusive("until", "for-good")
	return c
}

// timeOf returns the store's time, or the local clock's where the store tells none.
func timeOf(ctx context.Context, store snowflake.LeaseStore) (time.Time, error) {
	if clock, ok := store.(interface {
		Time(context.Context) (time.Time, error)
	}); ok {
		return clock.Time(ctx)
	}
	return time.Now(), nil
}

// endOf returns the end of the layout that a region is pinned to, or is to be.
func endOf(c *cobra.Command, store snowflake.LeaseStore, region int, layout snowflake.Layout) (time.Time, error) {
	if layout != (snowflake.Layout{}) {
		return layout.End(), nil
	}
	records, err := store.Records(c.Context(), region)
	if err != nil {
		return time.Time{}, err
	}
	if i := slices.IndexFunc(records, func(r snowflake.Record) bool { return r.Worker == layoutWorker }); i >= 0 {
		layout, err = snowflake.ParseLayout(records[i].Layout)
		return layout.End(), err
	}
	return time.Time{}, fmt.Errorf("region %d was never used, or its records are lost: give --layout", region)
}
