// Mutants breaks the protocol in one named way at a time, in a copy of the code, and
// shows that the simulator finds each break within a number of seeds. Run it in the root
// of the module:
//
//	go run ./internal/sim/mutants
//
// What it does not break, because the code has no such place: stores (the suites of
// snowflaketest are shown to catch stores that compare no version or nonce, delete, lower
// a mark, or open a code twice); an acquisition that lowers a ceiling (a code is free only
// when its ceiling has passed, so that now + TTL is above it); an answer that comes after
// the release (the generator has closed before). The model has these too.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// mutant replaces text that stands in a file exactly once.
type mutant struct{ name, file, old, new string }

var mutants = []mutant{
	{"floor one tick below the stored ceiling", "acquire.go",
		"	floor := stored\n", "	floor := stored - 1\n"},
	{"floor from the local clock", "acquire.go",
		"		case nanos(r.Ceiling) <= now:\n", "		case r.Worker >= 0:\n			r.Ceiling = time.Unix(0, min(nanos(r.Ceiling), now))\n"},
	{"floor not looked at", "claim.go",
		"	belowFloor := tick < s.floor\n", "	belowFloor := false\n"},
	{"floor within MaxAhead taken as reached", "claim.go",
		"	belowFloor := tick < s.floor\n", "	belowFloor := tick < s.floor-g.maxAhead/f.tick\n"},
	{"ceiling not looked at", "claim.go",
		"	case tick >= s.ceiling:\n", "	case false:\n"},
	{"ceiling itself claimed", "claim.go",
		"s.ceiling = f.floorTick(nanos(grant.Ceiling))", "s.ceiling = f.floorTick(nanos(grant.Ceiling)) + 1"},
	{"ceiling revealed before it is durable", "renew.go",
		"	stored, err := l.swap(ctx, h.seen, next)\n",
		"	durable := h.record\n	h.record.Ceiling = next.Ceiling\n	l.reveal()\n	h.record = durable\n	stored, err := l.swap(ctx, h.seen, next)\n"},
	{"read-back taken for an acknowledgement", "renew.go",
		"		return errors.Join(errMoved, err)\n", "		l.renewed(current, h.lastAttempt)\n		return nil\n"},
	{"acquisition taken from a read-back", "acquire.go",
		"			return l.swap(ctx, r, next)\n", "			return r, nil\n"},
	{"acquire reveals more than was stored", "acquire.go",
		"	l.held = &holding{record: got,", "	got.Ceiling = got.Ceiling.Add(l.cfg.TTL)\n	l.held = &holding{record: got,"},
	{"read-back without comparing nonces", "renew.go",
		"	case !sameOwner(current, h.record):\n", "	case false:\n"},
	{"one nonce for all", "acquire.go",
		"	return hex.EncodeToString(nonce[:])\n", "	return hex.EncodeToString(nonce[:0]) + \"nonce\"\n"},
	{"one nonce for all writes of an owner", "acquire.go",
		"	return ownerNonce(r.Nonce) + \".\" + strconv.FormatUint(l.writes, 16)\n", "	_ = strconv.FormatUint(l.writes, 16)\n	return r.Nonce\n"},
	{"one nonce for all attempts of an owner", "acquire.go",
		"Nonce: newNonce(), Token: old.Token + 1,", "Nonce: \"of \" + l.cfg.Owner, Token: old.Token + 1,"},
	{"conflict retried with the old floor", "acquire.go",
		"	got, err := l.swap(ctx, old, mine)\n", `	got, err := l.swap(ctx, old, mine)
	if errors.Is(err, ErrConflict) {
		records, _ := l.records(ctx)
		for _, r := range records {
			if r.Worker == mine.Worker {
				mine.Token, mine.Ceiling = r.Token+1, later(r.Ceiling, mine.Ceiling)
				got, err = l.swap(ctx, r, mine)
			}
		}
	}
`},
	{"renewal without the version check", "renew.go",
		"	stored, err := l.swap(ctx, h.seen, next)\n", `	presented := h.seen
	if current, found, err := l.readBack(ctx); err == nil && found {
		presented = current
	}
	stored, err := l.swap(ctx, presented, next)
`},
	{"release without the version check", "workerlease.go",
		"		_, err := l.swap(ctx, h.seen, next)\n", `		presented := h.seen
		if current, found, err := l.readBack(ctx); err == nil && found {
			presented = current
		}
		_, err := l.swap(ctx, presented, next)
`},
	{"token not raised", "acquire.go",
		"Token: old.Token + 1,", "Token: old.Token,"},
	{"renewal lowers the ceiling", "renew.go",
		"		l.frame.ceilTick(nanos(h.seen.Ceiling)),\n", "		0,\n"},
	{"release below what was claimed", "workerlease.go",
		"tick := max(h.floor, l.frame.ceilTick(nanos(unused)))", "tick := h.floor"},
	{"release one tick low", "snowflake.go",
		"	unused := g.state.tick + 1 //", "	unused := g.state.tick //"},
	{"release not clamped to the floor", "workerlease.go",
		"tick := max(h.floor, l.frame.ceilTick(nanos(unused)))", "tick := l.frame.ceilTick(nanos(unused))"},
	{"release before stop", "snowflake.go",
		"	g.state.closed, g.state.openUntil = true, 0\n",
		"	defer func() { g.mu.Lock(); g.state.closed, g.state.openUntil = true, 0; g.mu.Unlock() }()\n"},
	{"a forgetting store without Settle", "workerlease.go",
		"		c.Settle = c.TTL + c.MaxClockSkew\n", "		c.Settle = 0\n"},
	{"a fence below what was lost", "operate.go",
		"Ceiling: later(old.Ceiling, w.Until),", "Ceiling: old.Ceiling,"},
	{"a fence that keeps nonces", "operate.go",
		"		switch _, err := swapOnce(ctx, w.store, old, next); {\n", "		if found {\n			next.Nonce = old.Nonce\n		}\n		switch _, err := swapOnce(ctx, w.store, old, next); {\n"},
	{"a fence that leaves out codes without a record", "operate.go",
		"		if !found {\n			old = Record", "		if !found {\n			w.done.Codes++\n			continue\n			old = Record"},
	{"a code taken by hand keeps its nonce", "operate.go",
		"		next.Nonce, next.Token, next.Released = newNonce(), min(r.Token+1, maxStored), true\n", "		next.Released = true\n"},
	{"mark revealed before it is durable", "marks.go",
		"	err := k.mark.Advance(ctx, k.frame.time(tick))\n", "	k.reveal(tick, nil)\n	err := k.mark.Advance(ctx, k.frame.time(tick))\n"},
	{"mark looked at only at the start", "claim.go",
		"	case tick >= s.mark:\n", "	case false:\n"},
	{"mark as opened is no floor", "marks.go",
		"		g.state.markFloor = g.frame.ceilTick(nanos(opened))\n", "		_ = opened\n"},
	{"sequence reset on a new grant pointer", "claim.go",
		"	s.grant, s.openUntil = grant, 0\n", "	s.grant, s.openUntil = grant, 0\n	s.sequence = 0\n"},
	{"sequence reset on a refusal", "claim.go",
		"		s.counters.refused(err)\n		return claim{}, err\n", "		s.sequence = 0\n		s.counters.refused(err)\n		return claim{}, err\n"},
	{"sequence wraps inside a tick", "claim.go",
		"		tick, sequence = tick+1, 0\n", "		sequence = 0\n"},
	{"window runs past the last sequence number", "snowflake.go",
		"s.sequence >= g.frame.maxSequence || ", ""},
	{"new code goes on in the same tick", "claim.go",
		"	case sequence > f.maxSequence, grant.Code != s.code:\n", "	case sequence > f.maxSequence:\n"},
	{"a step back restarts its tick", "claim.go",
		"	case current > tick:\n", "	case current != tick:\n"},
	// Nothing repeats under these two: only that every worker must mint again finds them.
	{"a lost code is not replaced", "workerlease.go",
		"	l.withdraw(why)\n	l.held = nil\n", "	l.withdraw(why)\n"},
	{"a suspended lease is not restored", "renew.go",
		"	return l.reveal()\n", "	return h.suspended || l.reveal()\n"},
}

