package proptest

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/snowfence/snowflake"
)

type key struct{ region, worker int }

// storeWalk is a lease store and its model: a map.
type storeWalk struct {
	t     *testing.T
	open  func(again bool) snowflake.LeaseStore
	store snowflake.LeaseStore
	model map[key]snowflake.Record
	old   []snowflake.Record // what was stored once
}

func record(t *rapid.T) snowflake.Record {
	return snowflake.Record{
		Region: rapid.IntRange(0, 1).Draw(t, "region"), Worker: rapid.IntRange(-1, 2).Draw(t, "worker"),
		Owner: rapid.String().Draw(t, "owner"), Nonce: rapid.StringN(0, 8, -1).Draw(t, "nonce"),
		Token:    rapid.Uint64Range(0, 1<<63-1).Draw(t, "token"),
		Ceiling:  time.Unix(rapid.Int64Range(0, 9e9).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC(),
		Released: rapid.Bool().Draw(t, "released"), Layout: rapid.StringN(0, 8, -1).Draw(t, "layout"),
	}
}

// swap presents old and holds the answer against the model.
func (w *storeWalk) swap(t *rapid.T, old, next snowflake.Record) {
	stored := w.model[key{next.Region, next.Worker}]
	got, err := w.store.Swap(w.t.Context(), old, next)
	if stored.Version != old.Version || stored.Nonce != old.Nonce {
		require.ErrorIs(t, err, snowflake.ErrConflict)
		return
	}
	require.NoError(t, err)
	require.Greater(t, got.Version, stored.Version)
	next.Version = got.Version
	require.Equal(t, next, got, "stored as it was given")
	w.model[key{next.Region, next.Worker}] = got
	w.old = append(w.old, got)
}

// check compares what is stored of a region with the model.
func (w *storeWalk) check(t *rapid.T) {
	region, want := rapid.IntRange(0, 1).Draw(t, "looked at"), []snowflake.Record{}
	for k, r := range w.model {
		if k.region == region {
			want = append(want, r)
		}
	}
	records, err := w.store.Records(w.t.Context(), region)
	require.NoError(t, err)
	require.ElementsMatch(t, want, records)
}

func walkStore(t *testing.T, open func(again bool) snowflake.LeaseStore) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &storeWalk{t: t, open: open, store: open(false), model: make(map[key]snowflake.Record)}
		rt.Repeat(map[string]func(*rapid.T){
			"": w.check,
			"swap": func(rt *rapid.T) {
				next := record(rt)
				w.swap(rt, w.model[key{next.Region, next.Worker}], next)
			},
			"swap on what was stored once": func(rt *rapid.T) {
				if len(w.old) > 0 {
					old := rapid.SampledFrom(w.old).Draw(rt, "old")
					next := record(rt)
					next.Region, next.Worker = old.Region, old.Worker
					w.swap(rt, old, next)
				}
			},
			"swap on another nonce": func(rt *rapid.T) {
				next := record(rt)
				old := w.model[key{next.Region, next.Worker}]
				old.Region, old.Worker = next.Region, next.Worker
				old.Nonce += "'"
				w.swap(rt, old, next)
			},
			"open again": func(*rapid.T) { w.store = w.open(true) },
		})
	})
}

func TestMemoryStoreAgainstAMap(t *testing.T) {
	var store snowflake.LeaseStore
	walkStore(t, func(again bool) snowflake.LeaseStore {
		if !again {
			store = snowflake.NewMemoryStore()
		}
		return store
	})
}

func TestDirStoreAgainstAMap(t *testing.T) {
	root, dir := t.TempDir(), ""
	walkStore(t, func(again bool) snowflake.LeaseStore {
		if !again {
			var err error
			dir, err = os.MkdirTemp(root, "")
			require.NoError(t, err)
		}
		store, err := snowflake.DirStore(dir)
		require.NoError(t, err)
		return store
	})
}
