package snowflake_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/snowfence/snowflake"
)

// The vectors are for readers in other languages: what an ID is made of, and how it is
// written. They hold no number that a reader could lose digits of: IDs are strings.

var update = flag.Bool("update", false, "write testdata/vectors.json anew")

const vectorsFile = "testdata/vectors.json"

type vectors struct {
	About   string          `json:"about"`
	Layouts []layoutVectors `json:"layouts"`
	Texts   []textVector    `json:"texts"`
	JSON    []jsonVector    `json:"json"`
	Refused []refusedVector `json:"refused"`
}

type layoutVectors struct {
	Name         string `json:"name"`
	Text         string `json:"text"`
	Epoch        string `json:"epoch"`
	EpochNanos   string `json:"epoch_unix_nanoseconds"`
	TickNanos    string `json:"tick_nanoseconds"`
	TimeBits     int    `json:"time_bits"`
	RegionBits   int    `json:"region_bits"`
	WorkerBits   int    `json:"worker_bits"`
	SequenceBits int    `json:"sequence_bits"`
	End          string `json:"end"`

	IDs    []partsVector `json:"ids"`
	Ranges []rangeVector `json:"ranges"`
}

type partsVector struct {
	ID       string `json:"id"`
	Tick     string `json:"tick"`
	Time     string `json:"time"`
	Region   int    `json:"region"`
	Worker   int    `json:"worker"`
	Sequence int    `json:"sequence"`
}

// rangeVector is the bounds of the tick that contains an instant, for queries.
type rangeVector struct {
	At    string `json:"at"`
	MinID string `json:"min_id"`
	MaxID string `json:"max_id"`
}

type textVector struct {
	ID      string `json:"id"`
	Decimal string `json:"decimal"`
	Base32  string `json:"base32"`
	Base58  string `json:"base58"`
	Base62  string `json:"base62"`
	Hex     string `json:"hex"`
}

// jsonVector is a document, and the ID in it. A reader that parses numbers as float64 gets
// Float64 from it: exact only where that is the ID.
type jsonVector struct {
	Document string `json:"document"`
	ID       string `json:"id"`
	Float64  string `json:"as_float64"`
	Written  bool   `json:"written"` // this is how an ID is written, others are only read
}

// refusedVector is a text that is no ID in an encoding, or a JSON value that is none.
type refusedVector struct {
	As     string `json:"as"` // decimal, base32, base58, base62, hex or json
	Text   string `json:"text"`
	Reason string `json:"reason"` // empty, width, digit, leading zero, above 2^63-1
}

// Layouts that are in use, as far as their fields stand in this order. Sonyflake puts the
// sequence above the machine: its tick and widths are here, not its order.
func vectorLayouts() []layoutVectors {
	entry := func(name string, l snowflake.Layout) layoutVectors {
		return layoutVectors{
			Name: name, Text: l.String(), Epoch: stamp(l.Epoch), EpochNanos: strconv.FormatInt(l.Epoch.UnixNano(), 10),
			TickNanos: strconv.FormatInt(int64(l.Tick), 10),
			TimeBits:  l.TimeBits, RegionBits: l.RegionBits, WorkerBits: l.WorkerBits, SequenceBits: l.SequenceBits,
			End: stamp(l.End()),
		}
	}
	bits := func(epoch time.Time, tick time.Duration, t, r, w, s int) snowflake.Layout {
		return snowflake.Layout{Epoch: epoch, Tick: tick, TimeBits: t, RegionBits: r, WorkerBits: w, SequenceBits: s}
	}
	return []layoutVectors{
		entry("default", snowflake.DefaultLayout()),
		entry("like Twitter", bits(time.UnixMilli(1_288_834_974_657), time.Millisecond, 41, 5, 5, 12)),
		entry("like Discord", bits(time.UnixMilli(1_420_070_400_000), time.Millisecond, 41, 5, 5, 12)),
		entry("like Instagram", bits(time.UnixMilli(1_314_220_021_721), time.Millisecond, 40, 0, 13, 10)),
		entry("like Sonyflake, ticks of 10 ms", bits(time.Date(2014, 9, 1, 0, 0, 0, 0, time.UTC), 10*time.Millisecond, 39, 0, 16, 8)),
		entry("ticks of a second", bits(time.Unix(0, 0), time.Second, 33, 2, 8, 20)),
	}
}

