package snowflake

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

var errInjected = errors.New("injected failure")

// crashDisk is a fileSystem in memory that keeps apart what is seen and what is
// durable, as disks do: content is durable after Sync, and names after syncDir. It can
// fail one operation, and can be crashed.
type crashDisk struct {
	mu   sync.Mutex
	root *diskNode

	calls  int  // operations so far
	failAt int  // this one fails, counted from 1; 0: none
	late   bool // it fails after it has had its effect
}

// diskNode is a file or a folder.
type diskNode struct {
	data, synced []byte
	locked       *diskLock

	names   map[string]*diskNode // nil for a file
	durable map[string]*diskNode
	pending []nameChange // from durable to names
}

// nameChange is one change of a folder, which a crash keeps or drops as a whole.
type nameChange struct {
	gone, name string
	node       *diskNode // nil: only gone is removed
}

func newFolder() *diskNode {
	return &diskNode{names: map[string]*diskNode{}, durable: map[string]*diskNode{}}
}

func newCrashDisk() *crashDisk { return &crashDisk{root: newFolder()} }

func (n *diskNode) change(c nameChange) {
	n.pending = append(n.pending, c)
	c.apply(n.names)
}

func (c nameChange) apply(names map[string]*diskNode) {
	delete(names, c.gone)
	if c.node != nil {
		names[c.name] = c.node
	}
}

// luck decides what of the things that were not synced a crash keeps: it returns a
// number below choices, and 0 is nothing.
type luck func(choices int) int

func keepNothing(int) int            { return 0 }
func keepEverything(choices int) int { return choices - 1 }

// lucks are the two extremes and some of what lies between them.
func lucks() []luck {
	all := []luck{keepNothing, keepEverything}
	for seed := range uint64(4) {
		all = append(all, rand.New(rand.NewPCG(seed, 0)).IntN)
	}
	return all
}

// crash returns the disk as a machine finds it that lost its power now. The disk itself
// goes on.
func (d *crashDisk) crash(keep luck) *crashDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	copies := map[*diskNode]*diskNode{}
	var after func(*diskNode) *diskNode
	after = func(n *diskNode) *diskNode {
		if copies[n] != nil {
			return copies[n]
		}
		if n.names == nil {
			data := n.synced
			if !bytes.Equal(data, n.data) {
				data = [][]byte{n.synced, make([]byte, len(n.data)), n.data[:len(n.data)/2], n.data}[keep(4)]
			}
			copies[n] = &diskNode{data: slices.Clone(data), synced: slices.Clone(data)}
			return copies[n]
		}
		names := maps.Clone(n.durable)
		for _, c := range n.pending {
			if keep(2) == 1 {
				c.apply(names)
			}
		}
		folder := newFolder()
		copies[n] = folder
		for _, name := range slices.Sorted(maps.Keys(names)) {
			folder.names[name] = after(names[name])
		}
		folder.durable = maps.Clone(folder.names)
		return folder
	}
	return &crashDisk{root: after(d.root)}
}

// endProcess frees what a process that ends has locked. The machine goes on.
func (d *crashDisk) endProcess() {
	d.mu.Lock()
	defer d.mu.Unlock()
	var free func(*diskNode)
	free = func(n *diskNode) {
		n.locked = nil
		for _, child := range n.names {
			free(child)
		}
	}
	free(d.root)
}

// do is one operation.
func (d *crashDisk) do(op, path string, effect func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	injected := &fs.PathError{Op: op, Path: path, Err: errInjected}
	if d.calls == d.failAt && !d.late {
		return injected
	}
	if err := effect(); err != nil {
		return &fs.PathError{Op: op, Path: path, Err: err}
	}
	if d.calls == d.failAt {
		return injected
	}
	return nil
}

// find returns the folder that path is in, and what is there. Requires d.mu.
func (d *crashDisk) find(path string) (folder *diskNode, name string, node *diskNode, err error) {
	node = d.root
	for part := range strings.SplitSeq(strings.Trim(filepath.ToSlash(path), "/"), "/") {
		if node == nil || node.names == nil {
			return nil, "", nil, fs.ErrNotExist
		}
		folder, name, node = node, part, node.names[part]
	}
	return folder, name, node, nil
}

func (d *crashDisk) mkdir(dir string) (made bool, err error) {
	err = d.do("mkdir", dir, func() error {
		folder, name, node, err := d.find(dir)
		if err == nil && node == nil {
			folder.change(nameChange{name: name, node: newFolder()})
			made = true
		}
		return err
	})
	return made, err
}

