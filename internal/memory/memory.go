// Package memory says how much memory the process may use, and has the garbage collector keep
// to it.
package memory

import (
	"math"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// share is the part of the memory, in tenths, that Go's runtime gets. The rest is for what it does
// not count: the program itself, and pages of mapped and cached files.
const share = 9

// unknown is the memory of a machine that does not say how much it has.
const unknown = 1 << 30

// Available returns how many bytes the process may use: as GOMEMLIMIT says, otherwise as much as its
// cgroup or, if that has no limit, the machine has.
func Available() int64 {
	if set := debug.SetMemoryLimit(-1); set != math.MaxInt64 {
		return set / share * 10
	}
	return available(memlimit.FromCgroup, memlimit.FromSystem)
}

// available returns the least that a source knows.
func available(sources ...memlimit.Provider) int64 {
	least := uint64(math.MaxInt64)
	for _, source := range sources {
		if n, err := source(); err == nil && n > 0 {
			least = min(least, n)
		}
	}
	if least == math.MaxInt64 {
		return unknown
	}
	return int64(least)
}

// Keep has the garbage collector keep the process within n bytes, unless GOMEMLIMIT is set. The limit
// is of the whole process: only a program that has the process for itself should call it.
func Keep(n int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(n / 10 * share)
	}
}
