package snowflake

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// leaseFolder returns a store in a folder of its own.
func leaseFolder(t *testing.T) (s LeaseStore, dir string) {
	t.Helper()
	needFlock(t)
	dir = filepath.Join(t.TempDir(), "leases")
	s, err := DirStore(dir)
	require.NoError(t, err)
	return s, dir
}

func TestDirStore(t *testing.T) {
	testLeaseStore(t, func(t *testing.T) LeaseStore {
		s, _ := leaseFolder(t)
		return s
	})
}

func TestDirStoreOnDisk(t *testing.T) {
	s, dir := leaseFolder(t)
	for _, worker := range []int{-1, 17} {
		_, err := s.Swap(t.Context(), Record{Region: 2, Worker: worker}, Record{
			Region: 2, Worker: worker, Owner: "größe\xff\n", Nonce: "n", Token: 7, Ceiling: markAt(600), Released: true, Layout: "L",
		})
		require.NoError(t, err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	require.NoError(t, err)
	folder := filepath.Join(dir, "region-2")
	require.Equal(t, []string{
		filepath.Join(folder, "layout.lease"), filepath.Join(folder, "lock"), filepath.Join(folder, "worker-17.lease"),
	}, left)
	text, err := os.ReadFile(filepath.Join(folder, "worker-17.lease"))
	require.NoError(t, err)
	require.Equal(t, "snowflake lease record, format 1\nregion 2\nworker 17\nowner \"gr\\u00f6\\u00dfe\\xff\\n\"\nnonce \"n\"\ntoken 7\nversion 1\n"+
		"ceiling 1767225600 s + 600000000 ns = 2026-01-01T00:00:00.6Z\nreleased true\nlayout \"L\"\ncrc32c 9628f6d7\n", string(text))

	again, err := DirStore(dir)
	require.NoError(t, err)
	mine, err := s.Records(t.Context(), 2)
	require.NoError(t, err)
	theirs, err := again.Records(t.Context(), 2)
	require.NoError(t, err)
	require.Equal(t, mine, theirs)
}

func TestDamagedRecordIsNeverAFreeCode(t *testing.T) {
	s, dir := leaseFolder(t)
	var whole [][]byte
	for _, worker := range []int{17, 18} {
		r, err := s.Swap(t.Context(), Record{Worker: worker}, Record{Worker: worker, Owner: "me", Nonce: "n", Ceiling: markAt(600)})
		require.NoError(t, err)
		whole = append(whole, encodeRecord(r))
	}
	path := filepath.Join(dir, "region-0", "worker-17.lease")
	refused := func(name string, data []byte) {
		t.Helper()
		require.NoError(t, os.WriteFile(path, data, 0o600))
		all, err := s.Records(t.Context(), 0)
		_, swapErr := s.Swap(t.Context(), Record{Worker: 17}, Record{Worker: 17, Nonce: "n"})
		for _, err := range []error{err, swapErr} {
			if !errors.Is(err, ErrDamaged) || Retryable(err) || all != nil || !strings.Contains(err.Error(), path) ||
				!strings.Contains(err.Error(), "restore it") {
				require.Failf(t, "not refused", "%s: %v", name, err)
			}
		}
	}
	for name, data := range damages(recordKind, whole[0]) {
		refused(name, data)
	}
	flippedBits(whole[0], func(bit int, flipped []byte) { refused(fmt.Sprintf("bit %d", bit), flipped) })
	refused("of another worker", whole[1])
	refused("of another region", encodeRecord(Record{Region: 1, Worker: 17, Version: 1}))
	refused("a mark", encodeMark(markText{code: 17}))
	for name, r := range map[string]Record{
		"version 0":        {Worker: 17},
		"version too high": {Worker: 17, Version: math.MaxInt64 + 1},
		"token too high":   {Worker: 17, Version: 1, Token: math.MaxInt64 + 1},
	} {
		refused(name, encodeRecord(r))
	}
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Mkdir(path, 0o700))
	_, err := s.Records(t.Context(), 0)
	require.Error(t, err, "a folder in its place")
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(path, whole[0], 0o600))
	all, err := s.Records(t.Context(), 0)
	require.NoError(t, err)
	require.Len(t, all, 2, "restored")

	for _, name := range []string{"worker-017.lease", "worker-x.lease", "copy of worker-17.lease", "worker--1.lease", ".lease"} {
		stray := filepath.Join(filepath.Dir(path), name)
		require.NoError(t, os.WriteFile(stray, whole[0], 0o600))
		_, err := s.Records(t.Context(), 0)
		require.ErrorIs(t, err, ErrDamaged, name)
		require.ErrorContains(t, err, stray)
		require.NoError(t, os.Remove(stray))
	}
}

