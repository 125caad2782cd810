package snowflake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// DirStore returns a LeaseStore in a folder on a local disk, for all processes of one
// machine. The folder is made if it is missing. It must not be on a network file
// system, whose locks and renames promise less, and is shared by exactly the processes
// whose IDs must not repeat.
//
//	path/region-0/lock            one operation at a time, of all processes
//	path/region-0/layout.lease    the layout that the region is pinned to
//	path/region-0/worker-17.lease the record of one code, as text
//
// A process that is stopped (SIGSTOP, a debugger) in the few milliseconds of an operation
// holds the lock, and holds the other processes' renewals up, until it is continued or
// killed: they go on inside their leases.
//
// Never remove or copy back single files: a record that is gone is a code that was
// never used. A record that cannot be understood is ErrDamaged, for all of Records,
// since nobody knows up to where its code was used. On windows the error is
// errors.ErrUnsupported.
func DirStore(path string) (LeaseStore, error) {
	store, err := newDirStore(osFiles{}, path)
	if err != nil {
		return nil, err
	}
	return store, nil
}

func newDirStore(files fileSystem, path string) (*dirStore, error) {
	dir, err := stateDir(files, "DirStore", path)
	if err != nil {
		return nil, err
	}
	return &dirStore{files: files, dir: dir, regions: make(map[int]*dirRegion)}, nil
}

type dirStore struct {
	files fileSystem
	dir   string

	mu sync.Mutex
	// mu protects regions; what they point to is protected by their turn.
	regions map[int]*dirRegion
}

type dirRegion struct {
	dir  string
	turn chan struct{} // holds an element while this process is at work: it need not poll against itself
	made bool          // the folder was made or found, once. If it vanishes later it is not made again, as empty
}

var _ LeaseStore = (*dirStore)(nil)

const (
	lockPoll     = 2 * time.Millisecond // about as long as an operation takes
	recordKind   = "lease record"
	recordSuffix = ".lease"
	layoutRecord = "layout" + recordSuffix
)

// Records returns the region's records.
//
// It reads first and then syncs the folder. A process that died, or whose fsync failed,
// between rename and fsync has left a record that is seen but not durable; shown as it
// is, a crash could lower a ceiling that somebody had already relied on. For a folder
// without changes the fsync costs next to nothing, and Records is not called per ID.
func (s *dirStore) Records(ctx context.Context, region int) ([]Record, error) {
	if err := checkRecords(ctx, region); err != nil {
		return nil, err
	}
	return whileLocked(ctx, s, region, func(dir string) ([]Record, error) {
		names, err := s.files.readdir(dir)
		if err != nil {
			return nil, err
		}
		removeTemps(s.files, dir, isRecordName)
		records := []Record{}
		for _, name := range names {
			// Other names are none of ours: of editors, file managers, file systems.
			if isRecordName(name) {
				r, err := s.read(dir, region, name)
				if err != nil {
					return nil, err
				}
				records = append(records, r)
			}
		}
		sortRecords(records)
		return records, s.files.syncDir(dir)
	})
}

// Swap compares and swaps one record.
//
// It compares with what it sees, durable or not. A conflict tells nobody anything but
// to look again, with Records; and a success ends with an fsync of the folder, which
// makes the rename that was seen durable along with its own.
func (s *dirStore) Swap(ctx context.Context, old, new Record) (Record, error) {
	if err := checkSwap(ctx, old, new); err != nil {
		return Record{}, err
	}
	return whileLocked(ctx, s, new.Region, func(dir string) (Record, error) {
		name := recordName(new.Worker)
		stored, err := s.read(dir, new.Region, name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Record{}, err
		}
		next, err := compareAndSwap(stored, old, new)
		if err != nil {
			return Record{}, err
		}
		data := encodeRecord(next)
		if len(data) > maxStateFile {
			return Record{}, fmt.Errorf("the record of worker %d takes %d bytes, must take at most %d: shorten Owner", new.Worker, len(data), maxStateFile)
		}
		if err := replaceFile(s.files, filepath.Join(dir, name), data); err != nil {
			return Record{}, err
		}
		return next, nil
	})
}

// read returns a record of the region's folder, an error that is fs.ErrNotExist, or
// ErrDamaged.
func (s *dirStore) read(dir string, region int, name string) (Record, error) {
	path := filepath.Join(dir, name)
	data, err := s.files.read(path)
	if err != nil {
		return Record{}, err
	}
	r, err := decodeRecord(data)
	if err == nil && (r.Region != region || recordName(r.Worker) != name) {
		err = fmt.Errorf("the file is the record of worker %d of region %d", r.Worker, r.Region)
	}
	if err != nil {
		return Record{}, fmt.Errorf("%w: %s: %w. It tells how far a code was used: restore it; or stop every process of the region for one TTL, then remove it",
			ErrDamaged, path, err)
	}
	return r, nil
}

