package snowflake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// at returns the start of a tick of the default layout.
func markAt(tick int64) time.Time {
	return DefaultLayout().Epoch.Add(time.Duration(tick) * time.Millisecond)
}

func openMarkFile(t *testing.T, s HighWaterStore, code int) HighWater {
	t.Helper()
	m, err := s.Open(t.Context(), code, DefaultLayout())
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close(context.Background(), time.Time{}) })
	return m
}

// markFolder returns a store in a folder of its own.
func markFolder(t *testing.T) (s HighWaterStore, dir string) {
	t.Helper()
	needFlock(t)
	dir = filepath.Join(t.TempDir(), "marks")
	s, err := FileHighWater(dir)
	require.NoError(t, err)
	return s, dir
}

func TestMarkFile(t *testing.T) {
	s, dir := markFolder(t)
	ctx := t.Context()
	reopened := func(m HighWater, unused time.Time) HighWater {
		t.Helper()
		require.NoError(t, m.Close(ctx, unused))
		return openMarkFile(t, s, 17)
	}
	m := openMarkFile(t, s, 17)
	require.True(t, m.Mark().IsZero(), "never used")
	require.NoError(t, m.Advance(ctx, markAt(100)))
	require.True(t, m.Mark().IsZero(), "as opened")
	require.NoError(t, m.Advance(ctx, markAt(50)), "lower: no effect")

	m = reopened(m, time.Time{})
	require.Equal(t, markAt(100), m.Mark(), "unknown: the mark stays")
	require.NoError(t, m.Advance(ctx, markAt(200).Add(1)))

	m = reopened(m, time.Time{})
	require.Equal(t, markAt(201), m.Mark(), "whole ticks, upward")
	require.NoError(t, m.Advance(ctx, markAt(300)))

	m = reopened(m, markAt(250).Add(-1))
	require.Equal(t, markAt(250), m.Mark(), "just above what was used")
	require.NoError(t, m.Advance(ctx, markAt(400)))

	m = reopened(m, markAt(40))
	require.Equal(t, markAt(250), m.Mark(), "not below what it was opened with")

	m = reopened(m, markAt(500))
	require.Equal(t, markAt(500), m.Mark())

	require.NoError(t, m.Close(ctx, markAt(600)))
	require.NoError(t, m.Close(ctx, markAt(700)), "a second Close does nothing")
	require.ErrorIs(t, m.Advance(ctx, markAt(800)), ErrClosed)
	require.Equal(t, markAt(600), openMarkFile(t, s, 17).Mark())

	require.True(t, openMarkFile(t, s, 18).Mark().IsZero(), "another code")

	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	names := []string{}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	require.Equal(t, []string{"code-17.lock", "code-17.mark", "code-18.lock", "code-18.mark"}, names)
	text, err := os.ReadFile(filepath.Join(dir, "code-17.mark"))
	require.NoError(t, err)
	require.Equal(t, "snowflake high-water mark, format 1\ncode 17\n"+
		"layout \"epoch=2026-01-01T00:00:00Z tick=1ms bits=41+2+8+12\"\n"+
		"tick 600\ntime 2026-01-01T00:00:00.6Z\ncrc32c dacee75c\n", string(text))
}

func TestMarkFileIsOpenOnce(t *testing.T) {
	s, dir := markFolder(t)
	m := openMarkFile(t, s, 1<<8|5)
	again, err := FileHighWater(dir) // another store, as of another part of the program
	require.NoError(t, err)
	for _, store := range []HighWaterStore{s, again} {
		got, err := store.Open(t.Context(), 1<<8|5, DefaultLayout())
		require.Nil(t, got)
		require.ErrorIs(t, err, ErrCodeInUse)
		require.False(t, Retryable(err))
		var e *LeaseError
		require.ErrorAs(t, err, &e)
		require.Equal(t, 1, e.Region)
		require.Equal(t, 5, e.Worker)
		require.Equal(t, fmt.Sprintf("process %d", os.Getpid()), e.Holder)
		require.ErrorContains(t, err, filepath.Join(dir, "code-261.lock"))
	}
	require.NoError(t, m.Close(t.Context(), time.Time{}))
	openMarkFile(t, again, 1<<8|5)
}

