//go:build unix

package limits

import (
	"math"
	"syscall"
)

// openFiles returns how many files the process may have open, 0 if nobody says.
func openFiles() int {
	var lim syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim) != nil || uint64(lim.Cur) > math.MaxInt32 {
		return 0
	}
	return int(lim.Cur)
}
