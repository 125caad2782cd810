package snowflake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// FileHighWater returns a HighWaterStore in a folder on a local disk that outlives the
// process. The folder is made if it is missing. It must not be on a network file
// system, and all processes that may use a code must use the same folder.
//
//	dir/code-17.mark  the mark, as text
//	dir/code-17.lock  locked while the code is open; never to be removed
//
// A mark that is empty, cut off, changed, of another code or of a newer release is
// ErrDamaged, and so is one that is gone although its lock file shows that there was
// one: it is never taken for "not used yet". Only if both files are removed nobody can
// tell. On windows the error is errors.ErrUnsupported.
func FileHighWater(dir string) (HighWaterStore, error) {
	store, err := newFileHighWater(osFiles{}, dir)
	if err != nil {
		return nil, err
	}
	return store, nil
}

func newFileHighWater(files fileSystem, dir string) (*fileHighWater, error) {
	dir, err := stateDir(files, "FileHighWater", dir)
	if err != nil {
		return nil, err
	}
	return &fileHighWater{files, dir}, nil
}

type fileHighWater struct {
	files fileSystem
	dir   string
}

// fileMark is one code's mark, open.
//
// Why the mark on disk never falls below one that was acknowledged: this owner alone
// writes, as long as it has the lock, and each write is at least as high as every one
// before it, whatever became of those. Close alone writes less, and it is given the
// first tick that was not used.
type fileMark struct {
	files  fileSystem
	path   string
	lock   fileLock
	layout string
	frame  frame
	code   int

	opened    int64 // tick, as opened; 0: never used
	durable   int64 // the highest tick that is known to be on disk
	attempted int64 // the highest tick that may be on disk
	conflict  error // why nothing is written any more, for ever
	closed    bool
}

var (
	_ HighWaterStore = (*fileHighWater)(nil)
	_ HighWater      = (*fileMark)(nil)
)

// Open takes the lock of the code and reads its mark.
func (s *fileHighWater) Open(ctx context.Context, code int, layout Layout) (HighWater, error) {
	if err := layout.Validate(); err != nil {
		return nil, err
	}
	if err := checkField("code", code, layout.RegionBits+layout.WorkerBits); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: code %d was not opened: %w", ErrHighWater, code, err)
	}
	base := filepath.Join(s.dir, fmt.Sprintf("code-%d", code))
	lock, err := s.files.lock(base + ".lock")
	if locked := (*lockedError)(nil); errors.As(err, &locked) {
		return nil, &LeaseError{
			Region: code >> layout.WorkerBits, Worker: code & (1<<layout.WorkerBits - 1), Holder: locked.text,
			Err: fmt.Errorf("%w: %s is locked: give each process a code of its own", ErrCodeInUse, locked.path),
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: code %d: %w", ErrHighWater, code, err)
	}
	m := &fileMark{files: s.files, path: base + ".mark", lock: lock, layout: layout.String(), frame: newFrame(layout), code: code}
	if err := m.open(); err != nil {
		_ = lock.release()
		if errors.Is(err, ErrDamaged) || errors.Is(err, ErrLayoutMismatch) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: code %d: %w", ErrHighWater, code, err)
	}
	return m, nil
}

// open reads the mark or, for a code that was never used, makes the first.
//
// The lock file is empty until there is a durable mark, and never again. So whatever a
// crash leaves, a code without a mark was never used if the lock file is empty too, and
// somebody has removed the mark if it is not.
func (m *fileMark) open() error {
	dir, name := filepath.Split(m.path)
	removeTemps(m.files, dir, func(of string) bool { return of == name })
	data, err := m.files.read(m.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if text, err := m.lock.text(); err != nil {
			return err
		} else if text != "" {
			return m.damaged(errors.New("the file is gone, but the code was used: its lock file is not empty"))
		}
		if err := m.write(0); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		if m.opened, err = m.decode(data); err != nil {
			return err
		}
		// It may be a rename that is seen but was never synced.
		if err := m.files.syncDir(dir); err != nil {
			return err
		}
	}
	m.durable, m.attempted = m.opened, m.opened
	return m.lock.setText(fmt.Sprintf("process %-10d\n", os.Getpid())) // of one length: it never gets shorter
}

// Mark returns the mark as opened.
func (m *fileMark) Mark() time.Time {
	if m.opened == 0 {
		return time.Time{}
	}
	return m.frame.time(m.opened)
}

