//go:build unix

package etcdserver

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// alive reports whether a process exists and is not merely waiting to be reaped, which
// whoever inherits it may never do.
func alive(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err == nil {
		return !strings.Contains(string(status), "State:\tZ")
	}
	return syscall.Kill(pid, 0) == nil
}
