//go:build full

package main

import "testing"

// TestCancel closes connections and checks that the handlers end. How soon they end
// needs an idle machine: go run ./bench/soak cancel.
func TestCancel(t *testing.T) {
	r, err := runCancel(t.Context(), options{rounds: 1, seed: 3, servers: 1, bin: program, data: t.TempDir(), log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r)
}