// whileLocked runs op in the region's folder while no other process is there. When ctx
// ends it returns: op is then not begun any more or, on a disk that hangs, left to end
// by itself, with an outcome that is unknown until the next operation had its turn.
func whileLocked[T any](ctx context.Context, s *dirStore, region int, op func(dir string) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	r := s.region(region)
	answers := make(chan answer, 1)
	go func() {
		var a answer
		lock, err := s.enter(ctx, r)
		if a.err = err; err == nil {
			a.value, a.err = op(r.dir)
			_ = lock.release() // closing the file has freed it in any case
			<-r.turn
		}
		answers <- a
	}()
	var a answer
	select {
	case a = <-answers:
	case <-ctx.Done():
		a.err = fmt.Errorf("%s: %w", r.dir, ctx.Err())
	}
	if a.err == nil {
		return a.value, nil
	}
	if known := (*LeaseError)(nil); !errors.As(a.err, &known) && !errors.Is(a.err, ErrDamaged) {
		a.err = fmt.Errorf("snowflake: DirStore: %w", a.err)
	}
	return *new(T), a.err
}

func (s *dirStore) region(region int) *dirRegion {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.regions[region]
	if r == nil {
		r = &dirRegion{dir: filepath.Join(s.dir, "region-"+strconv.Itoa(region)), turn: make(chan struct{}, 1)}
		s.regions[region] = r
	}
	return r
}

// enter takes the process' turn and then the lock of the region. It polls for the lock,
// because a wait inside flock could not be ended by ctx.
func (s *dirStore) enter(ctx context.Context, r *dirRegion) (lock fileLock, err error) {
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() {
		if err != nil {
			<-r.turn
		}
	}()
	if !r.made {
		if err := makeDir(s.files, r.dir); err != nil {
			return nil, err
		}
		r.made = true
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		lock, err := s.files.lock(filepath.Join(r.dir, "lock"))
		if locked := (*lockedError)(nil); !errors.As(err, &locked) {
			return lock, err
		}
		select {
		case <-time.After(lockPoll/2 + rand.N(lockPoll)):
		case <-ctx.Done():
		}
	}
}

func isRecordName(name string) bool { return strings.HasSuffix(name, recordSuffix) }

func recordName(worker int) string {
	if worker == layoutWorker {
		return layoutRecord
	}
	return "worker-" + strconv.Itoa(worker) + recordSuffix
}

// encodeRecord writes a record as text. Strings are quoted in ASCII, which keeps every
// byte and does not depend on the tables of a Go release; the ceiling's integers count,
// the date beside them is for people.
func encodeRecord(r Record) []byte {
	return seal(recordKind, fmt.Sprintf(
		"region %d\nworker %d\nowner %+q\nnonce %+q\ntoken %d\nversion %d\nceiling %d s + %d ns = %s\nreleased %t\nlayout %+q\n",
		r.Region, r.Worker, r.Owner, r.Nonce, r.Token, r.Version,
		r.Ceiling.Unix(), r.Ceiling.Nanosecond(), r.Ceiling.UTC().Format(time.RFC3339Nano), r.Released, r.Layout))
}

// decodeRecord is strict: what it accepts encodes to the same bytes.
func decodeRecord(data []byte) (Record, error) {
	body, err := unseal(recordKind, data)
	if err != nil {
		return Record{}, err
	}
	var r Record
	var seconds, nanos int64
	var readable string
	_, err = fmt.Sscanf(body,
		"region %d\nworker %d\nowner %q\nnonce %q\ntoken %d\nversion %d\nceiling %d s + %d ns = %s\nreleased %t\nlayout %q\n",
		&r.Region, &r.Worker, &r.Owner, &r.Nonce, &r.Token, &r.Version, &seconds, &nanos, &readable, &r.Released, &r.Layout)
	if err != nil {
		return Record{}, err
	}
	r.Ceiling = time.Unix(seconds, nanos).UTC()
	if r.Region < 0 || r.Worker < layoutWorker || r.Version < 1 || r.Version > math.MaxInt64 || r.Token > math.MaxInt64 ||
		string(encodeRecord(r)) != string(data) {
		return Record{}, errors.New("the values are not those of a record")
	}
	return r, nil
}