func TestMarkFileRefusesWhatTheLayoutDoesNotHold(t *testing.T) {
	s, dir := markFolder(t)
	for _, code := range []int{-1, 1024} {
		m, err := s.Open(t.Context(), code, DefaultLayout())
		require.Nil(t, m)
		require.ErrorContains(t, err, fmt.Sprintf("code is %d, must be 0 to 1023", code))
		require.False(t, Retryable(err))
	}
	m, err := s.Open(t.Context(), 0, Layout{})
	require.Nil(t, m)
	require.Error(t, err)
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Empty(t, left)

	last := openMarkFile(t, s, 1023)
	end := DefaultLayout().End()
	require.NoError(t, last.Advance(t.Context(), end), "everything may be used up")
	require.ErrorIs(t, last.Advance(t.Context(), end.Add(1)), ErrTimeOverflow)
	require.NoError(t, last.Advance(t.Context(), time.Unix(0, 0)), "before the epoch: lower")
	require.NoError(t, last.Close(t.Context(), time.Time{}))
	require.Equal(t, end, openMarkFile(t, s, 1023).Mark())
}

func TestMarkFilePinsTheLayout(t *testing.T) {
	s, dir := markFolder(t)
	require.NoError(t, openMarkFile(t, s, 17).Close(t.Context(), markAt(100)))
	other := DefaultLayout()
	other.Epoch = other.Epoch.Add(time.Second)
	m, err := s.Open(t.Context(), 17, other)
	require.Nil(t, m)
	require.ErrorIs(t, err, ErrLayoutMismatch)
	require.False(t, Retryable(err))
	require.ErrorContains(t, err, DefaultLayout().String())
	require.ErrorContains(t, err, other.String())
	require.ErrorContains(t, err, filepath.Join(dir, "code-17.mark"))
	require.Equal(t, markAt(100), openMarkFile(t, s, 17).Mark(), "the lock was given up")

	same := DefaultLayout()
	same.Tick, same.Epoch = 0, same.Epoch.In(time.FixedZone("far", 3600))
	m, err = s.Open(t.Context(), 18, DefaultLayout())
	require.NoError(t, err)
	require.NoError(t, m.Close(t.Context(), time.Time{}))
	m, err = s.Open(t.Context(), 18, same)
	require.NoError(t, err)
	require.NoError(t, m.Close(t.Context(), time.Time{}))
}

