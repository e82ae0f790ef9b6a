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

// TestWanted asks for what the client has and needs, without what no server asks for.
func TestWanted(t *testing.T) {
	t.Parallel()
	got := Wanted([]string{"b", "offline_access", `x"y`, "a"}, []string{"a", "c"})
	if !slices.Equal(got, []string{"b", "a", "c"}) {
		t.Errorf("%v", got)
	}
}

// TestMissing returns what was not granted.
func TestMissing(t *testing.T) {
	t.Parallel()
	if got := Missing([]string{"a"}, []string{"b", "a", "c"}); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("%v", got)
	}
}
