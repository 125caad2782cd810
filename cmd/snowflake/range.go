package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/snowfence/snowflake"
)

func (t *tool) rangeCommand() *cobra.Command {
	layout := defaultLayout()
	var name string
	c := &cobra.Command{
		Use:   "range FROM UNTIL",
		Short: "Turn a span of time into bounds of IDs, as SQL",
		Long: `Turn a span of time, from FROM up to but not including UNTIL, into a condition on the
primary key. Times are ` + timeHelp + `.

The bounds are by the clocks of the machines that made the IDs. Times before the layout's
epoch and after its end may be given: there are no IDs. In JSON min or below is left out where
no 64-bit integer is above all IDs before the time.`,
		Example: `  snowflake range 2026-03-14 2026-03-15
  psql -c "SELECT count(*) FROM orders WHERE $(snowflake range --column orders.id now-1h now)"`,
		Args: exactly(2),
		RunE: func(_ *cobra.Command, args []string) error {
			var bounds [2]bound
			var times [2]time.Time
			for i, text := range args {
				at, err := parseTime(text)
				if err != nil {
					return &exit{exitUsage, err}
				}
				times[i] = at
				if bounds[i], err = boundAt(layout.formats, at); err != nil {
					return err
				}
			}
			if times[1].Before(times[0]) {
				return usage("UNTIL %s is before FROM %s", args[1], args[0])
			}
			if t.json {
				return t.printJSON(struct {
					From  string        `json:"from"`
					Until string        `json:"until"`
					Min   *snowflake.ID `json:"min,omitempty"`
					Below *snowflake.ID `json:"below,omitempty"`
				}{tickStamp(times[0], layout.last()), tickStamp(times[1], layout.last()), bounds[0].id(), bounds[1].id()})
			}
			_, err := fmt.Fprintf(t.out, "%s AND %s\n", bounds[0].sql(name+" >= ", name+" > "), bounds[1].sql(name+" < ", name+" <= "))
			return err
		},
	}
	addLayout(c, &layout, "layout", "the layout of the IDs")
	c.Flags().StringVar(&name, "column", "id", "the name of the column")
	return c
}

// bound is the lowest number that an ID of some time or later can have: none if every
// number is below it.
type bound struct {
	lowest snowflake.ID
	none   bool
}

// boundAt returns the first number of the first tick that begins at the time or later: the
// ticks before it begin earlier, and so do their IDs.
func boundAt(formats snowflake.Formats, at time.Time) (bound, error) {
	lowest, err := formats.MinID(at)
	switch {
	case errors.Is(err, snowflake.ErrBeforeEpoch):
		return bound{}, nil
	case errors.Is(err, snowflake.ErrTimeOverflow):
		return bound{none: true}, nil
	case err != nil:
		return bound{}, err
	}
	if parts, err := formats.Unpack(max(lowest, 1)); err == nil && parts.Time.Before(at) {
		last, err := formats.MaxID(at)
		if err != nil || last == math.MaxInt64 {
			return bound{none: true}, err
		}
		lowest = last + 1
	}
	return bound{lowest: lowest}, nil
}

// sql compares with the bound, or with the greatest number.
func (b bound) sql(lowest, greatest string) string {
	if b.none {
		return greatest + strconv.FormatInt(math.MaxInt64, 10)
	}
	return lowest + strconv.FormatInt(int64(b.lowest), 10)
}

func (b bound) id() *snowflake.ID {
	if b.none {
		return nil
	}
	return &b.lowest
}
