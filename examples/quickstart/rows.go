package main

import (
	_ "embed"
	"fmt"
	"strings"
)

// The input is the source of the world's time zones, see DATA.md.
//
//go:embed tzdata.zi
var tzdata string

// row is a line of the input. Line is its number, from 1.
type row struct {
	Line int
	Kind string
	Text string
}

// chunk is what one worker is asked to insert in one transaction.
type chunk struct {
	Number int // from 1
	Rows   []row
}

// readRows splits the input into lines and tells which kind each is of.
func readRows(input string) ([]row, error) {
	var rows []row
	for text := range strings.Lines(input) {
		text = strings.TrimSuffix(text, "\n")
		kind, err := kindOf(text)
		if err != nil {
			return nil, fmt.Errorf("line %d of the input: %w", len(rows)+1, err)
		}
		rows = append(rows, row{Line: len(rows) + 1, Kind: kind, Text: text})
	}
	return rows, nil
}

// kindOf knows the compact form of zic's input, in which keywords are single letters.
// A zone goes on over the lines that begin with an offset from UTC.
func kindOf(text string) (string, error) {
	first, _, _ := strings.Cut(text, " ")
	switch {
	case strings.HasPrefix(first, "#"):
		return "comment", nil
	case first == "R":
		return "rule", nil
	case first == "Z":
		return "zone", nil
	case first == "L":
		return "link", nil
	case first != "" && strings.Trim(first, "-0123456789:.") == "":
		return "continuation", nil
	}
	return "", fmt.Errorf("%q begins with none of #, R, Z, L and an offset", text)
}

// inChunks divides the rows into chunks of at most size.
func inChunks(rows []row, size int) []chunk {
	var chunks []chunk
	for len(rows) > 0 {
		n := min(size, len(rows))
		chunks = append(chunks, chunk{Number: len(chunks) + 1, Rows: rows[:n]})
		rows = rows[n:]
	}
	return chunks
}
