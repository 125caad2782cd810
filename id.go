package snowflake

import (
	"database/sql"
	"database/sql/driver"
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// ID is a primary key: a positive 64-bit integer. 0 is "no ID": no generator
// returns it, and it is never written to a database. Negative numbers are no IDs
// either; whatever reads or writes an ID refuses them with ErrInvalidID.
//
// In JSON and as text an ID is a quoted decimal, "26091926323200001": a JSON number
// above 2^53 loses its last digits in browsers, in jq and in Go's map[string]any.
// To leave an absent ID out of JSON, use the tag option omitzero.
//
// In a database an ID is a signed 64-bit integer column, such as bigint. For a
// column that may be NULL, use sql.Null[snowflake.ID] or *snowflake.ID.
//
// IDs compare with < as they were minted, within the limits that the package
// documentation states. An ID is a value; its methods may be called from many
// goroutines at once, except those with a pointer receiver, which write to it.
type ID int64

var (
	_ fmt.Stringer             = ID(0)
	_ encoding.TextAppender    = ID(0)
	_ encoding.TextMarshaler   = ID(0)
	_ encoding.TextUnmarshaler = (*ID)(nil)
	_ json.Unmarshaler         = (*ID)(nil)
	_ driver.Valuer            = ID(0)
	_ sql.Scanner              = (*ID)(nil)
)

// maxDigits is the length of 2^63-1 in decimal. No number of as many digits
// overflows a uint64, so that one comparison at the end is enough.
const maxDigits = 19

// ParseID reads an ID in its one decimal spelling, as String writes it: digits
// alone, without sign, leading zeros, spaces or underscores, at most 2^63-1. "0"
// is the zero ID; check IsZero where an ID is required. Anything else is
// ErrInvalidID, with what is wrong; the error quotes no more than the beginning of
// a long text, so that it is fit for a log.
//
// Because there is one spelling, two texts that both parse name the same ID
// exactly if they are equal.
func ParseID(text string) (ID, error) {
	if text == "" {
		return 0, invalidText(text, "is empty")
	}
	if len(text) > maxDigits {
		return 0, invalidText(text, "has %d bytes, an ID has at most %d digits", len(text), maxDigits)
	}
	var value uint64
	for i := range len(text) {
		digit := text[i] - '0' // wraps to above 9 for bytes below '0'
		if digit > 9 {
			return 0, invalidText(text, "has %s as byte %d, which is not a digit", byteName(text[i]), i+1)
		}
		value = value*10 + uint64(digit)
	}
	if text[0] == '0' && len(text) > 1 {
		return 0, invalidText(text, "has a leading zero")
	}
	if value > math.MaxInt64 {
		return 0, invalidText(text, "is above 2^63-1")
	}
	return ID(value), nil
}

// Int64 returns the ID as a plain number, for interfaces that know no ID.
func (id ID) Int64() int64 { return int64(id) }

// IsZero reports whether id is 0, which is no ID. encoding/json asks it for the
// tag option omitzero.
func (id ID) IsZero() bool { return id == 0 }

// String returns the ID in decimal. It cannot fail and so writes a negative
// number, which is no ID, with its sign; ParseID refuses that.
func (id ID) String() string { return strconv.FormatInt(int64(id), 10) }

// AppendText appends the ID in decimal to dst, see encoding.TextAppender. A
// negative number is ErrInvalidID, and dst is then returned as it was.
func (id ID) AppendText(dst []byte) ([]byte, error) {
	if id < 0 {
		return dst, invalidNumber(int64(id), "is negative")
	}
	return strconv.AppendInt(dst, int64(id), 10), nil
}

// MarshalText returns the ID in decimal, or ErrInvalidID for a negative number.
// encoding/json uses it too and puts the quotes around, for values and for the
// keys of maps.
func (id ID) MarshalText() ([]byte, error) { return id.AppendText(nil) }

// UnmarshalText reads what MarshalText writes, as ParseID does. Upon an error the
// ID keeps its value.
func (id *ID) UnmarshalText(text []byte) error {
	parsed, err := ParseID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}

// UnmarshalJSON reads "123", which is what is written, and 123, for senders that
// write numbers; null leaves the value as it is, as everywhere in encoding/json.
// Everything else is ErrInvalidID: fractions, exponents, signs, an empty string,
// leading zeros, and escapes inside the string, which no writer of digits has a
// reason for. Upon an error the ID keeps its value.
//
// A number that a sender has rounded through a floating-point type cannot be told
// from a right one: let senders use strings.
func (id *ID) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	digits := data
	if last := len(data) - 1; last > 0 && data[0] == '"' && data[last] == '"' {
		digits = data[1:last]
	}
	parsed, err := ParseID(string(digits))
	if err != nil {
		return fmt.Errorf("%w (JSON must be a whole number or a string of digits)", err)
	}
	*id = parsed
	return nil
}

