//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package snowflake

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// The lock is flock's and not fcntl's: a lock of fcntl belongs to the process, so it
// does not exclude a second owner in the same one, and any Close of the file drops it.
const flockSupported = true

// tryFlock takes the exclusive lock on file unless another has it. It does not wait.
func tryFlock(file *os.File) (taken bool, err error) {
	err = flock(file, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

func unflock(file *os.File) error { return flock(file, syscall.LOCK_UN) }

func flock(file *os.File, how int) error {
	for {
		err := syscall.Flock(int(file.Fd()), how)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, syscall.EINTR):
			return &fs.PathError{Op: "flock", Path: file.Name(), Err: err}
		}
	}
}
