package snowflake

import (
	"database/sql"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"github.com/stretchr/testify/require"
)

const maxID = ID(math.MaxInt64)

// kept is what a receiver holds before a refused input, and must hold after it.
const kept = ID(42)

// refusedTexts are no ID's decimal.
var refusedTexts = []struct{ name, text, says string }{
	{"empty", "", `"" is empty`},
	{"negative", "-1", `has '-' as byte 1`},
	{"negative zero", "-0", `has '-' as byte 1`},
	{"plus", "+1", `has '+' as byte 1`},
	{"leading zero", "007", "has a leading zero"},
	{"two zeros", "00", "has a leading zero"},
	{"space before", " 1", `has ' ' as byte 1`},
	{"space after", "1 ", `has ' ' as byte 2`},
	{"line feed after", "1\n", `has 0x0A as byte 2`},
	{"underscore", "1_000", `has '_' as byte 2`},
	{"comma", "1,000", `has ',' as byte 2`},
	{"fraction", "1.5", `has '.' as byte 2`},
	{"exponent", "1e3", `has 'e' as byte 2`},
	{"hexadecimal", "0x1F", `has 'x' as byte 2`},
	{"byte below the digits", "1/", `has '/' as byte 2`},
	{"byte above the digits", "1:", `has ':' as byte 2`},
	{"null", "null", `has 'n' as byte 1`},
	{"NUL", "1\x00", `has 0x00 as byte 2`},
	{"Latin-1 letter", "12\xe9", `"12\xe9" has 0xE9 as byte 3`},
	{"Arabic digit", "١", `has 0xD9 as byte 1`},
	{"2^63", "9223372036854775808", "is above 2^63-1"},
	{"19 nines", "9999999999999999999", "is above 2^63-1"},
	{"2^64", "18446744073709551616", "has 20 bytes"},
	{"2^64+1, which would wrap to 1", "18446744073709551617", "has 20 bytes"},
	{"a million digits", strings.Repeat("9", 1e6), `"99999999999999999999999999999999"... has 1000000 bytes`},
}

func TestParseIDAcceptsTheOneSpelling(t *testing.T) {
	for _, row := range []struct {
		name, text string
		id         ID
	}{
		{"zero", "0", 0},
		{"one", "1", 1},
		{"nine", "9", 9},
		{"ten", "10", 10},
		{"above what a float64 holds", "9007199254740993", 1<<53 + 1},
		{"18 nines", "999999999999999999", 999999999999999999},
		{"2^63-1", "9223372036854775807", maxID},
	} {
		t.Run(row.name, func(t *testing.T) {
			id, err := ParseID(row.text)
			require.NoError(t, err)
			require.Equal(t, row.id, id)
			require.Equal(t, row.text, id.String())
		})
	}
}

func TestParseIDRefusesAllOtherTexts(t *testing.T) {
	for _, row := range refusedTexts {
		t.Run(row.name, func(t *testing.T) {
			id, err := ParseID(row.text)
			requireInvalidID(t, err, row.says)
			require.Zero(t, id)

			got := kept
			requireInvalidID(t, got.UnmarshalText([]byte(row.text)), row.says)
			require.Equal(t, kept, got)
		})
	}
}

func requireInvalidID(t *testing.T, err error, says string) {
	t.Helper()
	require.ErrorIs(t, err, ErrInvalidID)
	require.ErrorContains(t, err, says)
	require.Less(t, len(err.Error()), 250, "an error is fit for a log")
	require.False(t, Retryable(err))
}

func TestIDTextRoundTrips(t *testing.T) {
	check := func(number int64) bool {
		id := ID(number & math.MaxInt64)
		parsed, err := ParseID(id.String())
		if err != nil || parsed != id {
			return false
		}
		text, err := id.MarshalText()
		var back ID
		return err == nil && string(text) == id.String() && back.UnmarshalText(text) == nil && back == id
	}
	require.NoError(t, quick.Check(check, seeded(10_000)))
}

func TestIDPlainNumber(t *testing.T) {
	require.Equal(t, int64(math.MaxInt64), maxID.Int64())
	require.True(t, ID(0).IsZero())
	require.False(t, ID(1).IsZero())
	require.False(t, ID(-1).IsZero())
}

