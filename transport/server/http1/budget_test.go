//go:build unix && !race

package http1

import "testing"

// TestBudget bounds what one request with its response allocates: the call, the request as its handler has it, what the handler reads into, and
// what it writes, until its length is known.
func TestBudget(t *testing.T) {
	serve := onScript(t)
	if got := testing.AllocsPerRun(1000, serve); got > budget {
		t.Errorf("%v allocations, at most %d are allowed", got, budget)
	}
}

const budget = 4
