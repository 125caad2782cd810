//go:build !linux

package snowflake

import "time"

// preciseTimer is time.Sleep where its precision is all there is to have.
type preciseTimer struct{}

func newPreciseTimer() preciseTimer        { return preciseTimer{} }
func (preciseTimer) sleep(d time.Duration) { time.Sleep(d) }
func (preciseTimer) close()                {}