func TestIDNegativeIsNotMarshalled(t *testing.T) {
	for _, id := range []ID{-1, math.MinInt64} {
		text, err := id.AppendText([]byte("before"))
		requireInvalidID(t, err, "is negative")
		require.Equal(t, "before", string(text))
		_, err = id.MarshalText()
		requireInvalidID(t, err, "is negative")
		_, err = json.Marshal(id)
		require.ErrorIs(t, err, ErrInvalidID)
		_, err = json.Marshal(map[ID]int{id: 1})
		require.Error(t, err) // encoding/json does not wrap the error of a key
		_, err = ParseID(id.String())
		require.ErrorIs(t, err, ErrInvalidID)
	}
	text, err := ID(5).AppendText([]byte("id="))
	require.NoError(t, err)
	require.Equal(t, "id=5", string(text))
}

func TestIDJSONKeepsAllDigits(t *testing.T) {
	type row struct {
		ID     ID         `json:"id"`
		Parent ID         `json:"parent,omitzero"`
		Peer   *ID        `json:"peer"`
		ByID   map[ID]int `json:"by_id"`
	}
	want := row{ID: maxID, ByID: map[ID]int{maxID - 1: 7}}
	data, err := json.Marshal(want)
	require.NoError(t, err)
	require.Equal(t, `{"id":"9223372036854775807","peer":null,"by_id":{"9223372036854775806":7}}`, string(data))

	var back row
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, want, back)

	// Through a reader that knows no ID and holds numbers as float64.
	var untyped map[string]any
	require.NoError(t, json.Unmarshal(data, &untyped))
	data, err = json.Marshal(untyped)
	require.NoError(t, err)
	back = row{}
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, want, back)
}

func TestIDUnmarshalJSON(t *testing.T) {
	for _, row := range []struct {
		name, data string
		id         ID
	}{
		{"number", `123`, 123},
		{"string", `"123"`, 123},
		{"null leaves the value", `null`, kept},
		{"zero", `0`, 0},
		{"zero as string", `"0"`, 0},
		{"greatest number", `9223372036854775807`, maxID},
		{"greatest string", `"9223372036854775807"`, maxID},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := kept
			require.NoError(t, got.UnmarshalJSON([]byte(row.data)))
			require.Equal(t, row.id, got)

			got = kept
			require.NoError(t, json.Unmarshal([]byte(" "+row.data+"\n"), &got))
			require.Equal(t, row.id, got)
		})
	}

	refused := []struct{ name, data string }{
		{"nothing", ``},
		{"one quote", `"`},
		{"open string", `"1`},
		{"unopened string", `1"`},
		{"string in a string", `""1""`},
		{"escaped digit", `"\u0031"`},
		{"escaped slash", `"1\/"`},
		{"null in a string", `"null"`},
		{"true", `true`},
		{"array", `[1]`},
		{"object", `{"id":1}`},
		{"trailing number", `1 2`},
		{"trailing null", `nullnull`},
	}
	for _, row := range refusedTexts {
		if row.text != "null" {
			refused = append(refused, struct{ name, data string }{row.name, row.text})
		}
		refused = append(refused, struct{ name, data string }{row.name + ", as string", `"` + row.text + `"`})
	}
	for _, row := range refused {
		t.Run("refused: "+row.name, func(t *testing.T) {
			got := kept
			requireInvalidID(t, got.UnmarshalJSON([]byte(row.data)), "JSON must be")
			require.Equal(t, kept, got)

			// Inside a document, where encoding/json has its word first, space
			// around a value is no part of it.
			if strings.TrimSpace(row.data) == row.data {
				require.Error(t, json.Unmarshal([]byte(row.data), &got))
				require.Equal(t, kept, got)
			}
		})
	}
}

