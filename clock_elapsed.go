//go:build !linux

package snowflake

import "time"

// systemElapsed stops while the machine is suspended: the wall clock, which
// ceilings are compared with, does not.
func systemElapsed() time.Duration { return monotonic() }
