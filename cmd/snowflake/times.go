package main

import (
	"fmt"
	"strings"
	"time"
)

// timeFlag is an instant: RFC 3339, a date or a date and time in UTC, or now with a
// duration added, such as now-24h.
type timeFlag struct{ time.Time }

func (f *timeFlag) String() string {
	if f.IsZero() {
		return ""
	}
	return f.Format(time.RFC3339Nano)
}

func (f *timeFlag) Type() string { return "TIME" }

func (f *timeFlag) Set(text string) (err error) {
	f.Time, err = parseTime(text)
	return err
}

const timeHelp = "RFC 3339, 2026-03-14, \"2026-03-14 12:00\" (UTC), now, now-24h"

func parseTime(text string) (time.Time, error) {
	if rest, ok := strings.CutPrefix(text, "now"); ok {
		now := time.Now().UTC()
		if rest == "" {
			return now, nil
		}
		d, err := time.ParseDuration(rest)
		return now.Add(d), err
	}
	for _, form := range []string{time.RFC3339Nano, time.DateOnly, "2006-01-02 15:04", "2006-01-02 15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999Z07"} {
		if at, err := time.Parse(form, text); err == nil {
			return at.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%.60q is no time: %s", text, timeHelp)
}

const year = 365.25 * 24 * float64(time.Hour)

// years tells how many years of 365.25 days lie between two instants, which may be more
// than a Duration holds.
func years(from, until time.Time) string {
	return fmt.Sprintf("%.1f years", float64(until.Unix()-from.Unix())*float64(time.Second)/year)
}
