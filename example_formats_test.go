package snowflake_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/snowfence/snowflake"
)

// The names that users' code compiles against, as in api_test.go.
var (
	_ func(string) (snowflake.Layout, error)                                                 = snowflake.ParseLayout
	_                                                                                        = snowflake.Format{From: 0, Layout: snowflake.Layout{}, WorkerLast: false}
	_ func(snowflake.Formats) error                                                          = snowflake.Formats.Validate
	_ func(snowflake.Formats, snowflake.Layout, time.Time) (snowflake.Formats, error)        = snowflake.Formats.Append
	_ func(snowflake.Formats, snowflake.ID) (snowflake.Format, error)                        = snowflake.Formats.Of
	_ func(snowflake.Formats, snowflake.ID) (snowflake.Parts, error)                         = snowflake.Formats.Unpack
	_ func(snowflake.Formats, time.Time) (snowflake.ID, error)                               = snowflake.Formats.MinID
	_ func(snowflake.Formats, time.Time) (snowflake.ID, error)                               = snowflake.Formats.MaxID
	_ func(snowflake.Formats, snowflake.Lease) (snowflake.Lease, error)                      = snowflake.Formats.Lease
	_ func(snowflake.Format) time.Time                                                       = snowflake.Format.Start
	_ func(snowflake.Format, snowflake.ID) (snowflake.Parts, error)                          = snowflake.Format.Unpack
	_ func(context.Context, snowflake.LeaseStore, snowflake.Fence) (snowflake.Fenced, error) = snowflake.FenceLeases
	_ func(context.Context, snowflake.LeaseStore, int, ...int) ([]snowflake.Record, error)   = snowflake.ReleaseExpired
	_                                                                                        = snowflake.Fence{Region: 0, Until: time.Time{}, Layout: snowflake.Layout{}, Owner: ""}
	_                                                                                        = snowflake.Fenced{Codes: 0, Highest: time.Time{}}
)

// A fifth region, from New Year 2028 on, for a column that began with DefaultLayout: 40
// bits of time instead of 41, and 3 for the region.
func ExampleFormats_Append() {
	formats := snowflake.Formats{{Layout: snowflake.DefaultLayout()}}
	formats, err := formats.Append(
		snowflake.Layout{TimeBits: 40, RegionBits: 3, WorkerBits: 8, SequenceBits: 12},
		time.Date(2028, time.January, 1, 0, 0, 0, 0, time.UTC),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, format := range formats {
		text, _ := json.Marshal(format)
		fmt.Println(string(text))
	}
	fmt.Println("ends", formats[1].Layout.End().Format(time.DateOnly))

	last, _ := formats[0].Layout.MaxID(formats[1].Start().Add(-time.Millisecond))
	first, _ := formats[1].Layout.MinID(formats[1].Start())
	fmt.Println(last, "<", first)
	// Output:
	// {"from":"0","layout":"epoch=2026-01-01T00:00:00Z tick=1ms bits=41+2+8+12"}
	// {"from":"264543141888000000","layout":"epoch=2027-01-01T00:00:00Z tick=1ms bits=40+3+8+12"}
	// ends 2061-11-03
	// 264543141887999999 < 264543141888000000
}

// IDs decode by their value, whichever format they were minted in.
func ExampleFormats_Unpack() {
	var formats snowflake.Formats // from a file that programs and tools share
	err := json.Unmarshal([]byte(`[
		{"from": "0", "layout": "epoch=2014-09-01T00:00:00Z tick=10ms bits=39+0+16+8", "worker_last": true},
		{"from": "705931562188800000", "layout": "epoch=2022-09-01T00:00:00Z tick=1ms bits=41+2+8+12"}
	]`), &formats)
	if err == nil {
		err = formats.Validate()
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range []snowflake.ID{600000000052957799, 705931566385270785} {
		parts, err := formats.Unpack(id)
		fmt.Println(parts.Time.Format(time.RFC3339Nano), parts.Region, parts.Worker, parts.Sequence, err)
	}
	// Output:
	// 2025-12-31T05:04:28.68Z 0 4711 100 <nil>
	// 2028-01-01T00:00:01Z 2 17 1 <nil>
}

// Writers of two formats side by side: until the start of the new one the old mints, and
// from then on the new. Every process needs a lease of both, from stores of their own.
func ExampleFormats_Lease() {
	ctx := context.Background()
	formats := snowflake.Formats{{Layout: snowflake.DefaultLayout()}}
	formats, err := formats.Append(
		snowflake.Layout{TimeBits: 40, RegionBits: 3, WorkerBits: 8, SequenceBits: 12},
		time.Now().Add(time.Second), // weeks, in real life
	)
	if err != nil {
		log.Fatal(err)
	}
	writers := make([]*snowflake.Generator, len(formats))
	for i, format := range formats {
		store := snowflake.NewMemoryStore() // another for each layout
		held, err := snowflake.AcquireLease(ctx, store, snowflake.LeaseConfig{Layout: format.Layout})
		if err != nil {
			log.Fatal(err)
		}
		lease, err := formats.Lease(held)
		if err != nil {
			log.Fatal(err)
		}
		if writers[i], err = snowflake.New(ctx, snowflake.Config{Lease: lease}); err != nil {
			log.Fatal(err)
		}
	}
	next := func() (snowflake.ID, error) {
		if time.Now().Before(formats[1].Start()) {
			return writers[0].Next()
		}
		return writers[1].Next()
	}

	old, err := next()
	if err != nil {
		log.Fatal(err)
	}
	time.Sleep(time.Until(formats[1].Start()))
	id, err := next()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(old < formats[1].From, formats[1].From <= id)
	_, err = writers[0].Next()
	fmt.Println(errors.Is(err, snowflake.ErrLeaseLost))
	for _, writer := range writers {
		if err := writer.Close(ctx); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// true true
	// true
}
