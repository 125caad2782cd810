//go:build !(linux && amd64)

package snowflake

// wallNanos reads the wall clock in nanoseconds since 1970.
func wallNanos() int64 { return portableWallNanos() }
