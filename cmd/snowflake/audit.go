package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/snowfence/snowflake"
)

func (t *tool) auditCommand() *cobra.Command {
	layout := defaultLayout()
	a := audit{}
	var source databaseFlags
	var memory, show int
	var temp string
	c := &cobra.Command{
		Use:   "audit {FILE | - | --db URL}",
		Short: "Look through many IDs: repeats, odd fields, times to come, codes without a lease",
		Long: `Look through many IDs, of a file, the standard input (-) or a column of a database:

  repeats       exactly, however many IDs there are: what does not fit into --memory is
                sorted on disk
  out of range  a region or worker that there is not, by --regions and --workers
  future        a time later than now by more than --skew
  unexplained   a code without a record in --store, or with a time past its ceiling
  after insert  a time later than that of --time-column by more than --skew
  out of order  IDs lower than one that was read before; told, and no finding: generators
                are in order with one another as far as their clocks are

Exit status: 3 an ID repeats; 4 something else was found; 1 bad input was skipped.

` + storeHelp,
		Example: `  snowflake audit ids.txt
  psql -Atc "SELECT id FROM orders" | snowflake audit -
  snowflake audit --db postgres://app@db/app --table orders --time-column created_at --store postgres://ids@db/ids
  snowflake audit --input csv --column id --regions 4 --workers 200 --bad skip --json orders.csv`,
		Args: atMost(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			switch {
			case memory < 1 || memory > 1<<20:
				return usage("--memory is %d, must be 1 to %d MiB", memory, 1<<20)
			case show < 0 || show > maxShown:
				return usage("--show is %d, must be 0 to %d", show, maxShown)
			}
			from, total, err := t.auditSource(c.Context(), &a.input, &source, args)
			if err != nil {
				return err
			}
			defer func() { _ = from.Close() }()
			// Half of it: the garbage collector lets as much again come together.
			if a.sorter, err = newSorter(temp, int64(memory)<<20/2); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, a.sorter.close()) }()
			a.formats, a.now, a.show = layout.formats, time.Now(), show
			a.codes = make(map[code]snowflake.ID)
			bar := t.progress(total, source.given())
			err = a.input.each(c.Context(), t, io.TeeReader(from, bar.bytes()), func(id snowflake.ID, r row) error {
				bar.row()
				return a.add(id, r)
			})
			bar.done()
			if err == nil {
				err = a.finish(c.Context())
			}
			// Before a word is printed: a pipe that was closed ends the process there.
			if err := errors.Join(err, a.sorter.close()); err != nil {
				return err
			}
			if err := t.printAudit(&a); err != nil {
				return err
			}
			return a.status()
		},
	}
	addLayout(c, &layout, "layout", "the layout of the IDs")
	a.input.addFlags(c)
	source.addFlags(c)
	a.store.addFlags(c)
	flags := c.Flags()
	flags.StringVar(&a.input.timeColumn, "time-column", "", "the column or key of the time at which a row was inserted")
	flags.IntVar(&a.regions, "regions", 0, "regions that there are (0: as many as the layout has)")
	flags.IntVar(&a.workers, "workers", 0, "workers of a region, numbered from 0 (0: as many as the layout has)")
	flags.DurationVar(&a.skew, "skew", 5*time.Second, "how far clocks may differ")
	flags.IntVar(&memory, "memory", 64, "MiB, about, that IDs take before the disk is used; a million codes take 200 more")
	flags.StringVar(&temp, "temp", "", "the folder for temporary files (default: the system's)")
	flags.IntVar(&show, "show", 10, "how many findings of a kind are shown; all are counted")
	return c
}

// auditSource opens what is to be read.
func (t *tool) auditSource(ctx context.Context, in *input, source *databaseFlags, args []string) (from io.ReadCloser, total int64, err error) {
	switch {
	case source.given() && len(args) > 0:
		return nil, 0, usage("give a file or --db, not both")
	case source.given():
		return source.open(ctx, in, t.showsProgress())
	case source.table != "" || source.query != "":
		return nil, 0, usage("--table and --query need --db")
	case len(args) == 0:
		return nil, 0, usage("audit what? Give a file, - for the standard input, or --db")
	}
	return t.open(args[0])
}

// Bounds of what is kept beside --memory: the codes that are seen, more than any fleet has,
// some 200 MiB of them; and what is shown.
const (
	maxCodes = 1 << 20
	maxShown = 100_000
)

// audit is what has been seen. What it keeps does not grow with the input, but for the
// sorter's files, and codes up to maxCodes.
type audit struct {
	input   input
	store   storeFlag
	formats snowflake.Formats
	sorter  *sorter
	now     time.Time
	show    int

	regions, workers int
	skew             time.Duration

	ids          int64
	lowest       snowflake.ID
	highest      snowflake.ID
	codes        map[code]snowflake.ID // and the highest ID of each
	tooManyCodes bool
	outOfOrder   int64
	largestBack  time.Duration // between an ID and the highest one before it
	latest       time.Time     // time of highest
	latestDelay  time.Duration // of an insert after the ID's time
	repeatedIDs  int64
	counts       [len(kinds)]int64
	found        []finding
	shown        [len(kinds)]int
}

