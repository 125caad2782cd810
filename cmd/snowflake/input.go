package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/snowfence/snowflake"
)

// row is one ID of the input, or what is wrong with it.
type row struct {
	place int64  // the line, or the number of the value
	text  string // of the ID
	when  string // of the time column, if there is one
	err   error
}

// input says how IDs are read. Its rows come one after the other: what is kept does not
// grow with the input.
type input struct {
	format     string // lines, csv, json
	column     string
	timeColumn string
	encoding   encodingFlag
	skipBad    bool

	// Instead of a file: IDs as arguments, or rows of a database.
	args   []string
	rowsOf func(context.Context, func(row) error) error

	skipped int64
}

const (
	inLines = "lines"
	inCSV   = "csv"
	inJSON  = "json"
)

func (in *input) addFlags(c *cobra.Command) {
	flags := c.Flags()
	flags.Var(newChoice(&in.format, inLines, inLines, inCSV, inJSON), "input", "what is read: an ID a line, CSV, or JSON values (a stream, or one array)")
	flags.StringVar(&in.column, "column", "", "the column of CSV (a name, or a number from 1 on), or the key of JSON objects")
	flags.Var(&in.encoding, "base", "how IDs are written: decimal, hex, base32, base58, base62")
	bad := "stop"
	flags.Var(&choice{value: &bad, allowed: []string{"stop", "skip"}, set: func(v string) { in.skipBad = v == "skip" }},
		"bad", "at bad input: stop, or skip it, name it, and exit with 1 in the end")
	complete(c, "input", inLines, inCSV, inJSON)
	complete(c, "bad", "stop", "skip")
	complete(c, "base", encodingNames()...)
}

// take decides between IDs as arguments and the standard input.
func (in *input) take(c *cobra.Command, t *tool, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "-":
	case len(args) > 0 && (c.Flags().Changed("input") || in.column != ""):
		return usage("--input and --column are for the standard input, and there are IDs as arguments")
	case len(args) > 0:
		in.args = args
	case t.waitsForPerson():
		return usage("no IDs are given: name some, or give - for the standard input")
	}
	return nil
}

// open returns what a file argument names: "-" is the standard input.
func (t *tool) open(name string) (io.ReadCloser, int64, error) {
	if name == "-" {
		return io.NopCloser(t.in), -1, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return file, -1, err
	}
	return file, info.Size(), nil
}

