package snowflaketest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/snowfence/snowflake"
	"github.com/stretchr/testify/require"
)

// A call on the record of one worker, and its outcome. Records is taken for a call on
// each of the records that it shows: that it is one snapshot of them all is promised
// nowhere, nor needed.
type call struct {
	worker   int
	swap     bool
	old, new snowflake.Record
}

type outcome struct {
	record   snowflake.Record // as stored; zero: none
	conflict bool
}

// registers is the contract as a model: one compare-and-swap register for each worker,
// whose state is the record as stored.
var registers = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byWorker := make(map[int][]porcupine.Operation)
		for _, o := range history {
			worker := o.Input.(call).worker
			byWorker[worker] = append(byWorker[worker], o)
		}
		var parts [][]porcupine.Operation
		for _, part := range byWorker {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return snowflake.Record{} },
	Step: func(state, input, output any) (legal bool, next any) {
		stored, in, out := state.(snowflake.Record), input.(call), output.(outcome)
		if !in.swap {
			return out.record == stored, stored
		}
		if matches := stored.Version == in.old.Version && stored.Nonce == in.old.Nonce; out.conflict || !matches {
			return out.conflict && !matches, stored
		}
		want := in.new
		want.Version = out.record.Version
		return out.record == want && out.record.Version > stored.Version, out.record
	},
	DescribeOperation: func(input, output any) string {
		in, out := input.(call), output.(outcome)
		switch {
		case !in.swap:
			return fmt.Sprintf("read %d: %d %.6s", in.worker, out.record.Version, out.record.Nonce)
		case out.conflict:
			return fmt.Sprintf("swap %d %.6s -> %.6s: conflict", in.old.Version, in.old.Nonce, in.new.Nonce)
		}
		return fmt.Sprintf("swap %d %.6s -> %d %.6s", in.old.Version, in.old.Nonce, out.record.Version, in.new.Nonce)
	},
}

// history collects the calls of many clients.
type history struct {
	began time.Time

	mu      sync.Mutex
	known   []porcupine.Operation
	unknown []porcupine.Operation       // swaps without an answer
	seen    map[string]snowflake.Record // every record that was shown, by its nonce, which no two writes share
	swaps   int                         // that succeeded
}

const historyWorkers = 2

func (h *history) now() int64 { return int64(time.Since(h.began)) }

// read is one call of Records. It returns what it showed, nil after an error.
func (h *history) read(ctx context.Context, client int, s snowflake.LeaseStore) []snowflake.Record {
	called := h.now()
	all, err := s.Records(ctx, 0)
	returned := h.now()
	if err != nil {
		return nil // it says nothing
	}
	shown := make([]snowflake.Record, historyWorkers)
	for _, r := range all {
		if r.Worker >= 0 && r.Worker < historyWorkers {
			shown[r.Worker] = normal(r)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for worker, r := range shown {
		h.known = append(h.known, porcupine.Operation{
			ClientId: client, Call: called, Return: returned, Input: call{worker: worker}, Output: outcome{record: r},
		})
		if r.Version != 0 {
			h.seen[r.Nonce] = r
		}
	}
	return shown
}

// swap is one call of Swap. It returns the record as stored if it succeeded.
func (h *history) swap(ctx context.Context, client int, s snowflake.LeaseStore, old, new snowflake.Record) (snowflake.Record, bool) {
	o := porcupine.Operation{ClientId: client, Call: h.now(), Input: call{worker: new.Worker, swap: true, old: old, new: new}}
	stored, err := s.Swap(ctx, old, new)
	o.Return = h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		stored = normal(stored)
		h.seen[new.Nonce] = stored
		h.swaps++
		o.Output = outcome{record: stored}
	case errors.Is(err, snowflake.ErrConflict):
		o.Output = outcome{conflict: true}
	default:
		h.unknown = append(h.unknown, o)
		return snowflake.Record{}, false
	}
	h.known = append(h.known, o)
	return stored, err == nil
}

// settled returns the history with every swap without an answer settled. One whose
// nonce was shown has happened, at some time after it was called. Of one whose nonce
// was never shown nothing can follow, since nobody could present it: as if it had not
// been.
func (h *history) settled() []porcupine.Operation {
	all := h.known
	for _, o := range h.unknown {
		if r, happened := h.seen[o.Input.(call).new.Nonce]; happened {
			o.Return, o.Output = math.MaxInt64, outcome{record: r}
			all = append(all, o)
		}
	}
	return all
}

func linearizable(tb testing.TB, s handles) {
	tb.Helper()
	const clients, turns = 8, 40
	h := &history{began: time.Now(), seen: make(map[string]snowflake.Record)}
	stores := []snowflake.LeaseStore{s.a, s.b}
	var group sync.WaitGroup
	for client := range clients {
		group.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(client)))
			latest := make([]snowflake.Record, historyWorkers)
			for turn := range turns {
				store := stores[random.IntN(2)]
				if random.IntN(3) > 0 { // else it goes by what it knows, which may be stale
					if shown := h.read(tb.Context(), client, store); shown != nil {
						latest = shown
					}
				}
				worker := random.IntN(historyWorkers)
				old := latest[worker]
				if old.Version != 0 && random.IntN(8) == 0 {
					old.Nonce = nonce(1 << 20) // the right version of another record
				}
				ctx, cancel := tb.Context(), context.CancelFunc(func() {})
				if random.IntN(4) == 0 { // the answer may come too late
					ctx, cancel = context.WithTimeout(ctx, time.Duration(random.Int64N(int64(4*time.Millisecond))))
				}
				stored, ok := h.swap(ctx, client, store, old, snowflake.Record{
					Worker: worker, Owner: fmt.Sprint("client ", client), Nonce: nonce(client*turns + turn), Token: uint64(turn),
					Ceiling: noon.Add(time.Duration(turn) * time.Millisecond),
				})
				cancel()
				if ok {
					latest[worker] = stored
				}
			}
		})
	}
	group.Wait()
	for i, store := range stores {
		require.NotNil(tb, h.read(tb.Context(), clients+i, store))
	}
	require.GreaterOrEqual(tb, h.swaps, 10, "of %d swaps hardly any succeeded: %d had an unknown outcome", clients*turns, len(h.unknown))
	result, info := porcupine.CheckOperationsVerbose(registers, h.settled(), time.Minute)
	if result != porcupine.Ok {
		tb.Errorf("the history of %d calls, %d of them cut short, is not linearizable (%s): %v", len(h.known)+len(h.unknown), len(h.unknown), result, describe(info))
	}
}

// describe tells how far the longest linearizable part of each worker's history gets.
func describe(info porcupine.LinearizationInfo) []string {
	var parts []string
	for worker, partials := range info.PartialLinearizationsOperations() {
		var longest []porcupine.Operation
		for _, p := range partials {
			if len(p) > len(longest) {
				longest = p
			}
		}
		text := []string{fmt.Sprintf("part %d: %d calls can be explained", worker, len(longest))}
		for _, o := range longest[max(0, len(longest)-5):] {
			text = append(text, registers.DescribeOperation(o.Input, o.Output))
		}
		parts = append(parts, strings.Join(text, "; "))
	}
	return parts
}
