package main

import (
	"bufio"
	"cmp"
	"container/heap"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/snowfence/snowflake"
)

// entry is an ID and the place that it was read at.
type entry struct {
	id    snowflake.ID
	place int64
}

func (e entry) compare(other entry) int {
	return cmp.Or(cmp.Compare(e.id, other.id), cmp.Compare(e.place, other.place))
}

// sorter sorts more entries than fit into memory: it fills a buffer, writes it sorted into
// a file, a run, and merges the runs. A bitmap for each tick would need less, for input in
// order; for input in any order only the disk has room for what has been seen.
//
// So that the number of open files and of their buffers is bounded too, fanIn runs of one
// level are merged into one of the next.
type sorter struct {
	dir    string
	buffer []entry
	limit  int // of its length: what memory there is
	fanIn  int
	levels [][]string // files of runs
	files  int
}

const (
	entrySize = 16
	fanIn     = 64
)

// newSorter returns one that uses a folder of its own in parent ("": the system's for
// temporary files), which close removes.
func newSorter(parent string, memory int64) (*sorter, error) {
	dir, err := os.MkdirTemp(parent, "snowflake-audit-")
	if err != nil {
		return nil, err
	}
	limit := min(memory/entrySize, math.MaxInt/entrySize/2) // what a process can have, of 32 bits too
	return &sorter{dir: dir, limit: int(max(limit, 2)), fanIn: fanIn}, nil
}

// close removes the files. More than once is no mistake.
func (s *sorter) close() error { return os.RemoveAll(s.dir) }

func (s *sorter) add(e entry) error {
	if len(s.buffer) == s.limit {
		if err := s.spill(); err != nil {
			return err
		}
	}
	if n := len(s.buffer); n == cap(s.buffer) { // append would go past the limit
		s.buffer = append(make([]entry, 0, min(max(2*n, 1<<10), s.limit)), s.buffer...)
	}
	s.buffer = append(s.buffer, e)
	return nil
}

// spill writes the buffer as a run, and merges runs where there are many.
func (s *sorter) spill() error {
	slices.SortFunc(s.buffer, entry.compare)
	run, err := s.write(func(add func(entry) error) error {
		for _, e := range s.buffer {
			if err := add(e); err != nil {
				return err
			}
		}
		return nil
	})
	s.buffer = s.buffer[:0]
	for level := 0; err == nil; level++ {
		if level == len(s.levels) {
			s.levels = append(s.levels, nil)
		}
		s.levels[level] = append(s.levels[level], run)
		if len(s.levels[level]) < s.fanIn {
			return nil
		}
		merged := s.levels[level]
		s.levels[level] = nil
		run, err = s.write(func(add func(entry) error) error { return merge(merged, add) })
		for _, file := range merged {
			err = errors.Join(err, os.Remove(file))
		}
	}
	return err
}

// each calls use with every entry, in order. The sorter is used up by it.
func (s *sorter) each(use func(entry) error) error {
	if len(s.levels) > 0 {
		if err := s.spill(); err != nil {
			return err
		}
		s.buffer = nil
		return merge(slices.Concat(s.levels...), use)
	}
	slices.SortFunc(s.buffer, entry.compare)
	for _, e := range s.buffer {
		if err := use(e); err != nil {
			return err
		}
	}
	return nil
}

// write makes a run of what fill adds, in order. IDs are written as the distance from the
// one before: most are close.
func (s *sorter) write(fill func(add func(entry) error) error) (name string, err error) {
	s.files++
	name = filepath.Join(s.dir, strconv.Itoa(s.files))
	file, err := os.Create(name)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	buffered := bufio.NewWriterSize(file, 1<<16)
	var last snowflake.ID
	var bytes [2 * binary.MaxVarintLen64]byte
	err = fill(func(e entry) error {
		encoded := binary.AppendUvarint(bytes[:0], uint64(e.id-last))
		encoded = binary.AppendUvarint(encoded, uint64(e.place))
		last = e.id
		_, err := buffered.Write(encoded)
		return err
	})
	if err != nil {
		return "", err
	}
	return name, buffered.Flush()
}

// runReader is a run that is being read.
type runReader struct {
	file *os.File
	from *bufio.Reader
	head entry
}

// next reads the next head; io.EOF: there is none.
func (r *runReader) next() error {
	distance, err := binary.ReadUvarint(r.from)
	if err != nil {
		return err // io.EOF only between entries
	}
	place, err := binary.ReadUvarint(r.from)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	r.head.id += snowflake.ID(distance)
	r.head.place = int64(place)
	return err
}

// runs is a heap: the lowest head is the first.
type runs []*runReader

func (r runs) Len() int           { return len(r) }
func (r runs) Less(i, j int) bool { return r[i].head.compare(r[j].head) < 0 }
func (r runs) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *runs) Push(x any)        { *r = append(*r, x.(*runReader)) }
func (r *runs) Pop() any {
	last := (*r)[len(*r)-1]
	*r = (*r)[:len(*r)-1]
	return last
}

// merge calls use with the entries of all files, in order.
func merge(files []string, use func(entry) error) (err error) {
	var open runs
	defer func() {
		for _, r := range open {
			err = errors.Join(err, r.file.Close())
		}
	}()
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		r := &runReader{file: file, from: bufio.NewReaderSize(file, 1<<16)}
		open = append(open, r)
		if err := r.next(); err != nil { // no run is empty
			return err
		}
	}
	heap.Init(&open)
	for len(open) > 0 {
		first := open[0]
		if err := use(first.head); err != nil {
			return err
		}
		switch err := first.next(); {
		case err == nil:
			heap.Fix(&open, 0)
		case errors.Is(err, io.EOF):
			heap.Pop(&open)
			if err := first.file.Close(); err != nil {
				return err
			}
		default:
			return err
		}
	}
	return nil
}
