package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/snowfence/snowflake"
)

// planAfter plans the next format of a column, and prints the steps.
func (t *tool) planAfter(p planFlags, wantYears bool) error {
	old := p.after.formats[len(p.after.formats)-1]
	if p.lastID != "" {
		id, err := snowflake.ParseID(p.lastID)
		if err != nil {
			return &exit{exitUsage, fmt.Errorf("--last-id: %w", err)}
		}
		parts, err := old.Unpack(id)
		if err != nil {
			return &exit{exitUsage, fmt.Errorf("--last-id: %w", err)}
		}
		if !parts.Time.Before(p.at.Time) {
			return &exit{exitFound, fmt.Errorf("--at is %s, must be later than %s, the time of the highest ID: is its layout %s?",
				stamp(p.at.Time), stamp(parts.Time), old.Layout)}
		}
	}
	// The widths first: how long they last is known only with the epoch.
	needs := p.needs
	needs.Lifetime = needs.Tick
	widths, err := snowflake.PlanLayout(needs)
	if err != nil {
		return doesNotFit(err)
	}
	formats, err := p.after.formats.Append(widths, p.at.Time)
	if err != nil {
		return &exit{exitFound, err}
	}
	next := formats[len(formats)-1]
	left := next.Layout.End().Sub(next.Start())
	if wantYears && left < p.needs.Lifetime {
		return &exit{exitFound, fmt.Errorf(`the needs do not fit:
  %d+%d+%d bits leave %d for the time, which end on %s: %s from the start on, %v needed
  %s of the numbers are used up by then: a longer --tick (and --burst, which counts in a tick), fewer --regions, --workers or a lower --burst leave more`,
			widths.RegionBits, widths.WorkerBits, widths.SequenceBits, widths.TimeBits, next.Layout.End().Format(time.DateOnly), years(next.Start(), next.Layout.End()), p.years,
			percent(next.From))}
	}
	if t.json {
		return t.printJSON(struct {
			plan
			Formats snowflake.Formats `json:"formats"`
		}{planned(next.Layout, next.Start()), formats})
	}
	t.printf("%s\n%s\n%s", drawing(next.Layout), p.describe(next.Layout, next.Start()), steps(old, formats))
	return nil
}

func percent(id snowflake.ID) string { return fmt.Sprintf("%.1f %%", float64(id)/(1<<63)*100) }

// steps tells how to get from one format to the next. The order matters: readers first, and
// the old writers' end before the new ones' start.
func steps(old snowflake.Format, formats snowflake.Formats) string {
	next := formats[len(formats)-1]
	start := stamp(next.Start())
	lines := make([]string, len(formats))
	for i, format := range formats {
		line, _ := json.Marshal(format) // of numbers and text: it cannot fail
		lines[i] = string(line)
	}
	file := "     [" + strings.Join(lines, ",\n      ") + "]\n"

	var text strings.Builder
	step := 0
	add := func(format string, args ...any) {
		step++
		fmt.Fprintf(&text, "%3d  %s\n", step, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "\n     "))
	}
	fmt.Fprintf(&text, "Steps: the new layout starts at %s. IDs below %d are old, all others new.\n\n", start, next.From)
	add("Save this as formats.json. Everything that mints into the column, or reads times\nout of it, uses it: Formats in Go, --layout @formats.json here.")
	text.WriteString(file)
	add("Roll out readers that decode with it. Old IDs decode as before.")
	add("Give the new layout lease stores of its own: another folder, table prefix or key\nprefix for each region. A store is pinned to the layout that it began with.")
	if old.WorkerLast || old.Layout.RegionBits == 0 {
		add("The old writers have no ceiling that ends them. Stop them all, well before the\nstart. Then look at the highest ID: its time must be before the start, or plan\nagain with --last-id.\n  snowflake decode --layout NAME $(psql -Atc 'SELECT max(id) FROM TABLE')")
	} else {
		add("Roll out writers that hold a lease of the old store and one of the new, each on\nFormats.Lease: at the start the old end and the new begin, without a gap. They can\ntake leases of the new layout from its epoch on, %s.", stamp(next.Layout.Epoch))
		add("Before the start, look for writers that do not know it. If one may be left, take\nevery code of the old layout from everybody, for good: nothing is minted then until\nthe start, and \"highest\" must be before it.\n  snowflake leases list --store OLD --region N\n  snowflake leases fence --store OLD --region N --for-good --yes")
		add("After the start, fence the old stores in the same way: nobody uses them again.")
	}
	add("From the start on, look for repeats, and for codes that no lease explains.\n  snowflake audit --layout @formats.json --store NEW --db URL --table TABLE")
	return text.String()
}
