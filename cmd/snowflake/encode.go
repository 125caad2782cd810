package main

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/snowfence/snowflake"
)

func (t *tool) encodeCommand() *cobra.Command {
	layout := defaultLayout()
	var in input
	var to encodingFlag
	var at timeFlag
	var parts snowflake.Parts
	var uuid bool
	c := &cobra.Command{
		Use:   "encode [ID ... | -]",
		Short: "Write IDs in another base or as UUIDs, or make one from its fields",
		Long: `Write IDs in another base, or as UUIDs of version 7; or make the ID of a time, a
region, a worker and a sequence number.

A UUID holds the time of the ID, in milliseconds, and then all bits of the ID: an ID
has one, other IDs have others, and they sort as the IDs do. It hides nothing.`,
		Example: `  snowflake encode --to base62 26091926323200001
  snowflake encode --time 2026-03-14T00:00:00Z --region 2 --worker 17 --sequence 1
  snowflake encode --json --uuid7 - < ids.txt`,
		RunE: func(c *cobra.Command, args []string) error {
			write := func(id snowflake.ID) (string, error) {
				if uuid {
					return uuid7(layout.formats, id)
				}
				return to.Encode(id), nil
			}
			out := t.newTable(column("id"), column("text"))
			if !t.json {
				out.write = func(values []string) error {
					_, err := fmt.Fprintln(t.out, values[1])
					return err
				}
			}
			add := func(id snowflake.ID) error {
				text, err := write(id)
				if err == nil {
					out.add(id.String(), text)
				}
				return err
			}
			if !at.IsZero() {
				if len(args) > 0 {
					return usage("--time makes an ID, and there are IDs as arguments")
				}
				parts.Time = at.Time
				id, err := layout.pack(parts)
				if err == nil {
					err = add(id)
				}
				if err != nil {
					return err
				}
				return out.flush()
			}
			for _, name := range []string{regionName, "worker", "sequence"} {
				if c.Flags().Changed(name) {
					return usage("--%s needs --time", name)
				}
			}
			if err := in.take(c, t, args); err != nil {
				return err
			}
			err := in.each(c.Context(), t, t.in, func(id snowflake.ID, _ row) error { return add(id) })
			return in.end(err, out)
		},
	}
	addLayout(c, &layout, "layout", "the layout of the IDs")
	in.addFlags(c)
	flags := c.Flags()
	flags.Var(&to, "to", "the base to write: decimal, hex, base32, base58, base62")
	complete(c, "to", encodingNames()...)
	flags.BoolVar(&uuid, "uuid7", false, "write UUIDs of version 7")
	flags.Var(&at, "time", "make the ID of this time: "+timeHelp)
	flags.IntVar(&parts.Region, regionName, 0, "its region")
	flags.IntVar(&parts.Worker, "worker", 0, "its worker")
	flags.IntVar(&parts.Sequence, "sequence", 0, "its sequence number")
	c.MarkFlagsMutuallyExclusive("to", "uuid7")
	return c
}

// pack makes an ID in the format that its time belongs to.
func (f *layoutFlag) pack(p snowflake.Parts) (snowflake.ID, error) {
	least, err := f.formats.MinID(p.Time)
	if err != nil {
		return 0, err
	}
	format, err := f.formats.Of(max(least, 1))
	if err != nil {
		return 0, err
	}
	if format.WorkerLast {
		return 0, fmt.Errorf("the IDs of layout %s are read, not made", format.Layout)
	}
	return format.Layout.Pack(p)
}

// uuid7 returns a UUID of version 7 (RFC 9562): 48 bits of milliseconds, and the 63 bits
// of the ID in the 74 that are left to choose, the highest first.
func uuid7(formats snowflake.Formats, id snowflake.ID) (string, error) {
	parts, err := formats.Unpack(id)
	if err != nil {
		return "", err
	}
	const version, variant = 0x7, 0b10
	var u [16]byte
	binary.BigEndian.PutUint64(u[:8], uint64(parts.Time.UnixMilli())<<16|version<<12|uint64(id)>>51)
	binary.BigEndian.PutUint64(u[8:], variant<<62|uint64(id)<<13>>2)
	text := hex.EncodeToString(u[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:], nil
}