func TestMarkFileWithAContextThatHasEnded(t *testing.T) {
	s, dir := markFolder(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Open(ended, 17, DefaultLayout())
	require.ErrorIs(t, err, context.Canceled)
	require.NoFileExists(t, filepath.Join(dir, "code-17.lock"))

	m := openMarkFile(t, s, 17)
	require.NoError(t, m.Advance(t.Context(), markAt(100)))
	require.ErrorIs(t, m.Advance(ended, markAt(200)), context.Canceled)
	require.ErrorIs(t, m.Close(ended, markAt(50)), context.Canceled)
	require.NoError(t, m.Close(t.Context(), markAt(50)))
	require.Equal(t, markAt(100), openMarkFile(t, s, 17).Mark(), "given up, and nothing written")
}

func TestDamagedMarkFileIsNeverFresh(t *testing.T) {
	s, dir := markFolder(t)
	for _, code := range []int{17, 18} {
		require.NoError(t, openMarkFile(t, s, code).Close(t.Context(), markAt(123456)))
	}
	path := filepath.Join(dir, "code-17.mark")
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	refused := func(name string, data []byte) {
		t.Helper()
		require.NoError(t, os.WriteFile(path, data, 0o600))
		m, err := s.Open(t.Context(), 17, DefaultLayout())
		if !errors.Is(err, ErrDamaged) || Retryable(err) || m != nil || !strings.Contains(err.Error(), path) ||
			!strings.Contains(err.Error(), "restore it") {
			require.Failf(t, "not refused", "%s: %v", name, err)
		}
	}
	for name, data := range damages(markKind, whole) {
		refused(name, data)
	}
	flippedBits(whole, func(bit int, flipped []byte) { refused(fmt.Sprintf("bit %d", bit), flipped) })

	other, err := os.ReadFile(filepath.Join(dir, "code-18.mark"))
	require.NoError(t, err)
	refused("of another code", other)
	require.NoError(t, os.WriteFile(path, other, 0o600))
	_, err = s.Open(t.Context(), 17, DefaultLayout())
	require.ErrorContains(t, err, "the mark of code 18")
	refused("a lease record", encodeRecord(Record{Version: 1}))
	text, err := decodeMark(whole)
	require.NoError(t, err)
	text.tick = -1
	refused("negative tick", encodeMark(text))
	text.tick = 1<<41 + 1
	refused("tick past the end", encodeMark(text))
	text.tick = 123457
	refused("tick and time differ", encodeMark(text))

	require.NoError(t, os.Remove(path))
	m, err := s.Open(t.Context(), 17, DefaultLayout())
	require.Nil(t, m)
	require.ErrorIs(t, err, ErrDamaged, "removed, but the lock file knows")
	require.ErrorContains(t, err, path)

	require.NoError(t, os.Mkdir(path, 0o700))
	_, err = s.Open(t.Context(), 17, DefaultLayout())
	require.Error(t, err, "a folder in its place")
	require.NoError(t, os.Remove(path))

	require.NoError(t, os.WriteFile(path, whole, 0o600))
	require.Equal(t, markAt(123456), openMarkFile(t, s, 17).Mark(), "restored")
}

// A mark that came from a backup, without its lock file, is missed as any other.
func TestMarkFileThatWasRestoredAloneIsMissed(t *testing.T) {
	s, dir := markFolder(t)
	path := filepath.Join(dir, "code-17.mark")
	require.NoError(t, openMarkFile(t, s, 17).Close(t.Context(), markAt(100)))
	require.NoError(t, os.Remove(filepath.Join(dir, "code-17.lock")))
	m := openMarkFile(t, s, 17)
	require.Equal(t, markAt(100), m.Mark())
	require.NoError(t, m.Close(t.Context(), time.Time{}))
	require.NoError(t, os.Remove(path))
	_, err := s.Open(t.Context(), 17, DefaultLayout())
	require.ErrorIs(t, err, ErrDamaged)
}

// failedMark returns a mark that is 100 for certain, and 200 by an Advance that failed
// after its rename.
func failedMark(t *testing.T) (m HighWater, disk *crashDisk, s *fileHighWater) {
	needFlock(t)
	disk = newCrashDisk()
	s, err := newFileHighWater(disk, "/marks")
	require.NoError(t, err)
	m, err = s.Open(t.Context(), 17, DefaultLayout())
	require.NoError(t, err)
	require.NoError(t, m.Advance(t.Context(), markAt(100)))
	disk.failAt = disk.calls + 7 // look at the lock, create, write, sync, close, rename, and now the folder
	require.ErrorIs(t, m.Advance(t.Context(), markAt(200)), ErrHighWater)
	return m, disk, s
}

func TestMarkFileIsNotLoweredAfterAFailure(t *testing.T) {
	m, disk, s := failedMark(t)
	require.NoError(t, m.Advance(t.Context(), markAt(150)))
	calls := disk.calls
	require.NoError(t, m.Advance(t.Context(), markAt(200)))
	require.NoError(t, m.Advance(t.Context(), markAt(150)))
	require.Equal(t, calls+2, disk.calls, "both are known to be durable: only the lock was looked at")
	disk.endProcess()
	require.Equal(t, markAt(200), openMarkFile(t, s, 17).Mark(), "as the one that failed may have been")
}

func TestMarkFileIsClosedToWhatWasUsedAfterAFailure(t *testing.T) {
	m, _, s := failedMark(t)
	require.NoError(t, m.Close(t.Context(), markAt(100)))
	require.Equal(t, markAt(100), openMarkFile(t, s, 17).Mark())
}

func TestMarkFileOfASupersededOwner(t *testing.T) {
	s, dir := markFolder(t)
	for _, again := range []bool{false, true} { // is there a successor already?
		t.Run(fmt.Sprint("successor=", again), func(t *testing.T) {
			old := openMarkFile(t, s, 17)
			require.NoError(t, old.Advance(t.Context(), markAt(100)))
			lock := filepath.Join(dir, "code-17.lock")
			aside := filepath.Join(t.TempDir(), "lock")
			require.NoError(t, os.Rename(lock, aside))
			var successor HighWater
			if again {
				successor = openMarkFile(t, s, 17)
				require.Equal(t, markAt(100), successor.Mark())
				require.NoError(t, successor.Advance(t.Context(), markAt(150)))
			}
			before, err := os.ReadFile(filepath.Join(dir, "code-17.mark"))
			require.NoError(t, err)
			for _, mark := range []int64{50, 200} {
				err := old.Advance(t.Context(), markAt(mark))
				require.ErrorIs(t, err, ErrConflict)
				require.False(t, Retryable(err))
			}
			if !again { // it is final, even if the lock file comes back
				require.NoError(t, os.Rename(aside, lock))
				require.ErrorIs(t, old.Advance(t.Context(), markAt(200)), ErrConflict)
			}
			require.ErrorIs(t, old.Close(t.Context(), markAt(60)), ErrConflict)
			require.NoError(t, old.Close(t.Context(), markAt(60)))
			after, err := os.ReadFile(filepath.Join(dir, "code-17.mark"))
			require.NoError(t, err)
			require.Equal(t, string(before), string(after))
			if again {
				require.NoError(t, successor.Advance(t.Context(), markAt(160)))
				require.NoError(t, successor.Close(t.Context(), time.Time{}))
				require.Equal(t, markAt(160), openMarkFile(t, s, 17).Mark())
			}
		})
	}
}

func TestMarkFileThatCannotBeClosedInOrderIsGivenUp(t *testing.T) {
	s, dir := markFolder(t)
	m := openMarkFile(t, s, 17)
	require.NoError(t, os.Rename(dir, dir+"-elsewhere"))
	require.Error(t, m.Advance(t.Context(), markAt(100)))
	require.Error(t, m.Close(t.Context(), markAt(100)))
	require.NoError(t, os.Rename(dir+"-elsewhere", dir))
	openMarkFile(t, s, 17)
}

func TestMarkFileOpenErrorsAreRetryable(t *testing.T) {
	s, dir := markFolder(t)
	require.NoError(t, os.Remove(dir))
	m, err := s.Open(t.Context(), 17, DefaultLayout())
	require.Nil(t, m)
	require.ErrorIs(t, err, ErrHighWater)
	require.True(t, Retryable(err))
	require.ErrorContains(t, err, dir)
}

// Whatever operation fails, and whatever a crash after it leaves: the mark is not
// below one that was acknowledged or shown, not above what was asked for, and whole.
func TestMarkFileSurvivesEveryFailureAndCrash(t *testing.T) {
	failEach(t, func(disk *crashDisk) {
		var least, most int64 // what the mark may be
		ctx := t.Context()
		open := func(disk *crashDisk) (*fileMark, error) {
			s, err := newFileHighWater(disk, "/state/marks")
			if err != nil {
				return nil, err
			}
			m, err := s.Open(ctx, 17, DefaultLayout())
			if err != nil {
				require.NotErrorIs(t, err, ErrCodeInUse, "the lock of an Open that failed is given up")
				require.NotErrorIs(t, err, ErrDamaged)
				return nil, err
			}
			require.GreaterOrEqual(t, m.(*fileMark).opened, least)
			require.LessOrEqual(t, m.(*fileMark).opened, most)
			return m.(*fileMark), nil
		}
		crash := func() {
			disk.crashes(func(crashed *crashDisk) {
				m, err := open(crashed)
				require.NoError(t, err)
				again, err := open(crashed.crash(keepNothing))
				require.NoError(t, err)
				require.GreaterOrEqual(t, again.opened, m.opened, "a mark that was shown is durable")
			})
		}
		retried := func() *fileMark { // at most one operation fails
			m, err := open(disk)
			if err != nil {
				crash()
				m, err = open(disk)
			}
			require.NoError(t, err)
			least = max(least, m.opened)
			crash()
			return m
		}
		advance := func(m *fileMark, tick int64) {
			most = max(most, tick)
			if m.Advance(ctx, markAt(tick)) == nil {
				least = max(least, tick)
			}
			crash()
		}
		m := retried()
		advance(m, 100)
		advance(m, 200)
		advance(m, 150) // lower than one that may have failed
		advance(m, 160)
		least = 120
		if err := m.Close(ctx, markAt(120)); err == nil {
			most = 120
		}
		crash()
		m = retried()
		advance(m, 300)
		disk.endProcess()
		m = retried()
		advance(m, 400)
		disk.endProcess()
		retried()
	})
}

func TestMarkFileTemporariesAreIgnored(t *testing.T) {
	s, dir := markFolder(t)
	require.NoError(t, openMarkFile(t, s, 1).Close(t.Context(), markAt(100)))
	mine := filepath.Join(dir, "code-1.mark"+tempMark+"0")
	theirs := filepath.Join(dir, "code-11.mark"+tempMark+"0")
	for _, path := range []string{mine, theirs} {
		require.NoError(t, os.WriteFile(path, []byte("half a ma"), 0o600))
	}
	require.Equal(t, markAt(100), openMarkFile(t, s, 1).Mark())
	require.NoFileExists(t, mine)
	require.FileExists(t, theirs, "its owner may be writing it")
}

func init() {
	// hold-mark DIR TICK: has code 17 up to TICK until it is killed.
	processModes["hold-mark"] = func(args []string) {
		s := must(FileHighWater(args[0]))
		m := must(s.Open(context.Background(), 17, DefaultLayout()))
		var tick int64
		must(fmt.Sscan(args[1], &tick))
		if err := m.Advance(context.Background(), markAt(tick)); err != nil {
			panic(err)
		}
		fmt.Println("held")
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
	// fight-for-mark DIR TURNS: opens and closes code 17 as often, and says so if it was
	// not alone.
	processModes["fight-for-mark"] = func(args []string) {
		s := must(FileHighWater(args[0]))
		var turns int
		must(fmt.Sscan(args[1], &turns))
		for turns > 0 {
			m, err := s.Open(context.Background(), 17, DefaultLayout())
			if errors.Is(err, ErrCodeInUse) {
				time.Sleep(time.Millisecond)
				continue
			}
			must(m, err)
			alone := filepath.Join(args[0], "alone")
			must(os.OpenFile(alone, os.O_CREATE|os.O_EXCL, 0o600))
			next := markAt(1)
			if !m.Mark().IsZero() {
				next = m.Mark().Add(time.Millisecond)
			}
			if err := m.Advance(context.Background(), next); err != nil {
				panic(err)
			}
			if err := os.Remove(alone); err != nil {
				panic(err)
			}
			if err := m.Close(context.Background(), time.Time{}); err != nil {
				panic(err)
			}
			turns--
		}
		fmt.Println("done")
	}
}

func TestMarkFileIsFreeOnceItsProcessIsKilled(t *testing.T) {
	s, dir := markFolder(t)
	holder := startProcess(t, "hold-mark", dir, "5000")
	require.Equal(t, "held", holder.line())
	_, err := s.Open(t.Context(), 17, DefaultLayout())
	require.ErrorIs(t, err, ErrCodeInUse)
	require.ErrorContains(t, err, fmt.Sprintf("process %d", holder.Process.Pid))
	holder.kill()
	require.Equal(t, markAt(5000), openMarkFile(t, s, 17).Mark())
}

func TestMarkFileIsNeverOpenInTwoProcesses(t *testing.T) {
	s, dir := markFolder(t)
	const processes, turns = 4, 15
	var all []*process
	for range processes {
		all = append(all, startProcess(t, "fight-for-mark", dir, strconv.Itoa(turns)))
	}
	for _, p := range all {
		require.Equal(t, "done", p.line())
		require.NoError(t, p.Wait())
	}
	require.Equal(t, markAt(processes*turns), openMarkFile(t, s, 17).Mark())
}

func FuzzMarkFile(f *testing.F) {
	whole := encodeMark(markText{17, DefaultLayout().String(), 600, "2026-01-01T00:00:00.6Z"})
	f.Add(whole)
	f.Add([]byte{})
	f.Add([]byte("code 17\nlayout \"\"\ntick 0\ntime never-used\n"))
	f.Add([]byte("code 17\nlayout \"\\xff\"\ntick +1\ntime \xff\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, file := range [][]byte{data, seal(markKind, string(data))} { // the second gets past the checksum
			if text, err := decodeMark(file); err == nil {
				require.Equal(t, file, encodeMark(text))
			}
		}
	})
}
