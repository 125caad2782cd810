package main

import (
	"fmt"
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

The bounds are by the clocks of the machines that made the IDs.`,
		Example: `  snowflake range 2026-03-14 2026-03-15
  psql -c "SELECT count(*) FROM orders WHERE $(snowflake range --column orders.id now-1h now)"`,
		Args: exactly(2),
		RunE: func(_ *cobra.Command, args []string) error {
			var bounds [2]snowflake.ID
			var times [2]time.Time
			for i, text := range args {
				at, err := parseTime(text)
				if err != nil {
					return &exit{exitUsage, err}
				}
				times[i] = at
				// The first number of the first tick that begins at the time or later: the
				// ticks before it begin earlier, and so do their IDs.
				if bounds[i], err = layout.formats.MinID(at); err != nil {
					return err
				}
				if parts, err := layout.formats.Unpack(max(bounds[i], 1)); err == nil && parts.Time.Before(at) {
					if bounds[i], err = layout.formats.MaxID(at); err != nil {
						return err
					}
					bounds[i]++
				}
			}
			if times[1].Before(times[0]) {
				return usage("UNTIL %s is before FROM %s", args[1], args[0])
			}
			if t.json {
				return t.printJSON(struct {
					From  string       `json:"from"`
					Until string       `json:"until"`
					Min   snowflake.ID `json:"min"`
					Below snowflake.ID `json:"below"`
				}{stamp(times[0]), stamp(times[1]), bounds[0], bounds[1]})
			}
			_, err := fmt.Fprintf(t.out, "%[1]s >= %[2]d AND %[1]s < %[3]d\n", name, bounds[0], bounds[1])
			return err
		},
	}
	addLayout(c, &layout, "layout", "the layout of the IDs")
	c.Flags().StringVar(&name, "column", "id", "the name of the column")
	return c
}