func TestDirStoreLeavesForeignFilesAlone(t *testing.T) {
	s, dir := leaseFolder(t)
	_, err := s.Swap(t.Context(), Record{Worker: 17}, Record{Worker: 17, Nonce: "n"})
	require.NoError(t, err)
	folder := filepath.Join(dir, "region-0")
	temp := filepath.Join(folder, "worker-17.lease"+tempMark+"0")
	foreign := []string{filepath.Join(folder, ".DS_Store"), filepath.Join(folder, "worker-17.lease~"), filepath.Join(folder, "notes"+tempMark+"1")}
	for _, path := range append(foreign, temp) {
		require.NoError(t, os.WriteFile(path, []byte("?"), 0o600))
	}
	all, err := s.Records(t.Context(), 0)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.NoFileExists(t, temp)
	for _, path := range foreign {
		require.FileExists(t, path)
	}
}

func TestDirStoreVersionsEnd(t *testing.T) {
	s, dir := leaseFolder(t)
	_, err := s.Records(t.Context(), 0) // makes the folder
	require.NoError(t, err)
	last := Record{Worker: 17, Nonce: "n", Version: math.MaxInt64, Token: math.MaxInt64}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "region-0", "worker-17.lease"), encodeRecord(last), 0o600))
	all, err := s.Records(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, []Record{last}, all)
	_, err = s.Swap(t.Context(), last, last)
	require.ErrorContains(t, err, "last version")
	require.NotErrorIs(t, err, ErrConflict)
}

func TestDirStoreRefusesARecordThatItCouldNotRead(t *testing.T) {
	s, _ := leaseFolder(t)
	_, err := s.Swap(t.Context(), Record{}, Record{Owner: strings.Repeat("x", maxStateFile)})
	require.ErrorContains(t, err, "shorten Owner")
	all, err := s.Records(t.Context(), 0)
	require.NoError(t, err)
	require.Empty(t, all)
}

func TestDirStoreDoesNotMakeAVanishedFolderAgain(t *testing.T) {
	s, dir := leaseFolder(t)
	_, err := s.Swap(t.Context(), Record{Worker: 17}, Record{Worker: 17, Nonce: "n"})
	require.NoError(t, err)
	require.NoError(t, os.Rename(dir, dir+"-elsewhere"))
	_, err = s.Records(t.Context(), 0)
	require.ErrorContains(t, err, dir, "an unmounted disk is not an empty region")
	require.NoError(t, os.Rename(dir+"-elsewhere", dir))
	all, err := s.Records(t.Context(), 0)
	require.NoError(t, err)
	require.Len(t, all, 1)
}

func TestDirStoreWaitsForOtherProcessesNoLongerThanItsContext(t *testing.T) {
	s, dir := leaseFolder(t)
	_, err := s.Records(t.Context(), 0)
	require.NoError(t, err)
	// A lock of another open file is what a lock of another process is.
	lock, err := osFiles{}.lock(filepath.Join(dir, "region-0", "lock"))
	require.NoError(t, err)
	for range 2 { // the second also waits behind what the first left
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err = s.Swap(ctx, Record{Worker: 17}, Record{Worker: 17, Nonce: "n"})
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, dir)
	}
	_, err = s.Records(t.Context(), 1)
	require.NoError(t, err, "another region is free")
	require.NoError(t, lock.release())
	all, err := s.Records(t.Context(), 0)
	require.NoError(t, err)
	require.Empty(t, all, "nothing was written")
}

