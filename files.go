package snowflake

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// Everything that this package keeps on disk is a small file of text that is
// replaced whole, by replaceFile and in no other way:
//
//	create a temporary file beside it, write, fsync, close, rename, fsync the folder
//
// The first fsync comes before the rename, so that the name never leads to a file
// whose content a crash can take away; the second makes the rename itself survive.
// Until it has returned, others may see the new file and a crash may bring the old
// one back: whoever reads must fsync the folder before acting on what was read.

const (
	// Only the service writes. Its group, such as operators and backups, may read;
	// others may not even that, because whoever can open a lock file can hold it.
	filePerm = 0o640
	dirPerm  = 0o750

	tempMark = ".tmp-" // in names of temporary files, between the file's own name and a random part

	// maxStateFile is far above what any file of ours holds, and far below what
	// would hurt to read.
	maxStateFile = 64 << 10
	stateFormat  = 1
)

// fileSystem is all that is asked of a disk, operation by operation, so that a test
// can fail each of them and crash between any two. Errors name the path.
type fileSystem interface {
	mkdir(dir string) (made bool, err error) // not made: it is there already
	create(path string) (newFile, error)     // fails if it is there already
	read(path string) ([]byte, error)        // at most a little above maxStateFile
	readdir(dir string) ([]string, error)
	rename(from, to string) error
	remove(path string) error
	syncDir(dir string) error
	lock(path string) (fileLock, error) // *lockedError while another holds it
}

type newFile interface {
	io.Writer
	Sync() error
	Close() error
}

// fileLock is an exclusive lock on a file that holds nothing else, and is never
// renamed or removed: a lock on a file that is replaced would exclude nobody from
// its successor. The lock ends with the process, however it ends.
type fileLock interface {
	text() (string, error)
	setText(text string) error // in place, durable; the length must not change
	current() (bool, error)    // whether the path still leads to the file that is locked
	release() error
}

// lockedError says that somebody else, maybe in this process, holds a lock.
type lockedError struct{ path, text string }

func (e *lockedError) Error() string { return e.path + " is locked by " + e.text }

// replaceFile makes data the content of path, durably. After an error the outcome is
// unknown: path has the old content or the new, whole in either case, and which of
// them a crash leaves is not known either.
func replaceFile(files fileSystem, path string, data []byte) (err error) {
	temp := fmt.Sprintf("%s%s%016x", path, tempMark, rand.Uint64())
	file, err := files.create(temp)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = files.remove(temp) // else removeTemps does it some day
		}
	}()
	if _, err := file.Write(data); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := file.Sync(); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := file.Close(); err != nil {
		return err
	}
	if err := files.rename(temp, path); err != nil {
		return err
	}
	return files.syncDir(filepath.Dir(path))
}

// removeTemps removes what crashes have left behind of replacing files whose names are
// ours. Temporary files are never read: one that stays costs its space, so errors do not
// matter. The caller must hold the lock under which such files are made.
func removeTemps(files fileSystem, dir string, ours func(name string) bool) {
	names, _ := files.readdir(dir)
	for _, temp := range names {
		if name, _, found := strings.Cut(temp, tempMark); found && ours(name) {
			_ = files.remove(filepath.Join(dir, temp))
		}
	}
}

// makeDir makes dir and what is missing above it, durably. A folder that is there may
// have been made a moment ago by a process that crashed before it was durable, and would
// take everything in it along: so the way up is synced in any case. It costs once per
// process.
func makeDir(files fileSystem, dir string) error {
	parent := filepath.Dir(dir)
	if parent == dir {
		return nil
	}
	if err := makeDir(files, parent); err != nil {
		return err
	}
	made, err := files.mkdir(dir)
	if err != nil {
		return err
	}
	err = files.syncDir(parent)
	if !made && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EINVAL)) {
		return nil // nothing of ours was made in a folder that we may not open, or that is read-only
	}
	return err
}

