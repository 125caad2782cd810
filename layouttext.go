package snowflake

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ParseLayout reads what Layout.String writes, the form in which records, mark folders
// and Formats keep a layout:
//
//	epoch=2026-01-01T00:00:00Z tick=1ms bits=41+2+8+12
//
// tick may be left out, for 1 ms; the epoch may be in another time zone. Everything else
// is an error, and so is a layout that Validate refuses.
func ParseLayout(text string) (Layout, error) {
	layout, err := scanLayout(text)
	if err != nil {
		return Layout{}, fmt.Errorf("snowflake: layout %.100q: %w; it must be like %q", text, err, DefaultLayout().String())
	}
	layout = layout.normal()
	return layout, layout.Validate()
}

func scanLayout(text string) (layout Layout, err error) {
	fields := strings.Split(text, " ")
	if len(fields) == 2 {
		fields = []string{fields[0], "tick=1ms", fields[1]}
	}
	if len(fields) != 3 {
		return layout, errors.New("it must have an epoch, a tick and bits")
	}
	for i, name := range []string{"epoch=", "tick=", "bits="} {
		value, ok := strings.CutPrefix(fields[i], name)
		if !ok {
			return layout, fmt.Errorf("%.40q must begin with %q", fields[i], name)
		}
		fields[i] = value
	}
	if layout.Epoch, err = time.Parse(time.RFC3339Nano, fields[0]); err != nil {
		return layout, err
	}
	if layout.Tick, err = time.ParseDuration(fields[1]); err != nil {
		return layout, err
	}
	if layout.Tick == 0 { // which is a default in a Layout, and no value here
		return layout, errors.New("the tick is 0")
	}
	_, err = fmt.Sscanf(fields[2], "%d+%d+%d+%d", &layout.TimeBits, &layout.RegionBits, &layout.WorkerBits, &layout.SequenceBits)
	if err == nil && !strings.HasSuffix(layout.String(), "bits="+fields[2]) {
		err = fmt.Errorf("the bits are %.40q", fields[2])
	}
	return layout, err
}