// Advance raises the mark. A mark that is not a whole tick is rounded up.
func (m *fileMark) Advance(ctx context.Context, mark time.Time) error {
	if m.closed {
		return fmt.Errorf("%w: the mark of code %d", ErrClosed, m.code)
	}
	tick, err := m.admit(ctx, mark)
	if err != nil || tick <= m.durable {
		return err
	}
	m.attempted = max(m.attempted, tick) // an earlier attempt that failed may have got there
	if err := m.write(m.attempted); err != nil {
		return fmt.Errorf("%w: code %d was not advanced: %w", ErrHighWater, m.code, err)
	}
	m.durable = m.attempted
	return nil
}

// Close writes the mark down to what was used, and gives up the lock.
func (m *fileMark) Close(ctx context.Context, unused time.Time) error {
	if m.closed {
		return nil
	}
	m.closed = true
	defer func() { _ = m.lock.release() }() // closing the file frees it in any case
	tick, err := m.admit(ctx, unused)
	if tick = max(tick, m.opened); err != nil || unused.IsZero() || tick == m.durable && m.durable == m.attempted {
		return err
	}
	if err := m.write(tick); err != nil {
		return fmt.Errorf("%w: code %d was closed, its mark may be higher than necessary: %w", ErrHighWater, m.code, err)
	}
	return nil
}

// admit returns the tick of a mark, or why it must not be written.
func (m *fileMark) admit(ctx context.Context, mark time.Time) (tick int64, err error) {
	if m.conflict != nil {
		return 0, m.conflict
	}
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("%w: code %d: nothing was written: %w", ErrHighWater, m.code, err)
	}
	// Somebody who removed the lock file has let another owner in, who has begun at
	// our mark: whatever is below it is ours, and no more.
	current, err := m.lock.current()
	if err != nil {
		return 0, fmt.Errorf("%w: code %d: %w", ErrHighWater, m.code, err)
	}
	if !current {
		m.conflict = fmt.Errorf("%w: %s: the lock file of code %d was removed or replaced: it must never be", ErrConflict, m.path, m.code)
		return 0, m.conflict
	}
	tick = m.frame.ceilTick(nanos(mark))
	if m.frame.start(tick) < nanos(mark) {
		return 0, fmt.Errorf("%w: mark %s of code %d", ErrTimeOverflow, mark.UTC().Format(time.RFC3339Nano), m.code)
	}
	return tick, nil
}

const markKind = "high-water mark"

// markText is what a mark file says. The tick counts; the time is for people.
type markText struct {
	code     int
	layout   string
	tick     int64
	readable string
}

func (m *fileMark) text(tick int64) markText {
	readable := "never-used"
	if tick > 0 {
		readable = m.frame.time(tick).Format(time.RFC3339Nano)
	}
	return markText{m.code, m.layout, tick, readable}
}

func (m *fileMark) write(tick int64) error {
	return replaceFile(m.files, m.path, encodeMark(m.text(tick)))
}

// decode returns the tick of a mark file, if it is this code's.
func (m *fileMark) decode(data []byte) (tick int64, err error) {
	text, err := decodeMark(data)
	switch {
	case err != nil:
		return 0, m.damaged(err)
	case text.code != m.code:
		return 0, m.damaged(fmt.Errorf("the file is the mark of code %d", text.code))
	case text.layout != m.layout:
		return 0, fmt.Errorf("%w: %s has %q, this process %q", ErrLayoutMismatch, m.path, text.layout, m.layout)
	case text.tick < 0 || text.tick > m.frame.lastTick+1 || text != m.text(text.tick):
		return 0, m.damaged(fmt.Errorf("%d (%s) is not a tick of the layout", text.tick, text.readable))
	}
	return text.tick, nil
}

func (m *fileMark) damaged(why error) error {
	return fmt.Errorf("%w: %s: %w. It tells how far code %d was used: restore it, or use a code that never was; "+
		"only if the clock is certainly past all that the code was used for, remove it and its lock file", ErrDamaged, m.path, why, m.code)
}

func encodeMark(t markText) []byte {
	return seal(markKind, fmt.Sprintf("code %d\nlayout %+q\ntick %d\ntime %s\n", t.code, t.layout, t.tick, t.readable))
}

// decodeMark is strict: what it accepts encodes to the same bytes.
func decodeMark(data []byte) (markText, error) {
	body, err := unseal(markKind, data)
	if err != nil {
		return markText{}, err
	}
	var t markText
	if _, err := fmt.Sscanf(body, "code %d\nlayout %q\ntick %d\ntime %s\n", &t.code, &t.layout, &t.tick, &t.readable); err != nil {
		return markText{}, err
	}
	if string(encodeMark(t)) != string(data) {
		return markText{}, errors.New("the values are not those of a mark")
	}
	return t, nil
}
