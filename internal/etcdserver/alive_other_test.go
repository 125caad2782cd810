//go:build !unix

package etcdserver

func alive(int) bool { return false }
