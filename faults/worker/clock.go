package main

import (
	"time"

	"github.com/snowfence/snowflake"
)

// wrongClock is the machine's clock with a wall time that is off, and steps.
type wrongClock struct {
	snowflake.Clock
	began        time.Time
	offset, step time.Duration
	every        time.Duration
	steps        time.Duration
}

// clock returns the system's clock itself where nothing is wrong with it.
func (w *worker) clock() snowflake.Clock {
	if w.plan.Offset == 0 && w.plan.Step == 0 {
		return snowflake.SystemClock()
	}
	return &wrongClock{
		Clock: snowflake.SystemClock(), began: time.Now(),
		offset: w.plan.Offset, step: w.plan.Step, every: w.plan.Every, steps: time.Duration(w.plan.Steps),
	}
}

func (c *wrongClock) Now() time.Time {
	now := time.Now()
	offset := c.offset
	if c.every > 0 {
		if n := now.Sub(c.began) / c.every; n < c.steps && n%2 == 1 {
			offset += c.step
		}
	}
	return now.Round(0).Add(offset)
}

// Elapsed neither steps nor is off.
func (c *wrongClock) Elapsed() time.Duration { return time.Since(c.began) }