func (v layoutVectors) layout(t *testing.T) snowflake.Layout {
	t.Helper()
	tick, err := strconv.ParseInt(v.TickNanos, 10, 64)
	require.NoError(t, err)
	return snowflake.Layout{
		Epoch: instant(t, v.Epoch), Tick: time.Duration(tick),
		TimeBits: v.TimeBits, RegionBits: v.RegionBits, WorkerBits: v.WorkerBits, SequenceBits: v.SequenceBits,
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func instant(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	require.NoError(t, err)
	return at
}

// makeVectors computes the vectors from what is to be covered.
func makeVectors(t *testing.T) vectors {
	t.Helper()
	v := vectors{
		About: "What snowflake IDs are made of and how they are written. Every integer that may need more than 53 bits is a string. " +
			"Fields from the highest bit: 0, time in ticks since the epoch, region, worker, sequence.",
		Layouts: vectorLayouts(),
	}
	for i := range v.Layouts {
		v.Layouts[i].fill(t)
	}
	for _, id := range []snowflake.ID{1, 57, 58, 61, 62, 4095, 4096, 1<<53 - 1, 1 << 53, 1<<53 + 1, 26091926323200001, 123456789012345678, math.MaxInt64 - 1, math.MaxInt64} {
		v.Texts = append(v.Texts, textVector{
			ID: id.String(), Decimal: snowflake.Decimal.Encode(id), Base32: snowflake.Base32.Encode(id),
			Base58: snowflake.Base58.Encode(id), Base62: snowflake.Base62.Encode(id), Hex: snowflake.Hex.Encode(id),
		})
	}
	for _, id := range []snowflake.ID{1, 1<<53 - 1, 1<<53 + 1, 26091926323200001, math.MaxInt64} {
		for _, document := range []string{`{"id":"` + id.String() + `"}`, `{"id":` + id.String() + `}`} {
			v.JSON = append(v.JSON, jsonVector{
				Document: document, ID: id.String(), Written: strings.Contains(document, `:"`),
				Float64: strconv.FormatFloat(float64(id), 'f', 0, 64),
			})
		}
	}
	v.Refused = refusedVectors()
	return v
}

func (v *layoutVectors) fill(t *testing.T) {
	t.Helper()
	l := v.layout(t)
	lastRegion, lastWorker, lastSequence := 1<<l.RegionBits-1, 1<<l.WorkerBits-1, 1<<l.SequenceBits-1
	for _, p := range []snowflake.Parts{
		{Time: l.Epoch, Sequence: 1},
		{Time: l.Epoch.Add(l.Tick)},
		{Time: time.Date(2026, 3, 14, 15, 9, 26, 535e6, time.UTC), Region: lastRegion, Worker: min(17, lastWorker), Sequence: min(42, lastSequence)},
		{Time: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), Worker: lastWorker},
		{Time: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), Sequence: lastSequence},
		{Time: l.End().Add(-l.Tick), Region: lastRegion, Worker: lastWorker, Sequence: lastSequence},
	} {
		id, err := l.Pack(p)
		require.NoError(t, err)
		p, err = l.Unpack(id)
		require.NoError(t, err)
		v.IDs = append(v.IDs, partsVector{
			ID: id.String(), Tick: strconv.FormatInt(int64(id)>>(63-l.TimeBits), 10), Time: stamp(p.Time),
			Region: p.Region, Worker: p.Worker, Sequence: p.Sequence,
		})
	}
	for _, at := range []time.Time{
		l.Epoch, time.Date(2026, 3, 14, 0, 0, 0, 0, time.UTC), time.Date(2030, 1, 1, 0, 0, 0, 999_999_999, time.UTC), l.End().Add(-1),
	} {
		least, err := l.MinID(at)
		require.NoError(t, err)
		greatest, err := l.MaxID(at)
		require.NoError(t, err)
		v.Ranges = append(v.Ranges, rangeVector{stamp(at), least.String(), greatest.String()})
	}
}

