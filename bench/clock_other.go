//go:build !(linux && amd64)

package bench

import "time"

func wallNanos() int64 { return time.Now().UnixNano() }
