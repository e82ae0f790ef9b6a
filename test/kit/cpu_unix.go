//go:build unix

package kit

import (
	"syscall"
	"time"
)

// CPU returns the processor time that this process has used.
func CPU() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
