package sim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/snowfence/snowflake"
)

// marks is a region's store of high-water marks, fenced by sessions as in a database:
// whoever opens a code that its owner has left alone for a while ends the owner's session.
type marks struct {
	mu   sync.Mutex
	rows map[int]*markRow // by code
}

type markRow struct {
	mark    time.Time
	session int // 0: closed
	beat    time.Time
	owner   *link
	spans   []*span // a session each
}

// quiet is how long an owner may be silent before its code is taken from it.
const quiet = 4 * time.Second

func newMarks() *marks { return &marks{rows: make(map[int]*markRow)} }

// markLink is one process' way to its region's marks.
type markLink struct {
	*link
	marks *marks
	owner int32
}

func (l *markLink) Open(ctx context.Context, code int, _ snowflake.Layout) (snowflake.HighWater, error) {
	m, err := call(ctx, l.link, false, func() (*openMark, error) { return l.open(code) })
	if err != nil {
		return nil, fmt.Errorf("%w: %w", snowflake.ErrHighWater, err)
	}
	return m, nil
}

func (l *markLink) open(code int) (*openMark, error) {
	l.marks.mu.Lock()
	defer l.marks.mu.Unlock()
	row := l.marks.rows[code]
	if row == nil {
		row = new(markRow)
		l.marks.rows[code] = row
	}
	if row.session != 0 && row.owner != l.link {
		if time.Since(row.beat) < quiet && !row.owner.isDead() {
			l.world.hit("mark: code in use")
			return nil, snowflake.ErrCodeInUse
		}
		l.world.hit("mark: taken from a dead owner")
	}
	row.session = len(row.spans) + 1
	row.owner, row.beat = l.link, time.Now()
	opened := l.world.shape.tick(row.mark) // permits nothing by itself
	row.spans = append(row.spans, &span{owner: l.owner, floor: opened, levels: []level{{row.beat, opened}}, final: noTick})
	return &openMark{link: l, row: row, session: row.session, opened: row.mark}, nil
}

// openMark is a mark that a session has opened.
type openMark struct {
	link    *markLink
	row     *markRow
	session int
	opened  time.Time
}

func (m *openMark) Mark() time.Time { return m.opened }

func (m *openMark) Advance(ctx context.Context, mark time.Time) error {
	_, err := call(ctx, m.link.link, true, func() (struct{}, error) { return struct{}{}, m.write(mark, false) })
	return err
}

func (m *openMark) Close(ctx context.Context, unused time.Time) error {
	_, err := call(ctx, m.link.link, true, func() (struct{}, error) { return struct{}{}, m.write(unused, true) })
	return err
}

func (m *openMark) write(mark time.Time, closes bool) error {
	world := m.link.world
	m.link.marks.mu.Lock()
	defer m.link.marks.mu.Unlock()
	row, mine := m.row, m.row.spans[m.session-1]
	if row.session != m.session {
		world.hit("mark: superseded")
		return snowflake.ErrConflict
	}
	row.beat = time.Now()
	if closes {
		row.session = 0
		if mark.IsZero() {
			return nil
		}
		if mark.Before(m.opened) {
			mark = m.opened
		}
		if mark.Before(row.mark) {
			world.hit("mark: lowered by a close")
		}
		row.mark = mark
		mine.final = world.shape.tick(mark)
		return nil
	}
	if mark.After(row.mark) {
		row.mark = mark
		mine.levels = append(mine.levels, level{time.Now(), world.shape.tick(mark)})
	}
	return nil
}

func (l *link) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

func (m *marks) mark(code int) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if row := m.rows[code]; row != nil {
		return row.mark
	}
	return time.Time{}
}

// titles adds what each session had, by code.
func (m *marks) titles(all map[int]title) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for code, row := range m.rows {
		all[code] = newTitle(row.spans)
	}
}
