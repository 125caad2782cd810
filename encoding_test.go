package snowflake

import (
	"cmp"
	"math"
	"math/big"
	"strings"
	"testing"
	"testing/quick"

	"github.com/stretchr/testify/require"
)

// fixedEncodings restates the documented alphabets and widths, apart from the
// code under test.
var fixedEncodings = []struct {
	encoding Encoding
	name     string
	digits   string
	width    int
	greatest string // the text of 2^63-1
}{
	{Base32, "base32", "0123456789ABCDEFGHJKMNPQRSTVWXYZ", 13, "7ZZZZZZZZZZZZ"},
	{Base58, "base58", "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz", 11, "NQm6nKp8qFC"},
	{Base62, "base62", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 11, "AzL8n0Y58m7"},
	{Hex, "hex", "0123456789abcdef", 16, "7fffffffffffffff"},
}

func TestEncodingZeroIsDecimal(t *testing.T) {
	var e Encoding
	require.Equal(t, Decimal, e)
	require.Equal(t, "decimal", e.String())
	require.Equal(t, "0", e.Encode(0))
	require.Equal(t, "9223372036854775807", e.Encode(maxID))
	for _, row := range refusedTexts {
		id, err := e.Decode(row.text)
		requireInvalidID(t, err, row.says)
		require.Zero(t, id, row.name)
	}
}

func TestEncodingOfTheEnds(t *testing.T) {
	for _, row := range fixedEncodings {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.name, row.encoding.String())
			zero, one := row.digits[:1], row.digits[1:2]
			for text, id := range map[string]ID{
				strings.Repeat(zero, row.width):                0,
				strings.Repeat(zero, row.width-1) + one:        1,
				strings.Repeat(zero, row.width-2) + one + zero: ID(len(row.digits)),
				row.greatest: maxID,
			} {
				require.Equal(t, text, row.encoding.Encode(id))
				require.Equal(t, "id="+text, string(row.encoding.AppendEncode([]byte("id="), id)))
				back, err := row.encoding.Decode(text)
				require.NoError(t, err)
				require.Equal(t, id, back)
			}
		})
	}
}

func TestEncodingRefuses(t *testing.T) {
	for _, row := range []struct {
		name     string
		encoding Encoding
		text     string
		says     string
	}{
		{"base58 with I", Base58, "1111111111I", `has 'I' as byte 11, which is not a digit of base58`},
		{"base58 with 0", Base58, "01111111111", `has '0' as byte 1`},
		{"base58 with O", Base58, "11111O11111", `has 'O' as byte 6`},
		{"base58 with l", Base58, "1111111111l", `has 'l' as byte 11`},
		{"base32 with U", Base32, "000000000000U", `has 'U' as byte 13, which is not a digit of base32`},
		{"base32 with I for 1", Base32, "000000000000I", `has 'I'`},
		{"base32 with L for 1", Base32, "000000000000L", `has 'L'`},
		{"base32 with O for 0", Base32, "000000000000O", `has 'O'`},
		{"base32 in lower case", Base32, "000000000000a", `has 'a'`},
		{"base32 with a hyphen", Base32, "000000-000000", `has '-'`},
		{"base62 with a hyphen", Base62, "0000000000-", `has '-'`},
		{"hex in upper case", Hex, "000000000000000A", `has 'A'`},
		{"hex with 0x", Hex, "0x00000000000001", `has 'x' as byte 2`},
		{"hex above", Hex, "8000000000000000", "is above 2^63-1"},
		{"hex of all ones", Hex, "ffffffffffffffff", "is above 2^63-1"},
		{"base32 above", Base32, "8000000000000", "is above 2^63-1"},
		{"base32 of 13 times the highest digit", Base32, "ZZZZZZZZZZZZZ", "is above 2^63-1"},
		{"base32 that would wrap to 1", Base32, "G000000000001", "is above 2^63-1"},
		{"base58 above", Base58, "NQm6nKp8qFD", "is above 2^63-1"},
		{"base58 of 11 times the highest digit", Base58, "zzzzzzzzzzz", "is above 2^63-1"},
		{"base62 above", Base62, "AzL8n0Y58m8", "is above 2^63-1"},
		{"base62 of 11 times the highest digit", Base62, "zzzzzzzzzzz", "is above 2^63-1"},
		{"base62 of 2^64, which would wrap to 0", Base62, "LygHa16AHYG", "is above 2^63-1"},
		{"base58 of 2^64, which would wrap to 0", Base58, "jpXCZedGfVR", "is above 2^63-1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			id, err := row.encoding.Decode(row.text)
			requireInvalidID(t, err, row.says)
			require.Zero(t, id)
		})
	}
}

