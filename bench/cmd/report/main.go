// Command report measures this library beside its peers and writes the tables and
// plots. Run it in bench, on a machine that has nothing else to do:
//
//	go run ./cmd/report
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/snowfence/snowflake/bench"
)

func main() {
	rounds := flag.Int("rounds", 10, "how many `rounds`, each in another order")
	quick := flag.Bool("quick", false, "short rounds, to try it out: the numbers mean little")
	out := flag.String("out", "../docs", "`folder` for benchmarks.md and the plots")
	only := flag.String("only", "", "`workloads`, by comma, of "+strings.Join(bench.Works, ", ")+"; prints the tables and writes nothing")
	peers := flag.String("peers", "", "only those whose name contains `text`; with -only")
	raw := flag.String("raw", "", "also write the samples to a `file`, for benchstat")
	profile := flag.String("cpuprofile", "", "write a CPU profile of the run to a `file`")
	flag.Parse()
	options := bench.Options{
		Rounds: *rounds, Timed: 200 * time.Millisecond, Long: time.Second,
		Log: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) },
	}
	if *quick {
		options.Timed, options.Long = 20*time.Millisecond, 200*time.Millisecond
	}
	if *only != "" {
		options.Only, options.Peers = strings.Split(*only, ","), *peers
	}
	if err := run(options, *out, *raw, *profile); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func run(o bench.Options, out, raw, profile string) (err error) {
	if profile != "" {
		f, err := os.Create(profile)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	results, err := bench.Run(o)
	if err != nil {
		return err
	}
	if raw != "" {
		var text strings.Builder
		if err := results.WriteRaw(&text); err != nil {
			return err
		}
		if err := os.WriteFile(raw, []byte(text.String()), 0o600); err != nil {
			return err
		}
	}
	if len(o.Only) > 0 {
		fmt.Print(results.Markdown())
		return nil
	}
	if err := os.MkdirAll(out, 0o750); err != nil {
		return err
	}
	files := results.Plots()
	files["benchmarks.md"] = results.Markdown()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(out, name), []byte(text), 0o644); err != nil { //nolint:gosec // to be read by everybody
			return err
		}
	}
	return nil
}