// waitsForPerson says whether reading the standard input would wait for somebody to type.
func (t *tool) waitsForPerson() bool {
	file, ok := t.in.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// each calls use with every ID. Bad input is told, with its place, and ends it unless it
// is to be skipped.
func (in *input) each(ctx context.Context, t *tool, from io.Reader, use func(id snowflake.ID, r row) error) error {
	var count int
	return in.rows(ctx, withoutMark(&interruptible{ctx.Done(), from, nil}), func(r row) error {
		if count++; count%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		var id snowflake.ID
		if r.err == nil {
			id, r.err = in.encoding.Decode(strings.TrimSpace(r.text))
		}
		if r.err == nil && id == 0 {
			r.err = fmt.Errorf("%w: 0 is no ID", snowflake.ErrInvalidID)
		}
		if r.err == nil {
			r.err = use(id, r)
			if stop := (*stopError)(nil); errors.As(r.err, &stop) {
				return stop.err
			}
		}
		if r.err == nil {
			return nil
		}
		err := fmt.Errorf("%s %d: %w", in.where(), r.place, r.err)
		if !in.skipBad {
			return err
		}
		in.skipped++
		t.warnf("snowflake: %s\n", strings.ReplaceAll(err.Error(), "snowflake: ", ""))
		return nil
	})
}

// withoutMark leaves out the byte order mark that some programs write first.
func withoutMark(from io.Reader) io.Reader {
	buffered := bufio.NewReaderSize(from, 1<<16)
	return readerFunc(func(p []byte) (int, error) {
		if buffered != nil {
			const mark = "\xef\xbb\xbf"
			if first, _ := buffered.Peek(1); string(first) == mark[:1] { // do not wait for more
				if first, _ = buffered.Peek(len(mark)); string(first) == mark {
					_, _ = buffered.Discard(len(mark))
				}
			}
			from, buffered = buffered, nil
		}
		return from.Read(p)
	})
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// interruptible is a reader whose Read ends when done does: one of the standard input
// cannot be ended otherwise.
type interruptible struct {
	done <-chan struct{}
	from io.Reader
	own  []byte // what is read into: a Read that was left to itself must not write to p
}

func (r *interruptible) Read(p []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	if len(r.own) < len(p) {
		r.own = make([]byte, len(p))
	}
	buffer := r.own[:len(p)]
	results := make(chan result, 1)
	go func() {
		n, err := r.from.Read(buffer)
		results <- result{n, err}
	}()
	select {
	case read := <-results:
		return copy(p, buffer[:read.n]), read.err
	case <-r.done:
		return 0, context.Canceled
	}
}

// where says what the place of a row counts.
func (in *input) where() string {
	switch {
	case in.args != nil:
		return "argument"
	case in.rowsOf != nil:
		return "row"
	case in.format == inJSON:
		return "value"
	}
	return "line"
}

// stopError is an error of use that is not the input's.
type stopError struct{ err error }

func (e *stopError) Error() string { return e.err.Error() }

// end writes what is left of the output, and returns how a command ends whose input has
// ended with err.
func (in *input) end(err error, out *table) error {
	if flushed := out.flush(); err == nil {
		err = flushed
	}
	if err != nil {
		return err
	}
	return in.result()
}

// result is how a command ends that has skipped input.
func (in *input) result() error {
	if in.skipped > 0 {
		return &exit{exitError, fmt.Errorf("%s skipped", plural(in.skipped, "bad value"))}
	}
	return nil
}

func (in *input) rows(ctx context.Context, from io.Reader, use func(row) error) error {
	switch {
	case in.rowsOf != nil:
		return in.rowsOf(ctx, use)
	case in.args != nil:
		for i, text := range in.args {
			if err := use(row{place: int64(i + 1), text: text}); err != nil {
				return err
			}
		}
		return nil
	case in.format == inCSV:
		return in.csvRows(from, use)
	case in.format == inJSON:
		return in.jsonRows(from, use)
	}
	if in.column != "" || in.timeColumn != "" {
		return usage("a column needs --input csv or json")
	}
	scanner := bufio.NewScanner(from)
	scanner.Buffer(make([]byte, 1<<16), 1<<20)
	var line int64
	for scanner.Scan() {
		line++
		if text := scanner.Text(); strings.TrimSpace(text) != "" {
			if err := use(row{place: line, text: text}); err != nil {
				return err
			}
		}
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("line %d: %w", line+1, err)
	}
	return nil
}

// csvRecords bounds what csv.Reader reads for one record: a quote that is left open would
// make one of all that follows.
type csvRecords struct {
	from        io.Reader
	begin, read int64 // where the record begins, and how far it was read
}

func (r *csvRecords) Read(p []byte) (int, error) {
	if r.read-r.begin > maxRecord {
		return 0, errRecord
	}
	n, err := r.from.Read(p)
	r.read += int64(n)
	return n, err
}

const maxRecord = 1 << 20

var errRecord = fmt.Errorf("a record is longer than %d bytes: is a quote not closed?", maxRecord)

func (in *input) csvRows(from io.Reader, use func(row) error) error {
	bounded := &csvRecords{from: from}
	r := csv.NewReader(bounded)
	r.ReuseRecord, r.FieldsPerRecord = true, -1
	index, timeIndex, err := in.csvColumns(r)
	if err != nil {
		return err
	}
	for last := 0; ; {
		bounded.begin = r.InputOffset()
		record, err := r.Read()
		if err == io.EOF {
			return nil
		}
		var read row
		var parse *csv.ParseError
		switch {
		case errors.As(err, &parse) && errors.Is(err, csv.ErrQuote) && parse.StartLine != parse.Line:
			// How many rows it has swallowed nobody knows: that is not for skipping.
			return fmt.Errorf("line %d: a quote is opened that line %d does not close: %w", parse.StartLine, parse.Line, parse.Err)
		case errors.As(err, &parse):
			read = row{place: int64(parse.Line), err: parse.Err}
		case err != nil:
			return fmt.Errorf("after line %d: %w", last, err)
		default:
			line, _ := r.FieldPos(0)
			read = row{place: int64(line)}
			if read.text, read.err = nth(record, index); read.err == nil && in.timeColumn != "" {
				read.when, read.err = nth(record, timeIndex)
			}
		}
		last = int(read.place)
		if err := use(read); err != nil {
			return err
		}
	}
}

// csvColumns returns the numbers of the columns, from 1 on. If one has a name, the first
// row tells them.
func (in *input) csvColumns(r *csv.Reader) (index, timeIndex int, err error) {
	column := cmp.Or(in.column, "1")
	index, err = strconv.Atoi(column)
	timeIndex, timeErr := strconv.Atoi(cmp.Or(in.timeColumn, "1"))
	if err == nil && timeErr == nil {
		return index, timeIndex, nil
	}
	header, err := r.Read()
	if err != nil {
		return 0, 0, fmt.Errorf("the header of the CSV: %w", err)
	}
	find := func(name string, number int) (int, error) {
		if i := slices.Index(header, name); i >= 0 {
			return i + 1, nil
		}
		if number > 0 {
			return number, nil
		}
		return 0, usage("no column is called %q, there are %s", name, strings.Join(header, ", "))
	}
	if index, err = find(column, index); err == nil && in.timeColumn != "" {
		timeIndex, err = find(in.timeColumn, timeIndex)
	}
	return index, timeIndex, err
}

func nth(record []string, n int) (string, error) {
	if n < 1 || n > len(record) {
		return "", fmt.Errorf("there are %s, and no number %d", plural(len(record), "column"), n)
	}
	return record[n-1], nil
}

// jsonRows reads values one after the other, and the elements of arrays among them.
func (in *input) jsonRows(from io.Reader, use func(row) error) error {
	decoder := json.NewDecoder(from)
	place := int64(1)
	next := func() error {
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return err
		}
		read := row{place: place}
		read.text, read.when, read.err = in.jsonRow(value)
		place++
		if err := use(read); err != nil {
			return &stopError{err}
		}
		return nil
	}
	for {
		err := eachJSON(decoder, next)
		if stop := (*stopError)(nil); errors.As(err, &stop) {
			return stop.err
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("value %d: %w", place, err) // what follows cannot be told
		}
	}
}

// eachJSON calls next for the value that comes next, or for each of its elements. io.EOF:
// the input ends where it may.
func eachJSON(decoder *json.Decoder, next func() error) error {
	// More tells nothing of an array's end from that of the input, or from an error: Token does.
	if !decoder.More() {
		_, err := decoder.Token()
		return err
	}
	if first, _ := firstByte(decoder.Buffered()); first != '[' {
		return next()
	}
	if _, err := decoder.Token(); err != nil {
		return err
	}
	for decoder.More() {
		if err := next(); err != nil {
			return err
		}
	}
	_, err := decoder.Token()
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// firstByte returns the first that is no space.
func firstByte(r io.Reader) (byte, error) {
	var b [1]byte
	for {
		if _, err := r.Read(b[:]); err != nil || !strings.ContainsRune(" \t\r\n", rune(b[0])) {
			return b[0], err
		}
	}
}

func (in *input) jsonRow(value json.RawMessage) (text, when string, err error) {
	if in.column == "" && in.timeColumn == "" {
		text, err = jsonScalar(value)
		return text, "", err
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(value, &object); err != nil {
		return "", "", fmt.Errorf("it must be an object with the key %q", in.column)
	}
	key := in.column
	if key == "" {
		key = "id"
	}
	pick := func(key string) (string, error) {
		value, ok := object[key]
		if !ok {
			return "", fmt.Errorf("it has no key %q", key)
		}
		return jsonScalar(value)
	}
	if text, err = pick(key); err == nil && in.timeColumn != "" {
		when, err = pick(in.timeColumn)
	}
	return text, when, err
}

// jsonScalar returns the digits of a number as they stand, or a string.
func jsonScalar(value json.RawMessage) (string, error) {
	switch value[0] {
	case '"':
		var text string
		err := json.Unmarshal(value, &text)
		return text, err
	case '{', '[', 'n', 't', 'f':
		return "", fmt.Errorf("it is %.40s, must be a number or a string", value)
	}
	return string(value), nil
}

// choice is a flag with a few values.
type choice struct {
	value   *string
	allowed []string
	set     func(string)
}

func newChoice(value *string, first string, allowed ...string) *choice {
	*value = first
	return &choice{value: value, allowed: allowed}
}

func (c *choice) String() string { return *c.value }
func (c *choice) Type() string   { return strings.Join(c.allowed, "|") }

func (c *choice) Set(text string) error {
	for _, allowed := range c.allowed {
		if text == allowed {
			*c.value = text
			if c.set != nil {
				c.set(text)
			}
			return nil
		}
	}
	return fmt.Errorf("must be %s", strings.Join(c.allowed, ", "))
}

var encodings = []snowflake.Encoding{snowflake.Decimal, snowflake.Hex, snowflake.Base32, snowflake.Base58, snowflake.Base62}

func encodingNames() []string {
	names := make([]string, len(encodings))
	for i, e := range encodings {
		names[i] = e.String()
	}
	return names
}

// encodingFlag is --base.
type encodingFlag struct{ snowflake.Encoding }

func (f *encodingFlag) Type() string { return "BASE" }

func (f *encodingFlag) Set(text string) error {
	for _, e := range encodings {
		if e.String() == text {
			f.Encoding = e
			return nil
		}
	}
	return fmt.Errorf("must be %s", strings.Join(encodingNames(), ", "))
}
