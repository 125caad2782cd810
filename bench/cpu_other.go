//go:build !unix

package bench

import "time"

// cpuTime is not known here: the columns stay 0.
func cpuTime() time.Duration { return 0 }
