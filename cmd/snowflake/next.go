package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/snowfence/snowflake"
)

func (t *tool) nextCommand() *cobra.Command {
	layout := defaultLayout()
	var store storeFlag
	var to encodingFlag
	var n, region, code int
	var marks string
	var noMarks bool
	var patience time.Duration
	c := &cobra.Command{
		Use:   "next",
		Short: "Mint IDs, with a leased or a static code",
		Long: `Mint IDs, with a code leased from the store of the region, or with a static code and a
folder of marks, which remember how far it was used.

` + storeHelp,
		Example: `  snowflake next --store dir:/var/lib/ids --region 2
  snowflake next -n 1000 --to base62 --store postgres://ids@db/ids
  snowflake next --code 7 --marks /var/lib/ids/marks`,
		Args: exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			static := c.Flags().Changed("code")
			if t.json && c.Flags().Changed("to") {
				return usage("--to is for text: in JSON an id is decimal")
			}
			switch {
			case n < 1:
				return usage("-n is %d, must be at least 1", n)
			case static && store.address != "":
				return usage("--store leases a code, and --code names one: give one of them")
			case static && marks == "" && !noMarks:
				return usage("--code needs --marks DIR, or --no-marks: uniqueness over restarts is then your promise")
			case !static && (marks != "" || noMarks):
				return usage("marks are for --code; a lease needs none")
			}
			ctx, cancel := context.WithTimeout(c.Context(), patience)
			defer cancel()
			var lease snowflake.Lease
			cfg := snowflake.Config{Layout: layout.last()}
			if static {
				var err error
				if cfg.HighWater, err = highWater(marks); err != nil {
					return err
				}
				lease = snowflake.StaticLease(code)
			} else {
				store.mayMake = true
				leases, closer, err := store.open(ctx)
				if err != nil {
					return err
				}
				defer func() { _ = closer() }()
				held, err := snowflake.AcquireLease(ctx, leases, snowflake.LeaseConfig{Region: region, Layout: layout.last()})
				if err != nil {
					return err
				}
				defer func() { _ = held.Close(context.WithoutCancel(ctx)) }() // nothing, if the generator has
				lease = held
			}
			lease, err := layout.formats.Lease(lease)
			if err != nil {
				return err
			}
			cfg.Lease = lease
			gen, err := snowflake.New(ctx, cfg)
			if err != nil {
				return err
			}
			return errors.Join(t.mint(ctx, gen, n, to.Encoding), gen.Close(context.WithoutCancel(ctx)))
		},
	}
	addLayout(c, &layout, "layout", "the layout of the region")
	store.addFlags(c)
	flags := c.Flags()
	flags.IntVarP(&n, "count", "n", 1, "how many")
	flags.Var(&to, "to", "the base to write: decimal, hex, base32, base58, base62")
	complete(c, "to", encodingNames()...)
	flags.IntVar(&region, regionName, 0, "the number of the region")
	flags.IntVar(&code, "code", 0, "a static code: region and worker, joined")
	flags.StringVar(&marks, "marks", "", "the folder that remembers how far static codes were used")
	flags.BoolVar(&noMarks, "no-marks", false, "do without")
	flags.DurationVar(&patience, "timeout", time.Minute, "give up after so long")
	return c
}

// highWater returns the marks in a folder, or none for "".
func highWater(dir string) (snowflake.HighWaterStore, error) {
	if dir == "" {
		return snowflake.NoHighWater(), nil
	}
	return snowflake.FileHighWater(dir)
}

// mint prints IDs as they come, a few ticks' worth at a time.
func (t *tool) mint(ctx context.Context, gen *snowflake.Generator, n int, to snowflake.Encoding) error {
	out := t.newTable(partFields...)
	if !t.json {
		out.write = func(values []string) error {
			_, err := fmt.Fprintln(t.out, values[0])
			return err
		}
	}
	ids := make([]snowflake.ID, min(n, 4096))
	for left := n; left > 0 && out.err == nil; {
		filled, err := gen.Fill(ctx, ids[:min(left, len(ids))])
		left -= filled
		for _, id := range ids[:filled] {
			parts, err := gen.Layout().Unpack(id)
			if err != nil {
				return err
			}
			values := partValues(id, parts, gen.Layout())
			if !t.json {
				values[0] = to.Encode(id)
			}
			out.add(values...)
		}
		if err != nil {
			return errors.Join(err, out.flush())
		}
	}
	return out.flush()
}
