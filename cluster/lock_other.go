//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package cluster

import (
	"errors"
	"os"
)

// tryLock refuses: without a lock two processes could write one store.
func tryLock(*os.File) (held bool, err error) {
	return false, errors.ErrUnsupported
}

func isGone(int) bool { return false }

func unlockFile(*os.File) {}