func refusedVectors() []refusedVector {
	const digit, width, above, zero, empty = "digit", "width", "above 2^63-1", "leading zero", "empty"
	return []refusedVector{
		{"decimal", "", empty},
		{"decimal", "-1", digit},
		{"decimal", "+1", digit},
		{"decimal", " 1", digit},
		{"decimal", "1.5", digit},
		{"decimal", "1e3", digit},
		{"decimal", "0x1F", digit},
		{"decimal", "١", digit}, // Arabic-Indic
		{"decimal", "007", zero},
		{"decimal", "00", zero},
		{"decimal", "9223372036854775808", above},
		{"decimal", "9999999999999999999", above},
		{"decimal", "18446744073709551617", width},
		{"base32", "", width},
		{"base32", "000000000001", width},
		{"base32", "00000000000001", width},
		{"base32", "000000000000I", digit},
		{"base32", "000000000000L", digit},
		{"base32", "000000000000O", digit},
		{"base32", "000000000000U", digit},
		{"base32", "000000000000a", digit},
		{"base32", "8000000000000", above},
		{"base58", "1111111111", width},
		{"base58", "11111111110", digit},
		{"base58", "1111111111l", digit},
		{"base58", "NQm6nKp8qFD", above},
		{"base58", "zzzzzzzzzzz", above},
		{"base62", "0000000000-", digit},
		{"base62", "AzL8n0Y58m8", above},
		{"base62", "LygHa16AHYG", above}, // 2^64, which would wrap to 0
		{"hex", "0000000000000001 ", width},
		{"hex", "000000000000000A", digit},
		{"hex", "0x00000000000001", digit},
		{"hex", "8000000000000000", above},
		{"hex", "ffffffffffffffff", above},
		{"json", `""`, empty},
		{"json", `-1`, digit},
		{"json", `1.0`, digit},
		{"json", `1e3`, digit},
		{"json", `"1e3"`, digit},
		{"json", `" 1"`, digit},
		{"json", `true`, digit},
		{"json", `"007"`, zero},
		{"json", `9223372036854775808`, above},
		{"json", `"9223372036854775808"`, above},
	}
}

// Examples that others publish for their own IDs.
func TestVectorsAgreeWithPublishedIDs(t *testing.T) {
	for _, row := range []struct {
		layout string
		id     snowflake.ID
		parts  snowflake.Parts
	}{
		// discord.com/developers/docs/reference#snowflakes: worker 1, process 0, increment 7
		{"like Discord", 175928847299117063, snowflake.Parts{Time: time.UnixMilli(1_462_015_105_796).UTC(), Region: 1, Worker: 0, Sequence: 7}},
		// en.wikipedia.org/wiki/Snowflake_ID: machine 378, sequence 0
		{"like Twitter", 1541815603606036480, snowflake.Parts{Time: time.UnixMilli(1_656_432_460_105).UTC(), Region: 378 >> 5, Worker: 378 & 31, Sequence: 0}},
	} {
		for _, lv := range vectorLayouts() {
			if lv.Name == row.layout {
				parts, err := lv.layout(t).Unpack(row.id)
				require.NoError(t, err)
				require.Equal(t, row.parts, parts)
			}
		}
	}
}

// The file is what the code computes: run go test -run TestVectors -update after a change
// that is meant.
func TestVectorsAreUpToDate(t *testing.T) {
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	require.NoError(t, out.Encode(makeVectors(t)))
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o750))
		require.NoError(t, os.WriteFile(vectorsFile, text.Bytes(), 0o600))
	}
	stored, err := os.ReadFile(vectorsFile)
	require.NoError(t, err)
	require.Equal(t, string(stored), text.String())
}

