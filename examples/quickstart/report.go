//go:build unix

package main

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"os"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/snowfence/snowflake"
)

const clockFormat = "15:04:05.000"

// report shows what happened, and fails if something is wrong with the table.
func (f *fleet) report(ctx context.Context, db *sql.DB, input []row) error {
	var rows, distinct int
	var oldest, newest snowflake.ID
	err := db.QueryRowContext(ctx, "SELECT count(*), count(DISTINCT id), min(id), max(id) FROM lines").Scan(&rows, &distinct, &oldest, &newest)
	if err != nil {
		return err
	}
	perCode, err := f.checkRows(ctx, db, input)
	if err != nil {
		return err
	}

	out := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	line("")
	line("rows in the table\t%d\tof %d lines", rows, len(input))
	line("distinct keys\t%d\tand %d minted in all, none twice", distinct, len(f.ledger.owner))
	for code := range codes {
		line("rows under code %d\t%d", code, perCode[code])
	}
	line("")
	line("process\tcodes\trows\tended")
	for _, p := range f.processes {
		line("%d\t%s\t%d\t%s%s", p.cmd.Process.Pid, codesOf(p), p.rows, p.end, f.remark(p))
	}
	line("")
	f.takeover(line, "killed", f.killed)
	first := f.replacement.grants[0]
	line("its replacement\tprocess %d\thad code %d, token %d, %v after its start", f.replacement.cmd.Process.Pid, first.Code, first.Token,
		first.Acquired.Sub(f.replacement.started).Round(time.Millisecond))
	f.takeover(line, "stopped", f.stopped)
	line("the stopped worker\tresumed, refused:\t%s", cmp.Or(f.stopped.refused, "never, it had its new code before it needed a key"))
	now := f.stopped.grant()
	line("\tand went on with\tcode %d, token %d", now.Code, now.Token)
	line("")
	for _, end := range []struct {
		name string
		id   snowflake.ID
	}{{"oldest key", oldest}, {"newest key", newest}} {
		p, err := layout().Unpack(end.id)
		if err != nil {
			return err
		}
		line("%s\t%d\t%s, region %d, worker %d, sequence %d", end.name, end.id, p.Time.Format(time.RFC3339Nano), p.Region, p.Worker, p.Sequence)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	switch {
	case rows != distinct:
		return fmt.Errorf("a key repeats: %d rows have %d keys", rows, distinct)
	case rows != len(input):
		return fmt.Errorf("%d of %d lines are in the table", rows, len(input))
	}
	for _, p := range []*process{f.killed, f.stopped} {
		before, after := f.ledger.lastSpan(p), f.ledger.after(p)
		switch {
		case after.Floor.Before(before.Ceiling):
			return fmt.Errorf("code %d was used from %v on, below the ceiling %v of its owner", before.Code, after.Floor, before.Ceiling)
		case after.Acquired.Before(after.Floor):
			return fmt.Errorf("code %d was acquired at %v, before its ceiling %v had passed", before.Code, after.Acquired, after.Floor)
		}
	}
	fmt.Println("\nno key repeats, no line is missing, and every key lies inside its owner's grant")
	return nil
}

// checkRows compares the table with the input and the ledger, and counts the rows of each
// code.
func (f *fleet) checkRows(ctx context.Context, db *sql.DB, input []row) (map[int]int, error) {
	perCode := make(map[int]int)
	table, err := db.QueryContext(ctx, "SELECT id, line, kind, text FROM lines")
	if err != nil {
		return nil, err
	}
	defer table.Close() //nolint:errcheck // only read from
	for table.Next() {
		var id snowflake.ID
		var r row
		if err := table.Scan(&id, &r.Line, &r.Kind, &r.Text); err != nil {
			return nil, err
		}
		if r.Line < 1 || r.Line > len(input) || r != input[r.Line-1] {
			return nil, fmt.Errorf("line %d is not in the table as it was in the input", r.Line)
		}
		if f.ledger.owner[id] == nil && !f.unreported(id) {
			return nil, fmt.Errorf("key %d is in the table, but nobody has minted it", id)
		}
		parts, err := layout().Unpack(id)
		if err != nil {
			return nil, err
		}
		perCode[parts.Worker]++
	}
	return perCode, table.Err()
}

// unreported says whether a key can be of the chunk that the killed worker had
// committed, but not reported.
func (f *fleet) unreported(id snowflake.ID) bool {
	parts, err := layout().Unpack(id)
	s := f.ledger.lastSpan(f.killed)
	return err == nil && parts.Worker == s.Code && !parts.Time.Before(s.Floor) && parts.Time.Before(s.Ceiling)
}

func (f *fleet) takeover(line func(string, ...any), what string, p *process) {
	before, after := f.ledger.lastSpan(p), f.ledger.after(p)
	// Its ceiling, as it was stored last, is the next owner's floor.
	line("code %d of the %s\tceiling %s\tacquired again at %s, %v later, by process %d (token %d after %d)",
		before.Code, what, after.Floor.Local().Format(clockFormat), after.Acquired.Local().Format(clockFormat),
		after.Acquired.Sub(after.Floor).Round(time.Millisecond), after.owner.cmd.Process.Pid, after.Token, before.Token)
}

func codesOf(p *process) string {
	text, last := "", -1
	for _, g := range p.grants {
		if g.Code != last {
			if text != "" {
				text += ", "
			}
			text += strconv.Itoa(g.Code)
			last = g.Code
		}
	}
	return text
}

func (f *fleet) remark(p *process) string {
	if p == f.stopped {
		return ", after it was stopped (SIGSTOP) past its lease and resumed (SIGCONT)"
	}
	return ""
}
