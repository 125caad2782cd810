package snowflake

import (
	"fmt"
	"math"
	"strconv"
)

// Encoding is a way to write an ID as text.
//
//	Decimal  1 to 19 digits  26091926323200001
//	Hex      16 digits       005cb27800000001
//	Base32   13 characters   00Q5JF0000001
//	Base58   11 characters   14Wk5fJaUD6
//	Base62   11 characters   01vV4zg0dzV
//
// All but Decimal have a fixed width, padded with the alphabet's zero, and digits
// in ASCII order, so that texts sort, byte by byte, as the numbers do: in file
// names, keys of a key-value store, or a column with a binary collation. Base58 and
// Base62 tell upper from lower case: in a column whose collation does not, two IDs
// can be equal and the order is wrong. Hex and Base32 are safe there.
//
// Each ID has exactly one text in each encoding. A text does not tell which
// encoding made it, and nothing in it detects a typing error.
//
// Encodings hide nothing: an ID shows its time and worker in any of them.
//
// The zero Encoding is Decimal. An Encoding is a constant value, safe for use from
// many goroutines.
type Encoding uint8

const (
	// Decimal is what String writes and ParseID reads. Of variable width: it
	// does not sort as the numbers do.
	Decimal Encoding = iota
	// Base32 is 13 characters of Crockford's alphabet, in upper case: digits
	// and letters without I, L, O and U. Lower case and Crockford's aliases for
	// digits are refused. To be read aloud and typed, upper-case it first.
	Base32
	// Base58 is 11 characters of Bitcoin's alphabet: digits and letters without
	// 0, I, O and l, which look alike. It is the number in base 58, padded with
	// 1 to the width, not the encoding of eight bytes.
	Base58
	// Base62 is 11 characters: 0-9, A-Z, a-z.
	Base62
	// Hex is 16 lower-case hexadecimal digits.
	Hex
)

// alphabet is what the fixed-width encodings differ in. Immutable after
// newAlphabet.
type alphabet struct {
	name   string
	digits string
	// width is the smallest for which base^width > 2^63-1. For every base here
	// base^(width-1) <= 2^63-1 holds as well, so that a number of width digits
	// can leave the 63 bits only at its last digit.
	width int
	// values holds the value of each digit, and noDigit for all other bytes.
	values [256]uint8
}

const (
	noDigit  = 0xFF
	maxWidth = 20 // of any text: a sign and 19 decimal digits
)

// alphabets is indexed by Encoding, never changed.
var alphabets = [...]*alphabet{
	Base32: newAlphabet("base32", "0123456789ABCDEFGHJKMNPQRSTVWXYZ"),
	Base58: newAlphabet("base58", "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"),
	Base62: newAlphabet("base62", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"),
	Hex:    newAlphabet("hex", "0123456789abcdef"),
}

func newAlphabet(name, digits string) *alphabet {
	a := &alphabet{name: name, digits: digits}
	for i := range a.values {
		a.values[i] = noDigit
	}
	for value := range len(digits) {
		a.values[digits[value]] = uint8(value)
	}
	for rest := uint64(math.MaxInt64); rest > 0; rest /= uint64(len(digits)) {
		a.width++
	}
	return a
}

// alphabet returns nil for Decimal and for values that are no Encoding.
func (e Encoding) alphabet() *alphabet {
	if int(e) < len(alphabets) {
		return alphabets[e]
	}
	return nil
}

// String returns the encoding's name in lower case: decimal, base32, base58,
// base62 or hex; for another value Encoding(n).
func (e Encoding) String() string {
	if e == Decimal {
		return "decimal"
	}
	if a := e.alphabet(); a != nil {
		return a.name
	}
	return "Encoding(" + strconv.Itoa(int(e)) + ")"
}

// Encode returns the text of id.
//
// It cannot fail. A negative number, which no generator makes, is written as a
// decimal with its sign in every encoding, and an Encoding that is none of the
// constants writes decimals; Decode refuses both.
func (e Encoding) Encode(id ID) string {
	var buf [maxWidth]byte
	return string(e.AppendEncode(buf[:0], id))
}

// AppendEncode appends what Encode returns to dst. It allocates only where dst
// has no room.
func (e Encoding) AppendEncode(dst []byte, id ID) []byte {
	a := e.alphabet()
	if a == nil || id < 0 {
		return strconv.AppendInt(dst, int64(id), 10)
	}
	var buf [maxWidth]byte
	rest := uint64(id)
	// The loops are apart because a division by a constant is a multiplication
	// or a shift, several times as fast as one by a variable.
	switch e {
	case Base32:
		for i := a.width - 1; i >= 0; i-- {
			buf[i] = a.digits[rest%32]
			rest /= 32
		}
	case Base58:
		for i := a.width - 1; i >= 0; i-- {
			buf[i] = a.digits[rest%58]
			rest /= 58
		}
	case Base62:
		for i := a.width - 1; i >= 0; i-- {
			buf[i] = a.digits[rest%62]
			rest /= 62
		}
	default: // Hex; Decimal has no alphabet
		for i := a.width - 1; i >= 0; i-- {
			buf[i] = a.digits[rest%16]
			rest /= 16
		}
	}
	return append(dst, buf[:a.width]...)
}

// Decode returns the ID whose text this is. It accepts exactly what Encode writes
// for 0 and for IDs: for any text that it accepts, Encode of the result is that
// text again. Another width, a byte outside the alphabet (other case and
// look-alikes among them), and numbers above 2^63-1 are ErrInvalidID. The text of
// 0 gives the zero ID, as in ParseID.
//
// An Encoding that is none of the constants is an error that names its value; it
// is a mistake in the program, not in the text, and so not ErrInvalidID.
func (e Encoding) Decode(text string) (ID, error) {
	if e == Decimal {
		return ParseID(text)
	}
	a := e.alphabet()
	if a == nil {
		return 0, fmt.Errorf("snowflake: decode: %v is not an encoding, use Decimal, Base32, Base58, Base62 or Hex", e)
	}
	if len(text) != a.width {
		return 0, invalidText(text, "has %d bytes, %s has %d", len(text), a.name, a.width)
	}
	base, value := uint64(len(a.digits)), uint64(0)
	for i := range len(text) {
		digit := uint64(a.values[text[i]])
		if digit == noDigit {
			return 0, invalidText(text, "has %s as byte %d, which is not a digit of %s", byteName(text[i]), i+1, a.name)
		}
		if i == a.width-1 && value > (math.MaxInt64-digit)/base {
			return 0, invalidText(text, "is above 2^63-1")
		}
		value = value*base + digit // below 2^63: see alphabet.width
	}
	return ID(value), nil
}
