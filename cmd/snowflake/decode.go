package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/snowfence/snowflake"
)

func (t *tool) decodeCommand() *cobra.Command {
	layout := defaultLayout()
	var in input
	var format string
	c := &cobra.Command{
		Use:   "decode [ID ... | -]",
		Short: "Show the fields of IDs: time, region, worker, sequence",
		Long: `Show the fields of IDs. They come as arguments or, for "-" or none, from the standard
input: an ID a line, a column of CSV, or JSON. Any positive number decodes in any
layout: give the one that minted it.`,
		Example: `  snowflake decode 26091926323200001
  snowflake decode --json --layout discord 175928847299117063
  snowflake decode --layout @formats.json --base base62 01vV4zg0dzV
  snowflake decode --input csv --column order_id --format csv < orders.csv`,
		RunE: func(c *cobra.Command, args []string) error {
			if t.json {
				if c.Flags().Changed("format") && format != asJSON {
					return usage("--json is --format json, and --format is %s", format)
				}
				format = asJSON
			}
			if err := in.take(c, t, args); err != nil {
				return err
			}
			table := newTable(t.out, format, partFields)
			err := in.each(c.Context(), t, t.in, func(id snowflake.ID, _ row) error {
				format, err := layout.formats.Of(id)
				if err != nil {
					return err
				}
				parts, err := format.Unpack(id)
				if err != nil {
					return err
				}
				table.add(partValues(id, parts, format.Layout)...)
				if table.err != nil {
					return &stopError{table.err}
				}
				return nil
			})
			return in.end(err, table)
		},
	}
	addLayout(c, &layout, "layout", "the layout of the IDs")
	in.addFlags(c)
	c.Flags().Var(newChoice(&format, asTable, asTable, asJSON, asCSV), "format", "what is written; --json is --format json")
	complete(c, "format", asTable, asJSON, asCSV)
	return c
}

// partFields are fixed for scripts.
var partFields = []field{column("id"), column("time"), number(regionName), number("worker"), number("sequence")}

func partValues(id snowflake.ID, p snowflake.Parts, layout snowflake.Layout) []string {
	return []string{id.String(), tickStamp(p.Time, layout), strconv.Itoa(p.Region), strconv.Itoa(p.Worker), strconv.Itoa(p.Sequence)}
}
