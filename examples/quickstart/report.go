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
func (f *fleet) report(ctx context.Context, db *sql.DB, lines int) error {
	var rows, distinct int
	var oldest, newest snowflake.ID
	err := db.QueryRowContext(ctx, "SELECT count(*), count(DISTINCT id), min(id), max(id) FROM lines").Scan(&rows, &distinct, &oldest, &newest)
	if err != nil {
		return err
	}
	perCode := make(map[int]int)
	ids, err := db.QueryContext(ctx, "SELECT id FROM lines")
	if err != nil {
		return err
	}
	defer ids.Close() //nolint:errcheck // only read from
	for ids.Next() {
		var id snowflake.ID
		if err := ids.Scan(&id); err != nil {
			return err
		}
		if f.ledger.owner[id] == nil && !f.unreported(id) {
			return fmt.Errorf("key %d is in the table, but nobody has minted it", id)
		}
		parts, err := layout().Unpack(id)
		if err != nil {
			return err
		}
		perCode[parts.Worker]++
	}
	if err := ids.Err(); err != nil {
		return err
	}

	out := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	line("")
	line("rows in the table\t%d\tof %d lines", rows, lines)
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
	case rows != lines:
		return fmt.Errorf("%d of %d lines are in the table", rows, lines)
	}
	for _, p := range []*process{f.killed, f.stopped} {
		if before, after := f.ledger.lastSpan(p), f.ledger.after(p); after.Floor.Before(before.Ceiling) {
			return fmt.Errorf("code %d was used from %v on, below the ceiling %v of its owner", before.Code, after.Floor, before.Ceiling)
		}
	}
	fmt.Println("\nno key repeats, no line is missing, and every key lies inside its owner's grant")
	return nil
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
	line("code %d of the %s\tceiling %s\tnext owner from %s on, token %d after %d", before.Code, what,
		before.Ceiling.Local().Format(clockFormat), after.Floor.Local().Format(clockFormat), after.Token, before.Token)
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
