// Model searches the formal models of this folder with spin, exhaustively, and breaks
// them in one named way after the other: each break must be found. Run it anywhere in
// the module; README.md says what the models are.
//
//	go run ./model               the searches that CI runs: some minutes
//	go run ./model -full         larger ones too
//	go run ./model -full -write  and writes their tables into model/README.md
//	go run ./model -trail NAME   shows the shortest way in which a break goes wrong
//
// It needs spin and gcc, the Debian packages of these names.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"slices"
	"sync"
)

func main() {
	log.SetFlags(0)
	full := flag.Bool("full", false, "larger searches too")
	write := flag.Bool("write", false, "write the tables into "+readme+", with -full only")
	trail := flag.String("trail", "", "show how the break of this name goes wrong")
	parallel := flag.Int("parallel", 2, "how many searches at a time, each takes a core and up to 3 GiB")
	flag.Parse()
	if err := run(*full, *write, *trail, max(*parallel, 1)); err != nil {
		log.Fatal(err)
	}
}

func run(full, write bool, trail string, parallel int) error {
	if err := checkTools(); err != nil {
		return err
	}
	if trail != "" {
		return showTrail(trail)
	}
	if write && !full {
		return errors.New("model: -write needs -full, or the tables would lose rows")
	}
	all := append(sound(), broken()...)
	searches := slices.DeleteFunc(slices.Clone(all), func(s search) bool { return s.large })
	if full {
		searches = append(searches, slices.DeleteFunc(all, func(s search) bool { return !s.large })...)
	}
	results := searchAll(searches, parallel)
	failed := 0
	for i, s := range searches {
		if err := s.judge(results[i]); err != nil {
			failed++
			fmt.Printf("FAILED %s: %v\n", s.title(), err)
		}
	}
	fmt.Printf("%d passed, %d failed\n", len(searches)-failed, failed)
	if failed > 0 {
		return errors.New("model: not every search went as it must")
	}
	if write {
		return writeTables(searches, results)
	}
	return nil
}

func checkTools() error {
	for _, tool := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("model: %s is missing: install the Debian package %s (apt-get install spin gcc libc6-dev)", tool, tool)
		}
	}
	return nil
}

// searchAll runs the searches, and prints each as it ends.
func searchAll(searches []search, parallel int) []result {
	results := make([]result, len(searches))
	next := make(chan int)
	var workers sync.WaitGroup
	var printing sync.Mutex
	for range parallel {
		workers.Go(func() {
			for i := range next {
				results[i] = searches[i].run()
				printing.Lock()
				fmt.Printf("%-72s %v\n", searches[i].title(), results[i])
				printing.Unlock()
			}
		})
	}
	for i := range searches {
		next <- i
	}
	close(next)
	workers.Wait()
	return results
}

func showTrail(name string) error {
	for _, s := range broken() {
		if s.name != name {
			continue
		}
		dir, err := os.MkdirTemp("", "snowflake-model-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		if r := s.searchIn(dir); r.err != nil || r.found == "" {
			return fmt.Errorf("model: %s: %v", s.title(), r)
		}
		spin := exec.Command("spin", append(s.options(), "-p", "-t", s.file)...)
		spin.Dir, spin.Stdout, spin.Stderr = dir, os.Stdout, os.Stderr
		return spin.Run()
	}
	return fmt.Errorf("model: there is no break %q", name)
}
