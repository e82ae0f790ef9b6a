package scope

import (
	"slices"
	"testing"
)

// TestUnion keeps the order, and has each scope once.
func TestUnion(t *testing.T) { // not parallel, as it counts allocations
	a := append(make([]string, 0, 8), "a", "b")
	if got := Union(a, []string{"b", "c"}); !slices.Equal(got, []string{"a", "b", "c"}) || len(a[:3][2]) != 0 {
		t.Errorf("%v, and the room behind a is %v", got, a[:3])
	}
	if got := Union(nil, []string{"c"}); !slices.Equal(got, []string{"c"}) {
		t.Errorf("%v", got)
	}
	if n := testing.AllocsPerRun(100, func() { _ = Union(a, []string{"a"}) }); n != 0 {
		t.Errorf("%v allocations where nothing is added", n)
	}
}
