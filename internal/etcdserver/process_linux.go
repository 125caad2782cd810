package etcdserver

import "syscall"

// attributes puts a node into a process group of its own, so that a Ctrl-C at the terminal
// is left to the program that has started it. The kernel kills a node that this program
// has left behind stopped: it could not see the end of its input.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