// stateDir makes the folder of a store, and returns its absolute path: a later chdir
// must not lead to another, empty folder.
func stateDir(files fileSystem, what, path string) (string, error) {
	if !flockSupported {
		return "", fmt.Errorf("snowflake: %s: %w on %s, which has no flock", what, errors.ErrUnsupported, runtime.GOOS)
	}
	if path == "" {
		return "", fmt.Errorf("snowflake: %s: the path is empty: give a folder on a local disk that outlives the process", what)
	}
	dir, err := filepath.Abs(path)
	if err == nil {
		err = makeDir(files, dir)
	}
	if err != nil {
		return "", fmt.Errorf("snowflake: %s: %w", what, err)
	}
	return dir, nil
}

// seal frames the text of a state file: a line that says what it is, the body, and a
// checksum of all before it.
//
//	snowflake lease record, format 1
//	...
//	crc32c 0badcafe
func seal(what, body string) []byte {
	text := fmt.Sprintf("snowflake %s, format %d\n%s", what, stateFormat, body)
	return fmt.Appendf(nil, "%scrc32c %08x\n", text, crc32.Checksum([]byte(text), castagnoli))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// unseal returns the body of what seal made, and refuses everything else: there is one
// spelling of each file, byte for byte.
func unseal(what string, data []byte) (body string, err error) {
	text, kind := string(data), "snowflake "+what+", format "
	head := fmt.Sprintf("%s%d\n", kind, stateFormat)
	end := len(text) - len("crc32c 00000000\n")
	switch {
	case text == "":
		return "", errors.New("the file is empty")
	case !strings.HasPrefix(text, kind):
		return "", fmt.Errorf("the file is not a %s", what)
	case !strings.HasPrefix(text, head):
		return "", fmt.Errorf("the file has another format than %d: it is damaged, or a newer release wrote it, which must then be used", stateFormat)
	case end < len(head):
		return "", errors.New("the file is cut off")
	}
	if body = text[len(head):end]; string(seal(what, body)) != text {
		return "", errors.New("the checksum does not match")
	}
	return body, nil
}

// osFiles is the disk.
type osFiles struct{}

func (osFiles) mkdir(dir string) (bool, error) {
	if info, err := os.Stat(dir); err == nil {
		if !info.IsDir() {
			return false, &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
		}
		return false, nil
	}
	err := os.Mkdir(dir, dirPerm)
	if errors.Is(err, fs.ErrExist) { // another process was faster
		return false, nil
	}
	return err == nil, err
}

func (osFiles) create(path string) (newFile, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, filePerm)
	if err != nil {
		return nil, err
	}
	return file, nil
}

func (osFiles) read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read from
	return io.ReadAll(io.LimitReader(file, maxStateFile+1))
}

func (osFiles) readdir(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.Name()
	}
	return names, err
}

func (osFiles) rename(from, to string) error { return os.Rename(from, to) }
func (osFiles) remove(path string) error     { return os.Remove(path) }

func (osFiles) syncDir(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

func (osFiles) lock(path string) (fileLock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, filePerm)
	if err != nil {
		return nil, err
	}
	lock := &osLock{file}
	taken, err := tryFlock(file)
	if err == nil && !taken {
		text, _ := lock.text()
		err = &lockedError{path, cmp.Or(text, "another owner")}
	}
	if err == nil {
		// The file that was opened need not be the one that others will open.
		var current bool
		if current, err = lock.current(); err == nil && !current {
			err = &fs.PathError{Op: "lock", Path: path, Err: errors.New("the file was replaced meanwhile: it must never be removed")}
		}
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return lock, nil
}

type osLock struct{ *os.File }

func (l *osLock) text() (string, error) {
	text, err := io.ReadAll(io.NewSectionReader(l, 0, maxStateFile))
	return strings.TrimSpace(string(text)), err
}

func (l *osLock) setText(text string) error {
	if _, err := l.WriteAt([]byte(text), 0); err != nil {
		return err
	}
	return l.Sync()
}

func (l *osLock) current() (bool, error) {
	mine, err := l.Stat()
	if err != nil {
		return false, err
	}
	now, err := os.Stat(l.Name())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(mine, now), err
}

// release unlocks before it closes: a child process that is being forked may have the
// descriptor for a moment longer, and the lock with it.
func (l *osLock) release() error { return errors.Join(unflock(l.File), l.Close()) }
