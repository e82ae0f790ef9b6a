// Package memory says how much memory the process may use, and has the garbage collector keep
// to it.
package memory

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// What of the memory Go's runtime does not get: a tenth, at least apart, at most a quarter. It is for what the runtime
// does not count, which are the program itself, buffers of sockets, and pages of mapped and cached files, and for
// what the heap grows beyond the limit while the collector runs behind.
const apart = 160 << 20

// unknown is the memory of a machine that does not say how much it has.
const unknown = 1 << 30

// Available returns how many bytes the process may use: as GOMEMLIMIT says, otherwise as much as its
// cgroup or, if that has no limit, the machine has.
func Available() int64 {
	if set := debug.SetMemoryLimit(-1); set != math.MaxInt64 {
		return set + min(max(set/9, apart), set/3)
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
		debug.SetMemoryLimit(n - min(max(n/10, apart), n/4))
	}
}

const (
	idleTime = 20 * time.Second // without a collection
	worth    = 32 << 20         // bytes that a collection should give back
)

// GiveBack returns memory to the system that the process does not need any more, until ctx is done. Go's
// runtime collects when the heap has grown, and otherwise every two minutes: a process that was busy, and
// has nothing to do, keeps what it needed until then. GiveBack collects when there was no
// collection for 20 seconds.
func GiveBack(ctx context.Context) { giveBack(ctx, heap, debug.FreeOSMemory) }

// heap returns the number of collections so far, and how many bytes the heap has of the system.
func heap() (collections, bytes uint64) {
	s := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64(), s[1].Value.Uint64() + s[2].Value.Uint64() + s[3].Value.Uint64()
}

func giveBack(ctx context.Context, heap func() (collections, bytes uint64), collect func()) {
	look := time.NewTicker(idleTime)
	defer look.Stop()
	last, needed := heap() // needed is the least that the heap had
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		now, bytes := heap()
		if now == last && bytes > needed+worth {
			collect()
			now, bytes = heap()
			needed = bytes
		}
		last, needed = now, min(needed, bytes)
	}
}