func (d *crashDisk) create(path string) (newFile, error) {
	file := &diskFile{d, path, new(diskNode)}
	err := d.do("create", path, func() error {
		folder, name, node, err := d.find(path)
		if err == nil && node != nil {
			err = fs.ErrExist
		}
		if err == nil {
			folder.change(nameChange{name: name, node: file.node})
		}
		return err
	})
	return file, err
}

func (d *crashDisk) read(path string) (data []byte, err error) {
	err = d.do("read", path, func() error {
		_, _, node, err := d.find(path)
		if err == nil && node == nil {
			err = fs.ErrNotExist
		}
		if err == nil {
			data = slices.Clone(node.data)
		}
		return err
	})
	return data, err
}

func (d *crashDisk) readdir(dir string) (names []string, err error) {
	err = d.do("readdir", dir, func() error {
		_, _, node, err := d.find(dir)
		if err == nil && node == nil {
			err = fs.ErrNotExist
		}
		if err == nil {
			names = slices.Sorted(maps.Keys(node.names))
		}
		return err
	})
	return names, err
}

func (d *crashDisk) rename(from, to string) error {
	return d.do("rename", from, func() error {
		folder, name, node, err := d.find(from)
		if err == nil && node == nil {
			err = fs.ErrNotExist
		}
		if err == nil {
			folder.change(nameChange{gone: name, name: filepath.Base(to), node: node})
		}
		return err
	})
}

func (d *crashDisk) remove(path string) error {
	return d.do("remove", path, func() error {
		folder, name, node, err := d.find(path)
		if err == nil && node == nil {
			err = fs.ErrNotExist
		}
		if err == nil {
			folder.change(nameChange{gone: name})
		}
		return err
	})
}

func (d *crashDisk) syncDir(dir string) error {
	return d.do("sync", dir, func() error {
		node := d.root
		if filepath.Dir(dir) != dir {
			var err error
			if _, _, node, err = d.find(dir); err != nil {
				return err
			}
		}
		if node == nil {
			return fs.ErrNotExist
		}
		node.durable, node.pending = maps.Clone(node.names), nil
		return nil
	})
}

type diskFile struct {
	disk *crashDisk
	path string
	node *diskNode
}

func (f *diskFile) Write(data []byte) (int, error) {
	err := f.disk.do("write", f.path, func() error {
		f.node.data = append(f.node.data, data...)
		return nil
	})
	return len(data), err
}

func (f *diskFile) Sync() error {
	return f.disk.do("sync", f.path, func() error {
		f.node.synced = slices.Clone(f.node.data)
		return nil
	})
}

func (f *diskFile) Close() error { return f.disk.do("close", f.path, func() error { return nil }) }

type diskLock struct{ diskFile }

func (d *crashDisk) lock(path string) (fileLock, error) {
	lock := &diskLock{diskFile{disk: d, path: path}}
	var held error
	err := d.do("lock", path, func() error {
		folder, name, node, err := d.find(path)
		if err != nil {
			return err
		}
		if node == nil {
			node = new(diskNode)
			folder.change(nameChange{name: name, node: node})
		}
		lock.node = node
		if node.locked != nil {
			held = &lockedError{path, strings.TrimSpace(string(node.data))}
		} else if d.calls != d.failAt {
			node.locked = lock
		}
		return nil
	})
	if err = errors.Join(err, held); err != nil {
		return nil, err
	}
	return lock, nil
}

func (l *diskLock) text() (text string, err error) {
	err = l.disk.do("read", l.path, func() error {
		text = strings.TrimSpace(string(l.node.data))
		return nil
	})
	return text, err
}

func (l *diskLock) setText(text string) error {
	err := l.disk.do("write", l.path, func() error {
		l.node.data = []byte(text)
		return nil
	})
	if err != nil {
		return err
	}
	return l.Sync()
}

func (l *diskLock) current() (current bool, err error) {
	err = l.disk.do("stat", l.path, func() error {
		_, _, node, err := l.disk.find(l.path)
		current = node == l.node
		return err
	})
	return current, err
}

func (l *diskLock) release() error {
	err := l.disk.do("unlock", l.path, func() error { return nil })
	l.disk.mu.Lock()
	defer l.disk.mu.Unlock()
	if l.node.locked == l {
		l.node.locked = nil // even if it fails, as a process' files are closed in the end
	}
	return err
}