// hangingDisk is a disk on which fsync of folders does not return until it may.
type hangingDisk struct {
	fileSystem
	hanging chan struct{} // receives when a call hangs
	goOn    chan struct{}
}

func (d *hangingDisk) syncDir(dir string) error {
	d.hanging <- struct{}{}
	<-d.goOn
	return d.fileSystem.syncDir(dir)
}

func TestDirStoreOnADiskThatHangs(t *testing.T) {
	needFlock(t)
	disk := newCrashDisk()
	s, err := newDirStore(disk, "/leases")
	require.NoError(t, err)
	_, err = s.Records(t.Context(), 0)
	require.NoError(t, err)
	hung := &hangingDisk{disk, make(chan struct{}, 10), make(chan struct{})}
	s.files = hung
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-hung.hanging
		cancel()
	}()
	_, err = s.Swap(ctx, Record{Worker: 17}, Record{Worker: 17, Nonce: "n"})
	require.ErrorIs(t, err, context.Canceled)
	close(hung.goOn)
	all, err := s.Records(t.Context(), 0)
	require.NoError(t, err)
	require.Len(t, all, 1, "it has happened, and the read-back waited for it")
}

// Whatever operation fails, and whatever a crash after it leaves: no record is older
// than it was ever shown, none holds what nobody wrote, and none is damaged.
func TestDirStoreSurvivesEveryFailureAndCrash(t *testing.T) {
	failEach(t, func(disk *crashDisk) {
		shown := map[int]uint64{}
		written := map[string]bool{}
		key := func(r Record) string { return fmt.Sprint(r.Worker, r.Version, r.Nonce, r.Token, r.Ceiling) }
		list := func(s *dirStore) (map[int]Record, error) {
			all, err := s.Records(t.Context(), 0)
			if err != nil {
				require.NotErrorIs(t, err, ErrDamaged)
				return nil, err
			}
			found := map[int]Record{}
			for _, r := range all {
				require.True(t, written[key(r)], "%+v", r)
				found[r.Worker] = r
			}
			for worker, version := range shown {
				require.GreaterOrEqual(t, found[worker].Version, version, "worker %d", worker)
			}
			return found, nil
		}
		crash := func() {
			disk.crashes(func(crashed *crashDisk) {
				s, err := newDirStore(crashed, "/state/leases")
				require.NoError(t, err)
				found, err := list(s)
				require.NoError(t, err)
				s, err = newDirStore(crashed.crash(keepNothing), "/state/leases")
				require.NoError(t, err)
				again, err := list(s)
				require.NoError(t, err)
				require.Equal(t, found, again, "what was shown is durable")
			})
		}
		s, err := newDirStore(disk, "/state/leases")
		if err != nil {
			s, err = newDirStore(disk, "/state/leases")
		}
		require.NoError(t, err)
		records := func() map[int]Record { // at most one operation fails
			found, err := list(s)
			if err != nil {
				found, err = list(s)
			}
			require.NoError(t, err)
			for worker, r := range found {
				shown[worker] = r.Version
			}
			crash()
			return found
		}
		step := 0
		swap := func(old Record, worker int) (Record, error) {
			step++
			old.Worker = worker
			next := Record{Worker: worker, Nonce: strconv.Itoa(step), Token: old.Token + 1, Ceiling: markAt(int64(step))}
			next.Version = old.Version + 1
			written[key(next)] = true
			stored, err := s.Swap(t.Context(), old, next)
			if err == nil {
				require.Equal(t, key(next), key(stored))
				shown[worker] = stored.Version
			}
			crash()
			return stored, err
		}
		for range 2 {
			for _, worker := range []int{-1, 3} {
				old := records()[worker]
				stored, err := swap(old, worker)
				if err != nil {
					_, _ = swap(old, worker) // as one who does not read back: a conflict, or the first
					stored = records()[worker]
				}
				_, _ = swap(stored, worker)
			}
			disk.endProcess()
			s, err = newDirStore(disk, "/state/leases")
			if err != nil {
				s, err = newDirStore(disk, "/state/leases")
			}
			require.NoError(t, err)
		}
		records()
	})
}