type code struct {
	layout         snowflake.Layout
	region, worker int
}

// kind of a finding. Its order is that of the report.
type kind int

const (
	repeat kind = iota
	outOfRange
	inFuture
	unexplained
	afterInsert
)

// kinds are their names in JSON, and for people.
var kinds = [...]struct{ name, title string }{
	{"repeat", "repeats"}, {"out_of_range", "out of range"}, {"future", "future"}, {"unexplained", "unexplained"}, {"after_insert", "after insert"},
}

// finding is one that is shown.
type finding struct {
	Kind   string       `json:"kind"`
	ID     snowflake.ID `json:"id"`
	Places []int64      `json:"places,omitempty"`
	Why    string       `json:"why,omitempty"`

	kind kind
}

func (a *audit) find(k kind, id snowflake.ID, place int64, why string, args ...any) {
	a.counts[k]++
	if a.shown[k]++; a.shown[k] <= a.show {
		f := finding{Kind: kinds[k].name, ID: id, Why: fmt.Sprintf(why, args...), kind: k}
		if place > 0 {
			f.Places = []int64{place}
		}
		a.found = append(a.found, f)
	}
}

// add takes in one ID.
func (a *audit) add(id snowflake.ID, r row) error {
	format, err := a.formats.Of(id)
	if err != nil {
		return err
	}
	parts, err := format.Unpack(id)
	if err != nil {
		return err
	}
	if a.input.timeColumn != "" {
		inserted, err := parseTime(r.when)
		if err != nil {
			return err
		}
		delay := inserted.Sub(parts.Time)
		a.latestDelay = max(a.latestDelay, delay)
		if -delay > a.skew {
			a.find(afterInsert, id, r.place, "inserted at %s, %v before its time", stamp(inserted), -delay)
		}
	}
	if err := a.sorter.add(entry{id, r.place}); err != nil {
		return &stopError{err}
	}
	a.ids++
	switch {
	case a.regions > 0 && parts.Region >= a.regions:
		a.find(outOfRange, id, r.place, "region %d of %d", parts.Region, a.regions)
	case a.workers > 0 && parts.Worker >= a.workers:
		a.find(outOfRange, id, r.place, "worker %d of %d", parts.Worker, a.workers)
	}
	if ahead := parts.Time.Sub(a.now); ahead > a.skew {
		a.find(inFuture, id, r.place, "its time is %s", stamp(parts.Time))
	}
	switch {
	case id > a.highest:
		a.highest, a.latest = id, parts.Time
	case id < a.highest:
		a.outOfOrder++
		a.largestBack = max(a.largestBack, a.latest.Sub(parts.Time))
	}
	if a.lowest == 0 || id < a.lowest {
		a.lowest = id
	}
	key := code{format.Layout, parts.Region, parts.Worker}
	if seen, ok := a.codes[key]; ok || len(a.codes) < maxCodes {
		a.codes[key] = max(seen, id)
	} else {
		a.tooManyCodes = true
	}
	return nil
}

// finish finds what needs all IDs.
func (a *audit) finish(ctx context.Context) error {
	if a.store.given() {
		if err := a.explain(ctx); err != nil {
			return err
		}
	}
	var last finding // of the ID that was read last
	end := func() {
		if len(last.Places) > 1 && a.shown[repeat] < a.show {
			a.shown[repeat]++
			a.found = append(a.found, last)
		}
	}
	n := 0
	err := a.sorter.each(func(e entry) error {
		if n++; n%(1<<16) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if e.id != last.ID {
			end()
			last = finding{Kind: kinds[repeat].name, ID: e.id, kind: repeat, Places: append(last.Places[:0:0], e.place)}
			return nil
		}
		a.counts[repeat]++
		if len(last.Places) == 1 {
			a.repeatedIDs++
		}
		if len(last.Places) < max(a.show, 2) {
			last.Places = append(last.Places, e.place)
		}
		return nil
	})
	end()
	return err
}

// explain looks for the lease record of every code that was seen. The records are read
// after the IDs: a ceiling only rises.
func (a *audit) explain(ctx context.Context) error {
	store, closer, err := a.store.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = closer() }()
	regions := make(map[int]map[int]snowflake.Record)
	layouts := make(map[int]*snowflake.Layout)
	for key, highest := range a.codes {
		if _, ok := regions[key.region]; !ok {
			records, err := readRegion(ctx, store, key.region)
			if err != nil {
				return err
			}
			codes, layout, err := codesOf(records)
			if err != nil {
				return err
			}
			byWorker := make(map[int]snowflake.Record, len(codes))
			for _, r := range codes {
				byWorker[r.Worker] = r
			}
			regions[key.region], layouts[key.region] = byWorker, layout
		}
		if layout := layouts[key.region]; layout != nil && layout.String() != key.layout.String() {
			continue // IDs of another format: their store is another
		}
		r, ok := regions[key.region][key.worker]
		parts, err := a.formats.Unpack(highest)
		switch {
		case err != nil:
			return err
		case !ok:
			a.find(unexplained, highest, 0, "region %d has no record of worker %d", key.region, key.worker)
		case !parts.Time.Before(r.Ceiling):
			a.find(unexplained, highest, 0, "the ceiling of worker %d of region %d is %s", key.worker, key.region, stamp(r.Ceiling))
		}
	}
	return nil
}