// failEach runs scenario with no disk operation failing, then with the first, then with
// the second, and so on until there are no more; each before and after its effect.
func failEach(t *testing.T, scenario func(disk *crashDisk)) {
	needFlock(t)
	run := func(disk *crashDisk) (calls int) {
		defer func() {
			if t.Failed() {
				t.Logf("operation %d of %d failed, late: %t", disk.failAt, disk.calls, disk.late)
			}
		}()
		scenario(disk)
		return disk.calls
	}
	require.Greater(t, run(newCrashDisk()), 20, "the scenario must do something")
	for _, late := range []bool{false, true} {
		for failAt := 1; ; failAt++ {
			disk := newCrashDisk()
			disk.failAt, disk.late = failAt, late
			if run(disk) < failAt {
				break
			}
		}
	}
}

// crashes calls check with what different crashes now would leave. It does nothing
// before the operation that is to fail: the run without failures has been there.
func (d *crashDisk) crashes(check func(crashed *crashDisk)) {
	if d.calls < d.failAt {
		return
	}
	for _, keep := range lucks() {
		check(d.crash(keep))
	}
}

func needFlock(t testing.TB) {
	t.Helper()
	if !flockSupported {
		t.Skip("no flock on this platform")
	}
}

// flippedBits calls test with data, one bit of it flipped, for each bit.
func flippedBits(data []byte, test func(bit int, flipped []byte)) {
	for bit := range 8 * len(data) {
		flipped := slices.Clone(data)
		flipped[bit/8] ^= 1 << (bit % 8)
		test(bit, flipped)
	}
}

// damages are things that happen to a state file, by name.
func damages(what string, data []byte) map[string][]byte {
	newer := strings.Replace(string(data), "format 1", "format 2", 1)
	all := map[string][]byte{
		"empty":              {},
		"one NUL":            {0},
		"NUL of same length": make([]byte, len(data)),
		"NUL at the end":     append(slices.Clone(data), make([]byte, 512)...),
		"garbage":            []byte("\xff\xfe{}[]\n\n\x00garbage"),
		"twice":              slices.Concat(data, data),
		"CR LF":              bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n")),
		"no last line break": data[:len(data)-1],
		"newer format":       []byte(newer),
		"foreign":            seal("shopping list", "milk\n"),
		"sealed, no body":    seal(what, ""),
		"sealed garbage":     seal(what, "garbage\n"),
		"huge":               bytes.Repeat(data, 2*maxStateFile/len(data)),
	}
	for length := range data {
		all[fmt.Sprintf("cut off at %d", length)] = data[:length]
	}
	return all
}

func TestCrashDiskKeepsOnlyWhatWasSynced(t *testing.T) {
	disk := newCrashDisk()
	require.NoError(t, makeDir(disk, "/a/b"))
	require.NoError(t, replaceFile(disk, "/a/b/file", []byte("one")))

	file, err := disk.create("/a/b/new")
	require.NoError(t, err)
	_, err = file.Write([]byte("two"))
	require.NoError(t, err)
	require.NoError(t, disk.rename("/a/b/new", "/a/b/file"))

	for _, row := range []struct {
		name string
		keep luck
		want string
	}{
		{"nothing more", keepNothing, "one"},
		{"everything", keepEverything, "two"},
		{"the rename but not the content", func(choices int) int { return map[int]int{2: 1}[choices] }, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			data, err := disk.crash(row.keep).read("/a/b/file")
			require.NoError(t, err)
			require.Equal(t, row.want, string(data))
		})
	}
}

func TestMakeDirIsDurableAlsoAfterAnEarlierCrash(t *testing.T) {
	disk := newCrashDisk()
	for _, dir := range []string{"/a", "/a/b"} { // by a process that died before any fsync
		_, err := disk.mkdir(dir)
		require.NoError(t, err)
	}
	require.NoError(t, makeDir(disk, "/a/b/c"))
	_, err := disk.crash(keepNothing).readdir("/a/b/c")
	require.NoError(t, err)
}

func TestReplaceFileFailsWholly(t *testing.T) {
	failEach(t, func(disk *crashDisk) {
		if makeDir(disk, "/dir") != nil {
			require.NoError(t, makeDir(disk, "/dir"))
		}
		acknowledged := ""
		var tried []string // since, and including, the last that was acknowledged
		for _, latest := range []string{"one", "two", "three", "four"} {
			if replaceFile(disk, "/dir/file", []byte(latest)) == nil {
				acknowledged, tried = latest, nil
			}
			tried = append(tried, latest)
			disk.crashes(func(crashed *crashDisk) {
				data, err := crashed.read("/dir/file")
				if acknowledged == "" && errors.Is(err, fs.ErrNotExist) {
					return
				}
				require.NoError(t, err)
				require.Contains(t, tried, string(data))
			})
		}
	})
}

