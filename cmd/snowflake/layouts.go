package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/snowfence/snowflake"
)

// preset is a layout that has a name.
type preset struct {
	name, about string
	format      snowflake.Format
}

// Where a format has 64 bits, its highest is zero for as long as its IDs are positive, and
// is left to the sign here. Sources: the readers and writers that these services have
// published, and their API references.
var presets = []preset{
	{"default", "DefaultLayout: 4 regions, 256 workers each, 4,096 IDs in a millisecond", snowflake.Format{Layout: snowflake.DefaultLayout()}},
	{"twitter", "region is the data centre", milliseconds(1288834974657, 41, 5, 5, 12)},
	{"bwmarrin", "github.com/bwmarrin/snowflake as it comes", milliseconds(1288834974657, 41, 0, 10, 12)},
	{"discord", "region is the internal worker, worker the process", milliseconds(1420070400000, 41, 5, 5, 12)},
	{"instagram", "worker is the logical shard; the epoch of the published example", milliseconds(1314220021721, 40, 0, 13, 10)},
	{"sonyflake", "github.com/sony/sonyflake v1 as it comes: 10 ms, the machine below the sequence", snowflake.Format{
		Layout: snowflake.Layout{
			Epoch: time.Date(2014, time.September, 1, 0, 0, 0, 0, time.UTC), Tick: 10 * time.Millisecond,
			TimeBits: 39, WorkerBits: 16, SequenceBits: 8,
		},
		WorkerLast: true,
	}},
}

func milliseconds(epoch int64, time_, region, worker, sequence int) snowflake.Format {
	return snowflake.Format{Layout: snowflake.Layout{
		Epoch: time.UnixMilli(epoch).UTC(), Tick: time.Millisecond,
		TimeBits: time_, RegionBits: region, WorkerBits: worker, SequenceBits: sequence,
	}}
}

func presetNames() []string {
	names := make([]string, len(presets))
	for i, p := range presets {
		names[i] = p.name
	}
	return names
}

// layoutFlag is --layout: the formats of the IDs.
type layoutFlag struct{ formats snowflake.Formats }

func (f *layoutFlag) String() string {
	if len(f.formats) == 0 {
		return ""
	}
	last := f.formats[len(f.formats)-1]
	for _, p := range presets {
		if len(f.formats) == 1 && p.format == last {
			return p.name
		}
	}
	return last.Layout.String()
}

func (f *layoutFlag) Type() string { return "LAYOUT" }

// Set takes a name, the text of a layout, or the name of a file of formats.
func (f *layoutFlag) Set(text string) error {
	for _, p := range presets {
		if p.name == text {
			f.formats = snowflake.Formats{p.format}
			return nil
		}
	}
	if path, ok := strings.CutPrefix(text, "@"); ok {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var read snowflake.Formats
		if err := json.Unmarshal(data, &read); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := read.Validate(); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		f.formats = read
		return nil
	}
	layout, err := snowflake.ParseLayout(text)
	if err != nil {
		return fmt.Errorf("%w, or one of %s, or @FILE of formats", err, strings.Join(presetNames(), ", "))
	}
	f.formats = snowflake.Formats{{Layout: layout}}
	return nil
}

// last returns the layout that IDs are minted with now.
func (f *layoutFlag) last() snowflake.Layout { return f.formats[len(f.formats)-1].Layout }

// addLayout adds --layout to a command.
func addLayout(c *cobra.Command, f *layoutFlag, name, help string) {
	c.Flags().Var(f, name, help+": "+strings.Join(presetNames(), ", ")+", a text as \"snowflake layouts\" shows, or @FILE of formats")
	complete(c, name, presetNames()...)
}

// complete offers values of a flag to shells.
func complete(c *cobra.Command, flag string, values ...string) {
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveDefault))
}

func defaultLayout() layoutFlag {
	return layoutFlag{snowflake.Formats{{Layout: snowflake.DefaultLayout()}}}
}

func (t *tool) layoutsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "layouts",
		Short:   "List the layouts that have a name",
		Example: "  snowflake layouts\n  snowflake decode --layout \"epoch=2026-01-01T00:00:00Z tick=1ms bits=41+2+8+12\" 26091926323200001",
		Args:    exactly(0),
		RunE: func(*cobra.Command, []string) error {
			table := t.newTable(column("name"), column("layout"), column("about"))
			for _, p := range presets {
				table.add(p.name, p.format.Layout.String(), p.about)
			}
			return table.flush()
		},
	}
}
