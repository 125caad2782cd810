package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/snowfence/snowflake"
)

// planFlags are the needs, as people give them.
type planFlags struct {
	needs  snowflake.Needs
	years  float64
	epoch  timeFlag
	after  layoutFlag
	at     timeFlag
	lastID string
}

func (t *tool) planCommand() *cobra.Command {
	var p planFlags
	c := &cobra.Command{
		Use:   "plan",
		Short: "Derive a layout from what it must hold, or the way from one layout to another",
		Long: `Derive a layout from what it must hold: years, regions, workers of a region, and IDs
that one worker must be able to make in a tick. What is left over goes to the years.

With --after it is the next layout of a column that has IDs: the epoch is chosen so
that every new ID is greater than every old one, and the steps are printed.

Exit status 4: the needs do not fit.`,
		Example: `  snowflake plan --years 60 --regions 4 --workers 200 --burst 3000
  snowflake plan --regions 5 --years 30 --after default --at 2028-01-01
  snowflake plan --after bwmarrin --last-id "$(psql -Atc 'SELECT max(id) FROM orders')" --at now+1h`,
		Args: exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := p.checkNeeds(); err != nil {
				return err
			}
			p.needs.Epoch, p.needs.Lifetime = p.epoch.Time, time.Duration(p.years*year)
			switch {
			case len(p.after.formats) > 0 && p.at.IsZero():
				return usage("--after needs --at, the time at which the new layout starts")
			case len(p.after.formats) > 0 && !p.epoch.IsZero():
				return usage("--epoch is computed with --after")
			case len(p.after.formats) > 0:
				return t.planAfter(p, c.Flags().Changed("years"))
			case !p.at.IsZero() || p.lastID != "":
				return usage("--at and --last-id need --after, the layout of the IDs that exist")
			}
			layout, err := snowflake.PlanLayout(p.needs)
			if err != nil {
				return doesNotFit(err)
			}
			if t.json {
				return t.printJSON(planned(layout, time.Time{}))
			}
			t.printf("%s\n%s", drawing(layout), p.describe(layout, layout.Epoch))
			return nil
		},
	}
	flags := c.Flags()
	flags.Float64Var(&p.years, "years", 60, "how long IDs must be made, in years of 365.25 days")
	flags.IntVar(&p.needs.Regions, "regions", 4, "regions, each with a lease store of its own")
	flags.IntVar(&p.needs.WorkersPerRegion, "workers", 200, "workers of the largest region")
	flags.IntVar(&p.needs.SpareCodes, "spare", 0, "further codes of a region: surge of rollouts, and crashes within one TTL")
	flags.IntVar(&p.needs.BurstPerTick, "burst", 3000, "most IDs that the hottest worker makes in one tick")
	flags.DurationVar(&p.needs.Tick, "tick", time.Millisecond, "the unit of time, up to 1s")
	flags.Var(&p.epoch, "epoch", "start of time, the same for ever (default 2026-01-01)")
	addLayout(c, &p.after, "after", "the layout of the IDs that exist")
	flags.Var(&p.at, "at", "with --after, when the new layout starts: "+timeHelp)
	flags.StringVar(&p.lastID, "last-id", "", "with --after, the highest ID that exists: --at must be later than its time")
	return c
}

// checkNeeds tells what makes no sense from what does not fit.
func (p *planFlags) checkNeeds() error {
	if !(p.years > 0 && p.years*year <= 1<<63-1) { // nor if it is no number
		return usage("--years is %v, must be above 0 and at most 292", p.years)
	}
	for _, flag := range []struct {
		name         string
		value, least int
	}{
		{"regions", p.needs.Regions, 1}, {"workers", p.needs.WorkersPerRegion, 1},
		{"spare", p.needs.SpareCodes, 0}, {"burst", p.needs.BurstPerTick, 1},
	} {
		if flag.value < flag.least {
			return usage("--%s is %d, must be at least %d", flag.name, flag.value, flag.least)
		}
	}
	if p.needs.Tick <= 0 || p.needs.Tick > time.Second {
		return usage("--tick is %v, must be above 0 and at most 1s", p.needs.Tick)
	}
	return nil
}

