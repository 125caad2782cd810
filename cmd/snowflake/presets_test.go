package main

import (
	"testing"
	"time"

	"github.com/bwmarrin/snowflake"
	"github.com/sony/sonyflake"
	"github.com/stretchr/testify/require"

	snowfence "github.com/snowfence/snowflake"
)

func presetOf(t *testing.T, name string) snowfence.Formats {
	t.Helper()
	var f layoutFlag
	require.NoError(t, f.Set(name))
	require.Equal(t, name, f.String())
	return f.formats
}

// What the other generators make decodes as they say, and every ID of the next format is
// greater.
func TestPresetsReadTheirGenerators(t *testing.T) {
	next := snowfence.Layout{TimeBits: 41, RegionBits: 2, WorkerBits: 8, SequenceBits: 12}
	above := func(t *testing.T, old snowfence.Formats, id snowfence.ID) {
		t.Helper()
		formats, err := old.Append(next, time.Now().Add(time.Hour))
		require.NoError(t, err)
		require.Greater(t, formats[1].From, id)
		first, err := formats[1].Layout.MinID(formats[1].Start())
		require.NoError(t, err)
		require.GreaterOrEqual(t, first, formats[1].From)
		require.Less(t, float64(first)/float64(id), 1.01, "and not by more than the hour")
	}
	t.Run("bwmarrin", func(t *testing.T) {
		node, err := snowflake.NewNode(1017)
		require.NoError(t, err)
		formats := presetOf(t, "bwmarrin")
		for range 100 {
			made := node.Generate()
			parts, err := formats.Unpack(snowfence.ID(made.Int64()))
			require.NoError(t, err)
			require.Equal(t, snowfence.Parts{Time: time.UnixMilli(made.Time()).UTC(), Worker: int(made.Node()), Sequence: int(made.Step())}, parts)
			above(t, formats, snowfence.ID(made.Int64()))
		}
	})
	t.Run("sonyflake", func(t *testing.T) {
		generator := sonyflake.NewSonyflake(sonyflake.Settings{MachineID: func() (uint16, error) { return 54321, nil }})
		formats := presetOf(t, "sonyflake")
		for range 20 {
			made, err := generator.NextID()
			require.NoError(t, err)
			parts, err := formats.Unpack(snowfence.ID(made))
			require.NoError(t, err)
			fields := sonyflake.Decompose(made)
			epoch := time.Date(2014, time.September, 1, 0, 0, 0, 0, time.UTC)
			require.Equal(t, snowfence.Parts{
				Time: epoch.Add(time.Duration(fields["time"]) * 10 * time.Millisecond), Worker: 54321, Sequence: int(fields["sequence"]),
			}, parts)
			above(t, formats, snowfence.ID(made))
		}
	})
}