func TestReplaceFileCleansUp(t *testing.T) {
	for _, failAt := range []int{2, 3, 4, 5} { // write, sync, close, rename
		disk := newCrashDisk()
		disk.failAt = failAt
		require.ErrorIs(t, replaceFile(disk, "/file", []byte("one")), errInjected)
		require.Empty(t, disk.root.names)
	}
}

func TestSeal(t *testing.T) {
	whole := seal("shopping list", "milk\n")
	require.Equal(t, "snowflake shopping list, format 1\nmilk\ncrc32c 48cda26b\n", string(whole))
	body, err := unseal("shopping list", whole)
	require.NoError(t, err)
	require.Equal(t, "milk\n", body)
	flippedBits(whole, func(bit int, flipped []byte) {
		_, err := unseal("shopping list", flipped)
		require.Error(t, err, "bit %d", bit)
	})
	for data, why := range map[string]string{
		"":                   "is empty",
		string(whole[:32]):   "another format than 1",
		string(whole[:40]):   "is cut off",
		string(whole) + "\n": "checksum does not match",
		string(whole[1:]):    "is not a shopping list",
		"snowflake shopping list, format 12\nmilk\n": "a newer release wrote it",
	} {
		_, err := unseal("shopping list", []byte(data))
		require.ErrorContains(t, err, why)
	}
}

func TestFilesOnDisk(t *testing.T) {
	needFlock(t)
	dir := filepath.Join(t.TempDir(), "a", "b")
	files := osFiles{}
	path := filepath.Join(dir, "file")
	require.NoError(t, makeDir(files, dir))
	require.NoError(t, makeDir(files, dir), "again")
	require.NoError(t, replaceFile(files, path, []byte("one")))
	require.NoError(t, replaceFile(files, path, []byte("two")))
	data, err := files.read(path)
	require.NoError(t, err)
	require.Equal(t, "two", string(data))
	names, err := files.readdir(dir)
	require.NoError(t, err)
	require.Equal(t, []string{"file"}, names, "no temporary file is left")

	t.Run("errors name the path", func(t *testing.T) {
		missing := filepath.Join(dir, "missing", "file")
		_, err := files.read(missing)
		require.ErrorContains(t, err, missing)
		_, err = files.lock(missing)
		require.ErrorContains(t, err, missing)
		require.ErrorContains(t, replaceFile(files, missing, nil), missing)
		require.ErrorContains(t, files.syncDir(missing), missing)
		require.ErrorContains(t, makeDir(files, filepath.Join(path, "below")), path, "a file is in the way")
	})
	t.Run("permissions", func(t *testing.T) {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o027, "%v", info.Mode())
		info, err = os.Stat(dir)
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o027, "%v", info.Mode())
	})
	t.Run("lock", func(t *testing.T) {
		lock, err := files.lock(path + ".lock")
		require.NoError(t, err)
		require.NoError(t, lock.setText("somebody\n"))
		_, err = files.lock(path + ".lock")
		var locked *lockedError
		require.ErrorAs(t, err, &locked)
		require.Equal(t, lockedError{path + ".lock", "somebody"}, *locked)

		current, err := lock.current()
		require.NoError(t, err)
		require.True(t, current)
		require.NoError(t, os.Remove(path+".lock"))
		current, err = lock.current()
		require.NoError(t, err)
		require.False(t, current, "removed")
		other, err := files.lock(path + ".lock")
		require.NoError(t, err)
		current, err = lock.current()
		require.NoError(t, err)
		require.False(t, current, "replaced")
		require.NoError(t, errors.Join(lock.release(), other.release()))

		lock, err = files.lock(path + ".lock")
		require.NoError(t, err, "free again")
		require.NoError(t, lock.release())
	})
	t.Run("left-over temporary files", func(t *testing.T) {
		for _, name := range []string{"file" + tempMark + "1", "file2" + tempMark + "1", "notes"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		}
		removeTemps(files, dir, func(name string) bool { return name == "file" })
		names, err := files.readdir(dir)
		require.NoError(t, err)
		require.Equal(t, []string{"file", "file.lock", "file2" + tempMark + "1", "notes"}, names)
	})
}

func TestStateFoldersThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, path := range []string{"", file, filepath.Join(file, "below")} {
		marks, err := FileHighWater(path)
		require.Error(t, err, path)
		require.Nil(t, marks, path)
		leases, err := DirStore(path)
		require.Error(t, err, path)
		require.Nil(t, leases, path)
		if !flockSupported {
			require.ErrorIs(t, err, errors.ErrUnsupported)
		}
	}
}