// doesNotFit sets the clauses of an error of PlanLayout on lines of their own.
func doesNotFit(err error) error {
	text := strings.TrimPrefix(err.Error(), "snowflake: plan: ")
	return &exit{exitFound, fmt.Errorf("the needs do not fit:\n  %s", strings.ReplaceAll(text, "; ", "\n  "))}
}

// bits are the fields of a layout, from the highest on.
func bits(l snowflake.Layout) []struct {
	name  string
	width int
} {
	return []struct {
		name  string
		width int
	}{{"0", 1}, {"time", l.TimeBits}, {regionName, l.RegionBits}, {"worker", l.WorkerBits}, {"sequence", l.SequenceBits}}
}

// drawing shows the 64 bits of a layout, a character each, with the name of each field, as
// far as it has room, above its width.
func drawing(l snowflake.Layout) string {
	var edge, names, widths strings.Builder
	for _, field := range bits(l) {
		if field.width == 0 {
			continue
		}
		edge.WriteString("+" + strings.Repeat("-", field.width))
		names.WriteString("|" + centred(field.name, field.width))
		width := strconv.Itoa(field.width)
		if field.name == "0" {
			width = "" // the sign
		}
		widths.WriteString("|" + centred(width, field.width))
	}
	edge.WriteString("+\n")
	return edge.String() + names.String() + "|\n" + widths.String() + "|\n" + edge.String()
}

func centred(text string, width int) string {
	if len(text) > width {
		text = text[:1]
	}
	left := (width - len(text)) / 2
	return strings.Repeat(" ", left) + text + strings.Repeat(" ", width-len(text)-left)
}

// plan is what --json writes of a layout.
type plan struct {
	Layout       string `json:"layout"`
	Epoch        string `json:"epoch"`
	Tick         string `json:"tick"`
	Start        string `json:"start,omitempty"`
	End          string `json:"end"`
	TimeBits     int    `json:"time_bits"`
	RegionBits   int    `json:"region_bits"`
	WorkerBits   int    `json:"worker_bits"`
	SequenceBits int    `json:"sequence_bits"`
	Regions      int    `json:"regions"`
	Workers      int    `json:"workers_per_region"`
	Burst        int    `json:"burst_per_tick"`
}

func planned(l snowflake.Layout, start time.Time) plan {
	p := plan{
		Layout: l.String(), Epoch: stamp(l.Epoch), Tick: l.Tick.String(), End: stamp(l.End()),
		TimeBits: l.TimeBits, RegionBits: l.RegionBits, WorkerBits: l.WorkerBits, SequenceBits: l.SequenceBits,
		Regions: 1 << l.RegionBits, Workers: 1 << l.WorkerBits, Burst: 1 << l.SequenceBits,
	}
	if !start.IsZero() {
		p.Start = stamp(start)
	}
	return p
}

// lastDay is when a count of nanoseconds in 64 bits ends, about: see snowflake.Layout.End.
var lastDay = time.Date(2262, time.January, 1, 0, 0, 0, 0, time.UTC)

// describe tells what fits, beside what was asked for.
func (p *planFlags) describe(l snowflake.Layout, from time.Time) string {
	var text strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&text, "%-9s %s\n", name, fmt.Sprintf(format, args...))
	}
	workers, spare := 1<<l.WorkerBits, 1<<l.WorkerBits-p.needs.WorkersPerRegion
	burst := 1 << l.SequenceBits
	line("layout", "%s", bold(l.String()))
	end, why := l.End(), ""
	if end.After(lastDay) {
		end, why = lastDay, ", when every generator stops"
	}
	line("time", "%d bits of %v: %s from %s, until %s%s", l.TimeBits, l.Tick, years(from, end), from.Format(time.DateOnly), end.Format(time.DateOnly), why)
	line("regions", "%d bits: %d, of which %d are needed", l.RegionBits, 1<<l.RegionBits, p.needs.Regions)
	line("workers", "%d bits: %d in a region, %d needed; %d more may start in a rollout, or crash within one TTL", l.WorkerBits, workers, p.needs.WorkersPerRegion, spare)
	line("sequence", "%d bits: %s in a tick from one worker, %s needed; %s a second",
		l.SequenceBits, thousands(burst), thousands(p.needs.BurstPerTick), thousands(int64(float64(burst)/l.Tick.Seconds())))
	return text.String()
}
