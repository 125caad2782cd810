package snowflake

import "syscall"

// wallNanos reads the wall clock in nanoseconds since 1970, to the microsecond.
//
// time.Now reads two clocks, the wall and the monotonic one; a claim needs only
// the wall. syscall.Gettimeofday reads just that one, on linux/amd64 through the
// vDSO without entering the kernel: 21 ns against 42 ns for time.Now, measured
// side by side (BenchmarkWallClock). Elsewhere it would be a true system call.
func wallNanos() int64 {
	var tv syscall.Timeval
	if syscall.Gettimeofday(&tv) != nil {
		return portableWallNanos()
	}
	return tv.Sec*1e9 + tv.Usec*1e3
}