func init() {
	// count-up DIR TIMES: adds one to the token of worker 17 as often.
	processModes["count-up"] = func(args []string) {
		s := must(DirStore(args[0]))
		var times int
		must(fmt.Sscan(args[1], &times))
		for i := range times {
			if err := countUp(context.Background(), s, 17, fmt.Sprint(os.Getpid(), " ", i)); err != nil {
				panic(err)
			}
		}
		fmt.Println("done")
	}
	// write-on DIR: counts up until it is killed, and prints each version that it was
	// given.
	processModes["write-on"] = func(args []string) {
		s := must(DirStore(args[0]))
		var r Record
		for _, found := range must(s.Records(context.Background(), 0)) {
			r = found
		}
		for {
			r = must(s.Swap(context.Background(), r, Record{Nonce: "n", Owner: strings.Repeat("x", 1000), Token: r.Token + 1}))
			fmt.Println(r.Version)
		}
	}
}

func TestDirStoreLosesNoUpdateOfManyProcesses(t *testing.T) {
	s, dir := leaseFolder(t)
	const processes, times = 8, 10
	var all []*process
	for range processes {
		all = append(all, startProcess(t, "count-up", dir, strconv.Itoa(times)))
	}
	for _, p := range all {
		require.Equal(t, "done", p.line())
		require.NoError(t, p.Wait())
	}
	records, err := s.Records(t.Context(), 0)
	require.NoError(t, err)
	require.Len(t, records, 1)
	require.EqualValues(t, processes*times, records[0].Token)
	require.EqualValues(t, processes*times, records[0].Version)
}

func TestDirStoreWritersThatAreKilledLeaveWholeRecords(t *testing.T) {
	s, dir := leaseFolder(t)
	for round := range 8 {
		writer := startProcess(t, "write-on", dir)
		var version uint64
		for range 1 + 5*round {
			_, err := fmt.Sscan(writer.line(), &version)
			require.NoError(t, err)
		}
		for _, line := range writer.kill() {
			_, err := fmt.Sscan(line, &version)
			require.NoError(t, err)
		}
		records, err := s.Records(t.Context(), 0)
		require.NoError(t, err)
		require.Len(t, records, 1)
		require.GreaterOrEqual(t, records[0].Version, version)
		require.Equal(t, records[0].Version, records[0].Token)
	}
}

func FuzzRecordFile(f *testing.F) {
	f.Add(encodeRecord(Record{Worker: 17, Owner: "me\n\xff", Nonce: "n", Token: 1, Version: 1, Ceiling: markAt(600), Layout: DefaultLayout().String()}))
	f.Add([]byte{})
	whole := encodeRecord(Record{Worker: -1, Version: math.MaxInt64})
	body, err := unseal(recordKind, whole)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(body))
	// What a scanner may read over, but nobody has written.
	f.Add([]byte(strings.Replace(body, "token 0", "token +0", 1)))
	f.Add([]byte(strings.Replace(body, `nonce ""`, "nonce ``", 1)))
	f.Add([]byte(strings.Replace(body, "+ 0 ns", "+ 00 ns", 1)))
	f.Add([]byte(body + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, file := range [][]byte{data, seal(recordKind, string(data))} { // the second gets past the checksum
			if r, err := decodeRecord(file); err == nil {
				require.Equal(t, file, encodeRecord(r))
			}
		}
	})
}
