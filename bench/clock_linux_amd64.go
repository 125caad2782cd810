package bench

import (
	"syscall"
	"time"
)

// wallNanos reads the wall clock the cheapest way there is: see clock_wall_linux_amd64.go
// of the library.
func wallNanos() int64 {
	var tv syscall.Timeval
	if syscall.Gettimeofday(&tv) != nil {
		return time.Now().UnixNano()
	}
	return tv.Sec*1e9 + tv.Usec*1e3
}