// Every byte at every position, judged by arithmetic of any size.
func TestEncodingRefusesEveryByteOutsideTheAlphabetAnywhere(t *testing.T) {
	for _, row := range fixedEncodings {
		t.Run(row.name, func(t *testing.T) {
			for _, start := range []string{row.encoding.Encode(0), row.encoding.Encode(maxID / 3), row.greatest} {
				for position := range row.width {
					for b := range 256 {
						text := start[:position] + string([]byte{byte(b)}) + start[position+1:]
						id, err := row.encoding.Decode(text)
						if want, ok := valueOf(text, row.digits); ok {
							if err != nil || id != want || row.encoding.Encode(id) != text {
								t.Fatalf("%q: got %d, %v, want %d", text, id, err, want)
							}
						} else {
							requireInvalidID(t, err, "")
							require.Zero(t, id)
						}
					}
				}
			}
		})
	}
}

// valueOf returns the number that a text is, if all its bytes are digits and it
// is at most 2^63-1.
func valueOf(text, digits string) (ID, bool) {
	value, base := new(big.Int), big.NewInt(int64(len(digits)))
	for i := range len(text) {
		digit := strings.IndexByte(digits, text[i])
		if digit < 0 {
			return 0, false
		}
		value.Add(value.Mul(value, base), big.NewInt(int64(digit)))
	}
	return ID(value.Int64()), value.IsInt64()
}

func TestEncodingRefusesEveryOtherWidth(t *testing.T) {
	for _, row := range fixedEncodings {
		t.Run(row.name, func(t *testing.T) {
			for width := range 70 {
				text := strings.Repeat(row.digits[:1], width)
				id, err := row.encoding.Decode(text)
				require.Zero(t, id)
				if width == row.width {
					require.NoError(t, err)
				} else {
					requireInvalidID(t, err, row.name)
				}
			}
			_, err := row.encoding.Decode(strings.Repeat("z", 1e6))
			requireInvalidID(t, err, "has 1000000 bytes")
		})
	}
}

func TestEncodingRoundTripsAndSorts(t *testing.T) {
	for _, row := range fixedEncodings {
		t.Run(row.name, func(t *testing.T) {
			check := func(first, second int64, shift uint8) bool {
				a, b := ID(first&math.MaxInt64), ID(second&math.MaxInt64)>>(shift%63)
				if shift%2 == 0 { // neighbours
					b = a ^ b&1
				}
				textA, textB := row.encoding.Encode(a), row.encoding.Encode(b)
				backA, errA := row.encoding.Decode(textA)
				backB, errB := row.encoding.Decode(textB)
				return errA == nil && errB == nil && backA == a && backB == b &&
					len(textA) == row.width && len(textB) == row.width &&
					cmp.Compare(textA, textB) == cmp.Compare(a, b)
			}
			require.NoError(t, quick.Check(check, seeded(20_000)))
		})
	}
}

func TestEncodingOfNegativeNumbersIsRefused(t *testing.T) {
	for e := range Hex + 1 {
		for _, id := range []ID{-1, -1_000_000_000_000_000, math.MinInt64} {
			text := e.Encode(id)
			require.Equal(t, id.String(), text)
			_, err := e.Decode(text)
			require.ErrorIs(t, err, ErrInvalidID)
		}
	}
}

func TestEncodingUnknown(t *testing.T) {
	for _, e := range []Encoding{Hex + 1, 255} {
		require.Equal(t, "123", e.Encode(123), "decimals")
		_, err := e.Decode("123")
		require.ErrorContains(t, err, e.String()+" is not an encoding")
		require.NotErrorIs(t, err, ErrInvalidID)
	}
	require.Equal(t, "Encoding(255)", Encoding(255).String())
}

func TestEncodingAllocatesOnlyWhatItReturns(t *testing.T) {
	buf := make([]byte, 0, maxWidth)
	for e := range Hex + 1 {
		text := e.Encode(maxID)
		require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _ = e.Encode(maxID) }), 1.0, e)
		require.Zero(t, testing.AllocsPerRun(100, func() { buf = e.AppendEncode(buf[:0], maxID) }), e)
		require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = e.Decode(text) }), e)
	}
}

func TestAlphabetsSortAndHoldEveryID(t *testing.T) {
	for _, row := range fixedEncodings {
		a := row.encoding.alphabet()
		require.Equal(t, row.digits, a.digits)
		for i := 1; i < len(a.digits); i++ {
			require.Less(t, a.digits[i-1], a.digits[i], "in ASCII order, each once")
		}
		greatest, base := big.NewInt(math.MaxInt64), big.NewInt(int64(len(a.digits)))
		require.Positive(t, new(big.Int).Exp(base, big.NewInt(int64(a.width)), nil).Cmp(greatest), "wide enough")
		require.LessOrEqual(t, new(big.Int).Exp(base, big.NewInt(int64(a.width-1)), nil).Cmp(greatest), 0, "only the last digit can leave 63 bits")
		require.LessOrEqual(t, a.width, maxWidth)
	}
}
