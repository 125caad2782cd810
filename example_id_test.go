package snowflake_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/snowfence/snowflake"
)

// The rows of one day, by primary key alone: no index on a time column is needed.
func ExampleLayout_MinID() {
	layout := snowflake.DefaultLayout()
	day := time.Date(2026, time.March, 14, 0, 0, 0, 0, time.UTC)

	from, err := layout.MinID(day)
	if err != nil {
		fmt.Println(err)
		return
	}
	until, err := layout.MinID(day.AddDate(0, 0, 1))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("SELECT * FROM orders WHERE id >= %d AND id < %d\n", from, until)
	// Output:
	// SELECT * FROM orders WHERE id >= 26091926323200000 AND id < 26454314188800000
}

// Texts of fixed width sort as the numbers do, and each ID has only one.
func ExampleEncoding() {
	id := snowflake.ID(26091926323200001)
	for _, encoding := range []snowflake.Encoding{
		snowflake.Decimal, snowflake.Hex, snowflake.Base32, snowflake.Base58, snowflake.Base62,
	} {
		text := encoding.Encode(id)
		back, err := encoding.Decode(text)
		fmt.Println(encoding, text, back == id, err)
	}

	_, err := snowflake.Base58.Decode("14Wk5fIaUD6")
	fmt.Println(err)
	// Output:
	// decimal 26091926323200001 true <nil>
	// hex 005cb27800000001 true <nil>
	// base32 00Q5JF0000001 true <nil>
	// base58 14Wk5fJaUD6 true <nil>
	// base62 01vV4zg0dzV true <nil>
	// snowflake: invalid ID: "14Wk5fIaUD6" has 'I' as byte 7, which is not a digit of base58
}

// From what must be held to bits. 56 codes are spare: for the 40 instances that a
// rolling update starts early and for 16 that may crash within a lease's TTL.
func ExamplePlanLayout() {
	needs := snowflake.Needs{
		Lifetime:         60 * 8766 * time.Hour,
		Regions:          4,
		WorkersPerRegion: 200,
		SpareCodes:       56,
		BurstPerTick:     3000, // of the hottest worker, in one millisecond
	}
	layout, err := snowflake.PlanLayout(needs)
	fmt.Println(layout, err)

	needs.BurstPerTick = 5000
	_, err = snowflake.PlanLayout(needs)
	fmt.Println(strings.ReplaceAll(err.Error(), "; ", ";\n"))

	needs.Lifetime = 30 * 8766 * time.Hour
	layout, err = snowflake.PlanLayout(needs)
	fmt.Println(layout, err)
	// Output:
	// epoch=2026-01-01T00:00:00Z tick=1ms bits=41+2+8+12 <nil>
	// snowflake: plan: Lifetime 525960h0m0s (60.0 years) takes 41 bits, Regions 4 takes 2, WorkersPerRegion+SpareCodes 256 takes 8, BurstPerTick 5000 takes 13;
	// all: 64 of 63 bits, 1 over;
	// what fits while the others stay: Lifetime up to 305419h53m47.776s (34.8 years), Regions up to 2, WorkersPerRegion up to 72, SpareCodes none, BurstPerTick up to 4096
	// epoch=2026-01-01T00:00:00Z tick=1ms bits=40+2+8+13 <nil>
}
