package main

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"
	"github.com/fatih/color"

	"github.com/snowfence/snowflake"
)

// field is a column of the output: its name in JSON and CSV is its heading in a table.
type field struct {
	name  string
	bare  bool                     // in JSON a number or an object, not a string
	paint func(text string) string // in a table, of the last column: widths do not know colours
}

// regionName is what the region is called, in flags, columns and labels.
const regionName = "region"

func column(name string) field { return field{name: name} }
func number(name string) field { return field{name: name, bare: true} }

// table writes rows as a table for people, JSON objects or CSV. The first error sticks.
type table struct {
	fields []field
	err    error
	write  func(values []string) error
	finish func() error
}

const (
	asTable = "table"
	asJSON  = "json"
	asCSV   = "csv"
)

// newTable returns one in the format of --json.
func (t *tool) newTable(fields ...field) *table {
	if t.json {
		return newTable(t.out, asJSON, fields)
	}
	return newTable(t.out, asTable, fields)
}

func newTable(out io.Writer, format string, fields []field) *table {
	buffered := bufio.NewWriterSize(out, 1<<16)
	t := &table{fields: fields, finish: buffered.Flush}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	switch format {
	case asJSON:
		t.write = func(values []string) error {
			var line strings.Builder
			for i, f := range fields {
				line.WriteByte("{,"[min(i, 1)])
				fmt.Fprintf(&line, "%q:", f.name)
				if f.bare {
					line.WriteString(values[i])
					continue
				}
				quoted, err := json.Marshal(values[i])
				if err != nil {
					return err
				}
				line.Write(quoted)
			}
			line.WriteString("}\n")
			_, err := buffered.WriteString(line.String())
			return err
		}
	case asCSV:
		w := csv.NewWriter(buffered)
		t.err = w.Write(names)
		t.write = w.Write
		t.finish = func() error {
			w.Flush()
			if err := w.Error(); err != nil {
				return err
			}
			return buffered.Flush()
		}
	default:
		// Rows are laid out a screenful at a time, so that endless input is seen.
		w := tabwriter.NewWriter(buffered, 0, 0, 2, ' ', 0)
		rows := 0
		line := func(values []string) error {
			_, err := fmt.Fprintln(w, strings.Join(values, "\t"))
			return err
		}
		t.finish = func() error {
			if err := w.Flush(); err != nil {
				return err
			}
			return buffered.Flush()
		}
		t.write = func(values []string) error {
			if rows == 0 {
				if err := line(names); err != nil {
					return err
				}
			}
			if rows++; rows%1000 == 0 {
				if err := t.finish(); err != nil {
					return err
				}
			}
			values = slices.Clone(values)
			for i, value := range values {
				values[i] = printable(value)
			}
			if paint := fields[len(fields)-1].paint; paint != nil {
				values[len(values)-1] = paint(values[len(values)-1])
			}
			return line(values)
		}
	}
	return t
}

func (t *table) add(values ...string) {
	if t.err == nil {
		t.err = t.write(values)
	}
}

func (t *table) flush() error {
	if t.err != nil {
		return t.err
	}
	return t.finish()
}

// printJSON writes one value as a line.
func (t *tool) printJSON(value any) error {
	encoder := json.NewEncoder(t.out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// printf writes text for people. That a pipe has been closed is found out at its end.
func (t *tool) printf(format string, args ...any) { _, _ = fmt.Fprintf(t.out, format, args...) }

func (t *tool) warnf(format string, args ...any) { _, _ = fmt.Fprintf(t.err, format, args...) }

// stamp is a time in the form that is fixed for scripts.
func stamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

// tickStamp is stamp, to the nanosecond where the layout's ticks are no whole milliseconds.
func tickStamp(at time.Time, layout snowflake.Layout) string {
	if layout.Tick%time.Millisecond != 0 {
		return at.UTC().Format("2006-01-02T15:04:05.000000000Z")
	}
	return stamp(at)
}

// printable is what may be shown on a terminal: others can write into a lease record, and
// into a file of IDs, what would move its cursor or write to its clipboard.
func printable(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// Colours are on where the output is a terminal and NO_COLOR is not set: color sees to it.
var (
	good = color.New(color.FgGreen).SprintFunc()
	bad  = color.New(color.FgRed, color.Bold).SprintFunc()
	dim  = color.New(color.Faint).SprintFunc()
	bold = color.New(color.Bold).SprintFunc()
)

// thousands writes 1234567 as 1,234,567.
func thousands[N ~int | ~int64](n N) string { return humanize.Comma(int64(n)) }

// plural writes "1 repeat", "2 repeats".
func plural[N ~int | ~int64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return thousands(n) + " " + one + "s"
}