func readVectors(t *testing.T) (v vectors) {
	t.Helper()
	data, err := os.ReadFile(vectorsFile)
	require.NoError(t, err)
	in := json.NewDecoder(bytes.NewReader(data))
	in.DisallowUnknownFields()
	require.NoError(t, in.Decode(&v))
	return v
}

// Read back, every vector says what the code does with it: the other way round than it
// was made.
func TestVectorsHold(t *testing.T) {
	v := readVectors(t)
	parse := func(text string) snowflake.ID {
		id, err := snowflake.ParseID(text)
		require.NoError(t, err)
		return id
	}
	for _, lv := range v.Layouts {
		t.Run(lv.Name, func(t *testing.T) {
			l := lv.layout(t)
			require.NoError(t, l.Validate())
			require.Equal(t, lv.Text, l.String())
			for _, row := range lv.IDs {
				want := snowflake.Parts{Time: instant(t, row.Time), Region: row.Region, Worker: row.Worker, Sequence: row.Sequence}
				parts, err := l.Unpack(parse(row.ID))
				require.NoError(t, err)
				require.Equal(t, want, parts)
				id, err := l.Pack(want)
				require.NoError(t, err)
				require.Equal(t, row.ID, id.String())
			}
			for _, row := range lv.Ranges {
				least, err := l.MinID(instant(t, row.At))
				require.NoError(t, err)
				greatest, err := l.MaxID(instant(t, row.At))
				require.NoError(t, err)
				require.Equal(t, []string{row.MinID, row.MaxID}, []string{least.String(), greatest.String()})
			}
		})
	}
	for _, row := range v.Texts {
		for encoding, text := range map[snowflake.Encoding]string{
			snowflake.Decimal: row.Decimal, snowflake.Base32: row.Base32, snowflake.Base58: row.Base58,
			snowflake.Base62: row.Base62, snowflake.Hex: row.Hex,
		} {
			id, err := encoding.Decode(text)
			require.NoError(t, err)
			require.Equal(t, row.ID, id.String())
			require.Equal(t, text, encoding.Encode(id))
		}
	}
	for _, row := range v.JSON {
		var got struct {
			ID snowflake.ID `json:"id"`
		}
		require.NoError(t, json.Unmarshal([]byte(row.Document), &got))
		require.Equal(t, row.ID, got.ID.String())
		written, err := json.Marshal(got)
		require.NoError(t, err)
		require.Equal(t, row.Written, row.Document == string(written))
		var loose map[string]any
		require.NoError(t, json.Unmarshal([]byte(row.Document), &loose))
		if number, ok := loose["id"].(float64); ok {
			require.Equal(t, row.Float64, strconv.FormatFloat(number, 'f', 0, 64))
		}
	}
}

func TestVectorsOfRefusalsHold(t *testing.T) {
	encodings := map[string]snowflake.Encoding{
		"decimal": snowflake.Decimal, "base32": snowflake.Base32, "base58": snowflake.Base58,
		"base62": snowflake.Base62, "hex": snowflake.Hex,
	}
	says := map[string]string{
		"empty": "is empty", "width": " bytes, ", "digit": "is not a digit", "leading zero": "leading zero", "above 2^63-1": "is above 2^63-1",
	}
	for _, row := range readVectors(t).Refused {
		t.Run(row.As+" "+row.Text, func(t *testing.T) {
			var err error
			if row.As == "json" {
				var id snowflake.ID
				err = json.Unmarshal([]byte(row.Text), &id)
			} else {
				encoding, ok := encodings[row.As]
				require.True(t, ok, row.As)
				_, err = encoding.Decode(row.Text)
			}
			require.ErrorIs(t, err, snowflake.ErrInvalidID)
			require.Contains(t, says, row.Reason)
			require.ErrorContains(t, err, says[row.Reason])
		})
	}
}
