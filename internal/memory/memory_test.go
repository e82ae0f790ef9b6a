package memory

import (
	"context"
	"errors"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

func TestAvailable(t *testing.T) {
	t.Parallel()
	of := func(n uint64) memlimit.Provider { return memlimit.Limit(n) }
	none := func() (uint64, error) { return 0, errors.New("none") }
	for _, tt := range []struct {
		name            string
		cgroup, machine memlimit.Provider
		want            int64
	}{
		{"a cgroup on a machine", of(1 << 30), of(8 << 30), 1 << 30},
		{"a cgroup that allows more than there is", of(64 << 30), of(8 << 30), 8 << 30},
		{"no cgroup", none, of(8 << 30), 8 << 30},
		{"a cgroup without a limit", of(math.MaxUint64), of(8 << 30), 8 << 30},
		{"nothing is known", none, none, unknown},
		{"zero is not known", of(0), of(0), unknown},
	} {
		if got := available(tt.cgroup, tt.machine); got != tt.want {
			t.Errorf("%s: %d bytes, want %d", tt.name, got, tt.want)
		}
	}
}

// TestKeep sets the limit of the process: it must not run beside other tests.
func TestKeep(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	for memory, want := range map[int64]int64{10 << 30: 9 << 30, 1 << 30: 864 << 20, 256 << 20: 192 << 20} {
		Keep(memory)
		if got := debug.SetMemoryLimit(-1); got != want {
			t.Errorf("of %d bytes the runtime gets %d, want %d", memory, got, want)
		}
		if got := Available(); got != memory {
			t.Errorf("%d bytes are available, want %d", got, memory)
		}
	}
	debug.SetMemoryLimit(1 << 30)
	t.Setenv("GOMEMLIMIT", "1GiB")
	Keep(20 << 30)
	if got := debug.SetMemoryLimit(-1); got != 1<<30 {
		t.Errorf("the operator's limit was changed to %d", got)
	}
}

// TestGiveBack has a heap grow and rest, and counts when it is collected.
func TestGiveBack(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, tt := range []struct {
		name        string
		bytes       []uint64 // at each look, in MiB
		collections []uint64 // by then
		needs       uint64   // what a collection leaves, in MiB
		want        []int    // the looks at which it is collected, the first being 1
	}{
		{"it rests", []uint64{10, 30, 30, 30}, []uint64{5, 5, 5, 5}, 10, nil},
		{"it was busy, and rests", []uint64{10, 500, 500, 10, 10}, []uint64{5, 9, 9, 10, 10}, 10, []int{2}},
		{"it is busy", []uint64{10, 500, 500, 500, 500}, []uint64{5, 9, 12, 13, 14}, 10, nil},
		{"it needs what it has", []uint64{10, 500, 500, 500, 500}, []uint64{5, 5, 6, 6, 6}, 500, []int{1}},
		{"it needs more later", []uint64{10, 500, 480, 480, 600, 480}, []uint64{5, 5, 6, 6, 6, 7}, 480, []int{1, 4}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				look, collected := 0, false
				var got []int
				start := time.Now()
				go giveBack(ctx, func() (uint64, uint64) {
					if collected {
						collected = false
						return tt.collections[look] + 1, tt.needs * mib
					}
					look = int(time.Since(start) / idleTime)
					return tt.collections[look], tt.bytes[look] * mib
				}, func() { got, collected = append(got, look), true })
				time.Sleep(time.Duration(len(tt.bytes)-1)*idleTime + time.Second)
				cancel()
				synctest.Wait()
				if !slices.Equal(got, tt.want) {
					t.Errorf("collected at the looks %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// TestHeap checks that the runtime has the metrics.
func TestHeap(t *testing.T) {
	before, bytes := heap()
	runtime.GC()
	if after, _ := heap(); after <= before || bytes < 100<<10 {
		t.Errorf("%d collections, then %d; %d bytes", before, after, bytes)
	}
}