// Scan reads a database column: any integer from 0 to 2^63-1, or its decimal text
// as string or []byte, see ParseID. All else is ErrInvalidID: NULL (scan into a
// sql.Null[snowflake.ID]), negative or greater numbers, and other types, floating
// point among them, because an ID may have been rounded on the way into one. Upon
// an error the ID keeps its value. src is not kept.
func (id *ID) Scan(src any) error {
	var (
		parsed ID
		err    error
	)
	switch value := src.(type) {
	case nil:
		err = fmt.Errorf("%w: the column is NULL: scan into a sql.Null[snowflake.ID]", ErrInvalidID)
	case string:
		parsed, err = ParseID(value)
	case []byte:
		parsed, err = ParseID(string(value))
	case int64:
		parsed, err = fromSigned(value)
	case int:
		parsed, err = fromSigned(int64(value))
	case int32:
		parsed, err = fromSigned(int64(value))
	case int16:
		parsed, err = fromSigned(int64(value))
	case int8:
		parsed, err = fromSigned(int64(value))
	case uint64:
		parsed, err = fromUnsigned(value)
	case uint:
		parsed, err = fromUnsigned(uint64(value))
	case uint32:
		parsed, err = fromUnsigned(uint64(value))
	case uint16:
		parsed, err = fromUnsigned(uint64(value))
	case uint8:
		parsed, err = fromUnsigned(uint64(value))
	case ID:
		parsed, err = fromSigned(int64(value))
	case float64, float32:
		err = fmt.Errorf("%w: the column is a %T, in which an ID may have been rounded: make it a 64-bit integer", ErrInvalidID, src)
	default:
		err = fmt.Errorf("%w: the column is a %T: make it a 64-bit integer or decimal text", ErrInvalidID, src)
	}
	if err != nil {
		return err // database/sql adds the name of the column
	}
	*id = parsed
	return nil
}

// Value returns the ID as the int64 that a driver stores. Zero and negative
// numbers are ErrInvalidID: a zero ID in an INSERT is an ID that somebody forgot
// to mint. Where a column may be empty, an invalid sql.Null[snowflake.ID] or a nil
// *snowflake.ID stores NULL.
func (id ID) Value() (driver.Value, error) {
	switch {
	case id == 0:
		return nil, invalidNumber(0, "is never stored: mint an ID first, or use sql.Null[snowflake.ID] to store NULL")
	case id < 0:
		return nil, invalidNumber(int64(id), "is negative and never stored")
	}
	return int64(id), nil
}

func fromSigned(value int64) (ID, error) {
	if value < 0 {
		return 0, invalidNumber(value, "is negative")
	}
	return ID(value), nil
}

func fromUnsigned(value uint64) (ID, error) {
	if value > math.MaxInt64 {
		return 0, fmt.Errorf("%w: %d is above 2^63-1", ErrInvalidID, value)
	}
	return ID(value), nil
}

func invalidNumber(value int64, problem string) error {
	return fmt.Errorf("%w: %d %s", ErrInvalidID, value, problem)
}

// maxQuoted bounds, in bytes, how much of a refused text an error repeats.
const maxQuoted = 32

// invalidText returns ErrInvalidID with the beginning of the text and what is
// wrong with it. It keeps no reference to text.
func invalidText(text, problem string, args ...any) error {
	var quoted string
	if len(text) > maxQuoted {
		quoted = strconv.Quote(text[:maxQuoted]) + "..."
	} else {
		quoted = strconv.Quote(text)
	}
	return fmt.Errorf("%w: %s %s", ErrInvalidID, quoted, fmt.Sprintf(problem, args...))
}

// byteName tells a byte: as a character where it is printable ASCII, else as a
// number, because it may be a part of a character.
func byteName(b byte) string {
	if b < ' ' || b > '~' {
		return fmt.Sprintf("0x%02X", b)
	}
	return strconv.QuoteRune(rune(b))
}
