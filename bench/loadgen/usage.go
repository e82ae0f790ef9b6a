package loadgen

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// usage is what processes have used of this machine.
type usage struct {
	cpu      time.Duration // so far
	resident int64         // bytes now
}

// mib is the memory in MiB.
func (u usage) mib() float64 { return float64(u.resident) / (1 << 20) }

// tick is the unit of processor time in /proc, which Linux has fixed for programs at a hundredth of
// a second.
const tick = 10 * time.Millisecond

// Used returns the processor time that a process has taken, and its resident memory in bytes; zeros
// where Linux does not say.
func Used(pid int) (cpu time.Duration, resident int64) {
	u, _ := usageOf([]int{pid})
	return u.cpu, u.resident
}

// usageOf sums up what processes have used.
func usageOf(pids []int) (u usage, err error) {
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return u, fmt.Errorf("process %d cannot be looked at: %w (this needs Linux, and the id of a process of this machine)", pid, err)
		}
		_, rest, _ := strings.Cut(string(stat), ") ") // The name before that may hold anything.
		fields := strings.Fields(rest)
		if len(fields) < 22 {
			return u, fmt.Errorf("process %d: /proc has %q", pid, rest)
		}
		user, _ := strconv.ParseInt(fields[11], 10, 64)
		system, _ := strconv.ParseInt(fields[12], 10, 64)
		pages, _ := strconv.ParseInt(fields[21], 10, 64)
		u.cpu += time.Duration(user+system) * tick
		u.resident += pages * int64(os.Getpagesize())
	}
	return u, nil
}
