//go:build unix && !linux

package etcdserver

import "syscall"

// attributes puts a node into a process group of its own, so that a Ctrl-C at the terminal
// is left to the program that has started it. When that ends, the kernel continues the
// group if it is stopped, and a node sees the end of its input.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
