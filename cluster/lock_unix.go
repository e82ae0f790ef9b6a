//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package cluster

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes an exclusive lock that ends with the process. It conflicts
// with another open file of the same process too.
func tryLock(f *os.File) (held bool, err error) {
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, err
		}
	}
}

// isGone reports whether a process has ended for certain.
func isGone(pid int) bool { return pid > 0 && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// unlockFile gives the lock back before the file is closed. A program that this process starts has the file too, until it
// is running, and would keep the lock as long.
func unlockFile(f *os.File) { _ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
