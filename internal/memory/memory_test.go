package memory

import (
	"errors"
	"math"
	"runtime/debug"
	"testing"

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
	Keep(10 << 30)
	if got := debug.SetMemoryLimit(-1); got != 9<<30 {
		t.Errorf("the runtime's limit is %d, want %d", got, 9<<30)
	}
	if got := Available(); got != 10<<30 {
		t.Errorf("%d bytes are available, want %d", got, 10<<30)
	}
	t.Setenv("GOMEMLIMIT", "1GiB")
	Keep(20 << 30)
	if got := debug.SetMemoryLimit(-1); got != 9<<30 {
		t.Errorf("the operator's limit was changed to %d", got)
	}
}