var foundBy = regexp.MustCompile(`seed (\d+): (.*)`)

func main() {
	log.SetFlags(0)
	seeds := flag.Int("seeds", 400, "how many seeds each mutant may take")
	only := flag.String("only", "", "try only mutants with this in their name")
	flag.Parse()
	tried, survived := 0, 0
	for _, m := range mutants {
		if !strings.Contains(m.name, *only) {
			continue
		}
		tried++
		found, err := m.try(*seeds)
		if err != nil {
			log.Fatalf("%s: %v", m.name, err)
		}
		if found == "" {
			survived++
			found = "SURVIVED"
		}
		fmt.Printf("%-46s %s\n", m.name, found)
	}
	fmt.Printf("%d passed, %d failed\n", tried-survived, survived)
	if survived > 0 {
		os.Exit(1)
	}
}

// try returns how the simulator finds the mutant, "" if it does not.
func (m mutant) try(seeds int) (found string, err error) {
	dir, err := os.MkdirTemp("", "snowflake-mutant-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := m.copyTo(dir); err != nil {
		return "", err
	}
	began := time.Now()
	test := exec.Command("go", "test", "-timeout", "5m", "./internal/sim", "-sim.coverage=false", "-sim.seeds", fmt.Sprint(seeds)) //nolint:perfsprint // not often
	test.Dir = dir
	test.Env = append(os.Environ(), "GOWORK=off")
	out, err := test.CombinedOutput()
	if err == nil {
		return "", nil
	}
	match := foundBy.FindSubmatch(out)
	if match == nil {
		return "", fmt.Errorf("it does not run: %s", out)
	}
	return fmt.Sprintf("seed %-3s %4.1fs  %.70s", match[1], time.Since(began).Seconds(), match[2]), nil
}

// copyTo copies the root package and the simulator, with the break.
func (m mutant) copyTo(dir string) error {
	applied := false
	for _, pattern := range []string{"go.mod", "go.sum", "*.go", "internal/sim/*.go"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") && filepath.Dir(name) == "." {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			if name == m.file {
				if n := strings.Count(string(text), m.old); n != 1 {
					return fmt.Errorf("the text to break stands %d times in %s, must once: bring the mutant up to date", n, name)
				}
				text = []byte(strings.Replace(string(text), m.old, m.new, 1))
				applied = true
			}
			if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o750); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
				return err
			}
		}
	}
	if !applied {
		return fmt.Errorf("there is no %s here: run it in the root of the module", m.file)
	}
	return nil
}
