package snowflake

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"regexp"
	"strings"
	"testing"
	"time"
)

// canonical is the form of an ID's decimal; the bound of 2^63-1 is apart.
var canonical = regexp.MustCompile(`\A(0|[1-9][0-9]*)\z`)

// isID is what ParseID must decide, by other means.
func isID(text string) bool {
	if !canonical.MatchString(text) {
		return false
	}
	value, ok := new(big.Int).SetString(text, 10)
	return ok && value.IsInt64()
}

func checkRefusal(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, ErrInvalidID) {
		t.Fatalf("%v is not ErrInvalidID", err)
	}
	if len(err.Error()) > 300 {
		t.Fatalf("an error of %d bytes", len(err.Error()))
	}
}

func FuzzParseID(f *testing.F) {
	for _, row := range refusedTexts {
		if len(row.text) < 100 {
			f.Add(row.text)
		}
	}
	f.Add("0")
	f.Add("7423948112375808")
	f.Add("9223372036854775807")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := ParseID(text)
		if ok := isID(text); ok != (err == nil) {
			t.Fatalf("ParseID(%q) = %d, %v; is it an ID: %t", text, id, err, ok)
		}
		if err != nil {
			checkRefusal(t, err)
			return
		}
		if id < 0 || id.String() != text {
			t.Fatalf("ParseID(%q) = %d", text, id)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for e := range Hex + 2 {
		for _, id := range []ID{0, 1, maxID, -1} {
			f.Add(uint8(e), e.Encode(id))
		}
		f.Add(uint8(e), "")
		f.Add(uint8(e), "zzzzzzzzzzz")
		f.Add(uint8(e), "ZZZZZZZZZZZZZ")
		f.Add(uint8(e), "000000000\xe9")
		f.Add(uint8(e), "ffffffffffffffff")
	}
	f.Fuzz(func(t *testing.T, number uint8, text string) {
		e := Encoding(number)
		id, err := e.Decode(text)
		want, ok := ID(0), false
		for _, row := range fixedEncodings {
			if row.encoding == e && len(text) == row.width {
				want, ok = valueOf(text, row.digits)
			}
		}
		if e == Decimal {
			if ok = isID(text); ok {
				want, _ = valueOf(text, "0123456789")
			}
		}
		switch {
		case ok && (err != nil || id != want || e.Encode(id) != text):
			t.Fatalf("%v: Decode(%q) = %d, %v, want %d", e, text, id, err, want)
		case !ok && (err == nil || id != 0):
			t.Fatalf("%v: Decode(%q) = %d, %v, want an error", e, text, id, err)
		case !ok && e <= Hex:
			checkRefusal(t, err)
		}
	})
}

func FuzzUnmarshalJSON(f *testing.F) {
	for _, row := range refusedTexts {
		if len(row.text) < 100 {
			f.Add([]byte(row.text))
			f.Add([]byte(`"` + row.text + `"`))
		}
	}
	for _, data := range []string{`123`, `"123"`, `null`, ` 1 `, `"\u0031"`, `{"id":1}`, `"`, `""1""`, `9223372036854775807`} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got := kept
		err := got.UnmarshalJSON(data)
		text := string(data)
		if len(text) >= 2 && strings.HasPrefix(text, `"`) && strings.HasSuffix(text, `"`) {
			text = text[1 : len(text)-1]
		}
		switch {
		case string(data) == "null":
			if err != nil || got != kept {
				t.Fatalf("null gave %d, %v", got, err)
			}
		case isID(text):
			if err != nil || got.String() != text {
				t.Fatalf("%q gave %d, %v", data, got, err)
			}
		default:
			checkRefusal(t, err)
			if got != kept {
				t.Fatalf("%q is refused and yet changed the value to %d", data, got)
			}
		}
		if err != nil {
			return
		}
		// What is accepted is a JSON value, and is written in one way.
		if !json.Valid(data) {
			t.Fatalf("%q is no JSON", data)
		}
		written, err := json.Marshal(got)
		if err != nil || string(written) != `"`+got.String()+`"` {
			t.Fatalf("%d is written as %s, %v", got, written, err)
		}
	})
}

func FuzzScan(f *testing.F) {
	for _, row := range refusedTexts {
		if len(row.text) < 100 {
			f.Add([]byte(row.text), int64(-1), uint64(1<<63), 1.0)
		}
	}
	f.Add([]byte("123"), int64(math.MaxInt64), uint64(math.MaxInt64), math.Inf(1))
	f.Add([]byte("0"), int64(0), uint64(0), 0.0)
	f.Fuzz(func(t *testing.T, text []byte, signed int64, unsigned uint64, float float64) {
		parsed, notParsed := ParseID(string(text)) // see FuzzParseID
		for _, row := range []struct {
			src  any
			ok   bool
			want ID
		}{
			{text, notParsed == nil, parsed},
			{string(text), notParsed == nil, parsed},
			{signed, signed >= 0, ID(signed)},
			{unsigned, unsigned <= math.MaxInt64, ID(unsigned)},
			{float, false, 0},
			{nil, false, 0},
			{unsigned%2 == 0, false, 0},
			{time.Unix(0, signed), false, 0},
		} {
			got := kept
			err := got.Scan(row.src)
			if row.ok {
				if err != nil || got != row.want {
					t.Fatalf("Scan(%T %v) = %d, %v, want %d", row.src, row.src, got, err, row.want)
				}
				// Stored again, it reads the same; zero is not stored.
				value, err := got.Value()
				if (err != nil) != got.IsZero() || err == nil && value != int64(got) {
					t.Fatalf("Value of %d is %v, %v", got, value, err)
				}
				continue
			}
			checkRefusal(t, err)
			if got != kept {
				t.Fatalf("Scan(%T %v) is refused and yet changed the value to %d", row.src, row.src, got)
			}
		}
	})
}

