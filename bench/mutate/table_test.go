package main

import "testing"

// TestTable checks that each mutation still changes one place of the code. It makes no
// mutation.
func TestTable(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, m := range table() {
		if names[m.name] {
			t.Errorf("%s: two mutations have the name", m.name)
		}
		names[m.name] = true
		if m.old == m.new {
			t.Errorf("%s changes nothing", m.name)
		}
		if _, err := m.apply("../.."); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
	if len(names) < 40 {
		t.Errorf("%d mutations, want at least 40", len(names))
	}
}
