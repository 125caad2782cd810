//go:build unix

package main

import (
	"runtime"
	"syscall"
	"time"
)

// cpuTime returns what the process has used, of all cores.
func cpuTime() time.Duration { return usage(syscall.RUSAGE_SELF) }

// childrenTime returns what processes have used that it started, and that have ended.
func childrenTime() time.Duration { return usage(syscall.RUSAGE_CHILDREN) }

func usage(who int) time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(who, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// memory returns the most that was resident, in bytes.
func memory() int64 {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	most := int64(used.Maxrss) //nolint:unconvert // 32 bits on some
	if runtime.GOOS == "darwin" {
		return most
	}
	return most * 1024
}
