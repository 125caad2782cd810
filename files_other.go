//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package snowflake

import (
	"errors"
	"os"
)

// Where there is no flock, FileHighWater and DirStore refuse to be made.
const flockSupported = false

func tryFlock(*os.File) (bool, error) { return false, errors.ErrUnsupported }
func unflock(*os.File) error          { return errors.ErrUnsupported }