func FuzzPlanLayout(f *testing.F) {
	f.Add(int64(0), int64(0), int64(60*year), 4, 200, 0, 3000)
	f.Add(int64(1_767_225_600), int64(time.Millisecond), int64(60*year), 4, 200, 57, 3000)
	f.Add(int64(1_767_225_600), int64(1), int64(math.MaxInt64), 1, 1, 0, 1)
	f.Add(int64(epochLimit-1), int64(time.Second), int64(time.Second), 1, 1, 0, 1)
	f.Add(int64(math.MaxInt64), int64(-1), int64(-1), -1, -1, -1, -1)
	f.Add(int64(31*24*3600), int64(7), int64(1), math.MaxInt, math.MaxInt, math.MaxInt, math.MaxInt)
	f.Add(int64(31*24*3600), int64(7), int64(1), 1, math.MaxInt, 1, math.MinInt)
	f.Fuzz(func(t *testing.T, epoch, tick, lifetime int64, regions, workers, spare, burst int) {
		needs := Needs{
			Tick: time.Duration(tick), Lifetime: time.Duration(lifetime),
			Regions: regions, WorkersPerRegion: workers, SpareCodes: spare, BurstPerTick: burst,
		}
		if epoch != 0 {
			needs.Epoch = time.Unix(epoch, 0)
		}
		layout, err := PlanLayout(needs)
		if err != nil {
			if layout != (Layout{}) || !strings.HasPrefix(err.Error(), "snowflake: ") {
				t.Fatalf("%+v gave %v, %v", needs, layout, err)
			}
			return
		}
		requireHolds(t, needs, layout)
		if again, err := PlanLayout(needs); err != nil || again != layout {
			t.Fatalf("%v, then %v, %v", layout, again, err)
		}
	})
}

func FuzzLayout(f *testing.F) {
	for _, l := range edgeLayouts {
		for _, id := range []int64{0, 1, -1, math.MaxInt64, 7423948112375808} {
			f.Add(l.Epoch.Unix(), int64(l.Epoch.Nanosecond()), int64(l.Tick), l.TimeBits, l.RegionBits, l.WorkerBits, l.SequenceBits, id, id)
		}
	}
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), math.MaxInt, math.MinInt, math.MaxInt, math.MaxInt, int64(math.MinInt64), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, epoch, nanos, tick int64, timeBits, regionBits, workerBits, sequenceBits int, number, at int64) {
		l := Layout{
			Epoch: time.Unix(epoch, nanos), Tick: time.Duration(tick),
			TimeBits: timeBits, RegionBits: regionBits, WorkerBits: workerBits, SequenceBits: sequenceBits,
		}
		id, moment := ID(number), time.Unix(at, nanos)
		parts, err := l.Unpack(id)
		least, leastErr := l.MinID(moment)
		greatest, greatestErr := l.MaxID(moment)
		if l.Validate() != nil {
			if err == nil || leastErr == nil || greatestErr == nil || !l.End().IsZero() || l.String() == "" {
				t.Fatalf("an invalid layout is used: %v", l)
			}
			return
		}
		if (err == nil) != (id > 0) {
			t.Fatalf("%v: unpacking %d: %v", l, id, err)
		}
		if err == nil {
			if again, err := l.Pack(parts); err != nil || again != id {
				t.Fatalf("%v: %d unpacks to %+v, which packs to %d, %v", l, id, parts, again, err)
			}
		}
		inside := !moment.Before(l.Epoch) && moment.Before(l.End())
		if (leastErr == nil) != inside || (greatestErr == nil) != inside {
			t.Fatalf("%v: %v is inside: %t, but %v, %v", l, moment, inside, leastErr, greatestErr)
		}
		if inside {
			if least < 0 || least >= greatest {
				t.Fatalf("%v: IDs from %d to %d", l, least, greatest)
			}
			begins, err := l.Unpack(greatest)
			if sinceStart := moment.Sub(begins.Time); err != nil || sinceStart < 0 || sinceStart >= l.normal().Tick {
				t.Fatalf("%v: %v is %v after the start of its tick, %v", l, moment, sinceStart, err)
			}
		}
	})
}
