//go:build unix

package snowflake

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// offsetClock is the machine's clock, off by an amount that can be changed.
type offsetClock struct{ offset atomic.Int64 }

func (c *offsetClock) Now() time.Time {
	return time.Now().Round(0).Add(time.Duration(c.offset.Load()))
}
func (c *offsetClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

const (
	killAhead  = 400 * time.Millisecond
	killWindow = 100 * time.Millisecond
)

func init() {
	// mint-ahead DIR OFFSET mints on a static code with a mark in DIR, on a clock that is
	// off by OFFSET and steps back by MaxAhead after a hundred IDs. It never ends by itself.
	processModes["mint-ahead"] = func(args []string) {
		out := bufio.NewWriter(os.Stdout)
		clk := new(offsetClock)
		clk.offset.Store(int64(must(time.ParseDuration(args[1]))))
		cfg := Config{Lease: StaticLease(3), HighWater: must(FileHighWater(args[0])), Clock: clk, MaxAhead: killAhead, Window: killWindow}
		g, err := New(context.Background(), cfg)
		for ; err != nil; g, err = New(context.Background(), cfg) {
			if !Retryable(err) {
				panic(err)
			}
			must(fmt.Fprintln(out, "refused"))
			must(0, out.Flush())
			time.Sleep(20 * time.Millisecond)
		}
		for n := 1; ; n++ {
			id, err := g.Next()
			if err != nil {
				if !Retryable(err) {
					panic(err)
				}
				time.Sleep(time.Millisecond)
				continue
			}
			must(fmt.Fprintln(out, int64(id)))
			must(0, out.Flush())
			if n == 100 {
				clk.offset.Add(-int64(killAhead))
				must(fmt.Fprintln(out, "stepped back"))
			}
		}
	}
}

// For real what TestLogicalClockSurvivesKill does in one process: IDs run ahead of a clock
// that has stepped back, kill -9, a restart on a clock that is still behind.
func TestKillWhileAhead(t *testing.T) {
	dir := t.TempDir()
	ids := newLedger()
	refused := 0
	for life, offset := range []string{"0s", "-" + killAhead.String(), "-" + (2 * killAhead).String()} {
		p := startProcess(t, "mint-ahead", dir, offset)
		stepped := false
		for after := 0; after < 50; {
			switch line := p.line(); line {
			case "":
				t.Fatalf("life %d ended by itself", life)
			case "refused":
				refused++
			case "stepped back":
				stepped = true
			default:
				id, err := strconv.ParseInt(line, 10, 64)
				require.NoError(t, err)
				ids.add(t, strconv.Itoa(life), ID(id))
				if stepped {
					after++
				}
			}
		}
		for _, line := range p.kill() {
			if id, err := strconv.ParseInt(line, 10, 64); err == nil {
				ids.add(t, strconv.Itoa(life), ID(id))
			}
		}
	}
	require.Positive(t, refused, "a clock that is further behind than MaxAhead + Window is refused at first")
	require.GreaterOrEqual(t, len(ids.seen), 3*150)
}
