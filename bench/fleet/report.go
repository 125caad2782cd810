package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// tell prints what the regions have measured, and returns the sums. It must be called when
// all processes have ended.
func tell(out io.Writer, p Plan, results []*Result, l *Ledger, started time.Duration) Result {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }
	say("%d regions x %d workers, a process for each region, leases in etcd (1 node); all leases held after %.2f s\n",
		p.Regions, p.Workers, started.Seconds())
	say("asked for: %s IDs/s for %v, in bursts of %s, a turn every %v\n\n",
		group(p.Rate), p.Duration, group(p.Burst), (p.every() / time.Duration(p.Regions)).Round(time.Microsecond))

	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(cells ...string) { _, _ = fmt.Fprintln(table, strings.Join(cells, "\t")+"\t") }
	row("region", "IDs/s", "bursts", "in one ms, %", "p50, ns", "p99", "p99.9", "longest, ms", "CPU of a worker, %", "memory, KiB", "store writes/s", "reads/s", "refused")
	total := Result{Took: p.Duration}
	calls := hdrhistogram.New(1, int64(time.Minute), 3)
	line := func(name string, r *Result, calls *hdrhistogram.Histogram, workers int) {
		took := r.Took.Seconds()
		row(name,
			group(int(float64(calls.TotalCount()-int64(r.Refused))/took)), group(r.Bursts),
			fmt.Sprintf("%.1f", 100*float64(r.Whole)/float64(r.Bursts)),
			group(int(calls.ValueAtQuantile(50))), group(int(calls.ValueAtQuantile(99))), group(int(calls.ValueAtQuantile(99.9))),
			fmt.Sprintf("%.2f", float64(calls.Max())/1e6),
			fmt.Sprintf("%.3f", 100*r.CPU.Seconds()/took/float64(workers)), group(int(r.Memory)/1024/workers),
			fmt.Sprintf("%.1f", float64(r.Writes)/took), fmt.Sprintf("%.1f", float64(r.Reads)/took), strconv.Itoa(r.Refused))
	}
	for _, r := range results {
		mine := hdrhistogram.Import(r.Calls)
		line(strconv.Itoa(r.Region), r, mine, p.Workers)
		calls.Merge(mine)
		total.add(r)
	}
	line("all", &total, calls, p.Regions*p.Workers)
	_ = table.Flush()
	share := 100 * float64(l.count()) / total.Took.Seconds() / float64(p.Rate)
	say("\nsustained %.1f %% of the rate; all regions %.2f cores, etcd %.2f cores\n",
		share, total.CPU.Seconds()/total.Took.Seconds(), max(childrenTime()-total.CPU, 0).Seconds()/total.Took.Seconds())
	return total
}

// add counts a region in. The fleet took as long as the slowest of them.
func (r *Result) add(other *Result) {
	r.Bursts += other.Bursts
	r.Whole += other.Whole
	r.Refused += other.Refused
	if r.Error == "" {
		r.Error = other.Error
	}
	r.Took = max(r.Took, other.Took)
	r.CPU += other.CPU
	r.Memory += other.Memory
	r.Reads += other.Reads
	r.Writes += other.Writes
}

// group writes a number with commas.
func group(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