// status is the exit status, the worst first.
func (a *audit) status() error {
	if a.counts[repeat] > 0 {
		return &exit{status: exitRepeat}
	}
	for _, n := range a.counts {
		if n > 0 {
			return &exit{status: exitFound}
		}
	}
	return a.input.result()
}

// printAudit writes the report.
func (t *tool) printAudit(a *audit) error {
	lowest, highest := "", ""
	if a.ids > 0 {
		first, err := a.formats.Unpack(a.lowest)
		if err != nil {
			return err
		}
		lowest, highest = stamp(first.Time), stamp(a.latest)
	}
	if t.json {
		found := a.found
		if found == nil {
			found = []finding{}
		}
		return t.printJSON(struct {
			IDs          int64     `json:"ids"`
			Skipped      int64     `json:"skipped"`
			First        string    `json:"first,omitempty"`
			Last         string    `json:"last,omitempty"`
			Codes        int       `json:"codes"`
			RepeatedIDs  int64     `json:"repeated_ids"`
			Repeats      int64     `json:"repeats"`
			OutOfRange   int64     `json:"out_of_range"`
			Future       int64     `json:"future"`
			Unexplained  int64     `json:"unexplained"`
			AfterInsert  int64     `json:"after_insert"`
			OutOfOrder   int64     `json:"out_of_order"`
			LargestBack  float64   `json:"largest_step_back_seconds"`
			InsertDelay  float64   `json:"largest_insert_delay_seconds"`
			Findings     []finding `json:"findings"`
			TooManyCodes bool      `json:"too_many_codes,omitempty"`
		}{
			a.ids, a.input.skipped, lowest, highest, len(a.codes), a.repeatedIDs, a.counts[repeat], a.counts[outOfRange],
			a.counts[inFuture], a.counts[unexplained], a.counts[afterInsert], a.outOfOrder,
			a.largestBack.Seconds(), a.latestDelay.Seconds(), found, a.tooManyCodes,
		})
	}
	line := func(name, format string, args ...any) { t.printf("%-13s %s\n", name, fmt.Sprintf(format, args...)) }
	line("IDs", "%s of %s", thousands(a.ids), plural(len(a.codes), "code"))
	if a.ids > 0 {
		line("from", "%s", lowest)
		line("to", "%s", highest)
	}
	line("out of order", "%s, by at most %v", thousands(a.outOfOrder), a.largestBack)
	if a.input.timeColumn != "" {
		line("insert delay", "at most %v", a.latestDelay)
	}
	for k, names := range kinds {
		switch n := a.counts[k]; {
		case n > 0:
			line(names.title, "%s", bad(thousands(n)))
		case kind(k) == unexplained && !a.store.given(), kind(k) == afterInsert && a.input.timeColumn == "":
			line(names.title, "%s", dim("not looked for"))
		default:
			line(names.title, "%s", good("none"))
		}
	}
	if a.tooManyCodes {
		line("codes", "more than %s: the others were not looked at", thousands(maxCodes))
	}
	for _, f := range a.found {
		t.printf("  %s %d%s%s\n", kinds[f.kind].name, f.ID, places(a.input.where(), f.Places), because(f.Why))
	}
	return nil
}

func places(where string, at []int64) string {
	if len(at) == 0 {
		return ""
	}
	texts := make([]string, len(at))
	for i, place := range at {
		texts[i] = strconv.FormatInt(place, 10)
	}
	return " " + where + " " + strings.Join(texts, ", ")
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// progress is a bar on a terminal: of bytes where the size is known, else of IDs.
type progress struct {
	bar    *progressbar.ProgressBar // nil: none
	byRows bool
	rows   int
}

func (t *tool) showsProgress() bool {
	file, ok := t.err.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

func (t *tool) progress(total int64, byRows bool) *progress {
	if !t.showsProgress() {
		return &progress{}
	}
	p := &progress{byRows: byRows || total < 0}
	options := []progressbar.Option{
		progressbar.OptionSetWriter(t.err), progressbar.OptionThrottle(100 * time.Millisecond), progressbar.OptionSetPredictTime(true),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30),
	}
	if p.byRows {
		options = append(options, progressbar.OptionShowIts(), progressbar.OptionShowCount(), progressbar.OptionSetItsString("IDs"))
	} else {
		options = append(options, progressbar.OptionShowBytes(true), progressbar.OptionShowTotalBytes(true))
	}
	p.bar = progressbar.NewOptions64(total, options...)
	return p
}

// bytes takes the bytes that are read.
func (p *progress) bytes() io.Writer {
	if p.bar == nil || p.byRows {
		return io.Discard
	}
	return p.bar
}

// row takes one ID; the bar hears of a thousand at a time.
func (p *progress) row() {
	if p.bar == nil || !p.byRows {
		return
	}
	if p.rows++; p.rows%1000 == 0 {
		_ = p.bar.Add(1000)
	}
}

func (p *progress) done() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