func TestIDScan(t *testing.T) {
	for _, row := range []struct {
		name string
		src  any
		id   ID
	}{
		{"int64", int64(7), 7},
		{"int64 zero", int64(0), 0},
		{"int64 greatest", int64(math.MaxInt64), maxID},
		{"bytes", []byte("123"), 123},
		{"string", "9223372036854775807", maxID},
		{"uint64", uint64(math.MaxInt64), maxID},
		{"int", 7, 7},
		{"int32", int32(math.MaxInt32), math.MaxInt32},
		{"int16", int16(math.MaxInt16), math.MaxInt16},
		{"int8", int8(math.MaxInt8), math.MaxInt8},
		{"uint", uint(7), 7},
		{"uint32", uint32(math.MaxUint32), math.MaxUint32},
		{"uint16", uint16(math.MaxUint16), math.MaxUint16},
		{"uint8", uint8(math.MaxUint8), math.MaxUint8},
		{"ID", ID(7), 7},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := kept
			require.NoError(t, got.Scan(row.src))
			require.Equal(t, row.id, got)
		})
	}

	type refusal struct {
		name string
		src  any
		says string
	}
	refused := []refusal{
		{"NULL", nil, "sql.Null[snowflake.ID]"},
		{"int64 negative", int64(-1), "-1 is negative"},
		{"int64 least", int64(math.MinInt64), "is negative"},
		{"int negative", -1, "is negative"},
		{"int32 negative", int32(-1), "is negative"},
		{"int16 negative", int16(-1), "is negative"},
		{"int8 negative", int8(-1), "is negative"},
		{"ID negative", ID(-1), "is negative"},
		{"uint64 2^63", uint64(1 << 63), "9223372036854775808 is above 2^63-1"},
		{"uint64 greatest", uint64(math.MaxUint64), "is above 2^63-1"},
		{"float64", float64(7), "is a float64, in which an ID may have been rounded"},
		{"float32", float32(7), "is a float32, in which an ID may have been rounded"},
		{"NaN", math.NaN(), "is a float64"},
		{"bool", true, "is a bool"},
		{"time", time.Unix(0, 0), "is a time.Time"},
		{"pointer", new(int64), "is a *int64"},
		{"struct", struct{}{}, "is a struct {}"},
		{"nil bytes", []byte(nil), "is empty"},
		{"8 binary bytes", []byte{0, 0, 0, 0, 0, 0, 0, 7}, "has 0x00 as byte 1"},
	}
	for _, row := range refusedTexts {
		refused = append(refused, refusal{row.name + ", string", row.text, row.says}, refusal{row.name + ", bytes", []byte(row.text), row.says})
	}
	for _, row := range refused {
		t.Run("refused: "+row.name, func(t *testing.T) {
			got := kept
			requireInvalidID(t, got.Scan(row.src), row.says)
			require.Equal(t, kept, got)
		})
	}
}

func TestIDValueNeverStoresZero(t *testing.T) {
	for _, id := range []ID{1, maxID} {
		value, err := id.Value()
		require.NoError(t, err)
		require.Equal(t, id.Int64(), value)
	}
	for _, row := range []struct {
		id   ID
		says string
	}{
		{0, "mint an ID first, or use sql.Null[snowflake.ID]"},
		{-1, "is negative"},
		{math.MinInt64, "is negative"},
	} {
		value, err := row.id.Value()
		requireInvalidID(t, err, row.says)
		require.Nil(t, value)
	}
}

func TestIDNullColumn(t *testing.T) {
	got := sql.Null[ID]{V: kept, Valid: true}
	require.NoError(t, got.Scan(nil))
	require.False(t, got.Valid)
	value, err := got.Value()
	require.NoError(t, err)
	require.Nil(t, value)

	require.NoError(t, got.Scan([]byte("123")))
	require.Equal(t, sql.Null[ID]{V: 123, Valid: true}, got)
	value, err = got.Value()
	require.NoError(t, err)
	require.Equal(t, int64(123), value)

	require.ErrorIs(t, got.Scan(int64(-1)), ErrInvalidID)
	_, err = sql.Null[ID]{Valid: true}.Value()
	require.ErrorIs(t, err, ErrInvalidID, "a zero ID is not stored from a Null either")
}

func TestIDReadingDoesNotAllocate(t *testing.T) {
	var id ID
	text, quoted := []byte("7423948112375808"), []byte(`"7423948112375808"`)
	var column any = text
	for name, read := range map[string]func() error{
		"UnmarshalText": func() error { return id.UnmarshalText(text) },
		"UnmarshalJSON": func() error { return id.UnmarshalJSON(quoted) },
		"Scan":          func() error { return id.Scan(column) },
	} {
		allocs := testing.AllocsPerRun(100, func() {
			if read() != nil {
				t.Error("refused")
			}
		})
		require.Zero(t, allocs, name)
	}
}
