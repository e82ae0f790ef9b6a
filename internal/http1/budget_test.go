//go:build !race

package http1

import "testing"

// TestBudget bounds what one request with its response allocates: the call, the request and what the handler does.
func TestBudget(t *testing.T) {
	serve := onScript(t)
	if got := testing.AllocsPerRun(1000, serve); got > budget {
		t.Errorf("%v allocations, at most %d are allowed", got, budget)
	}
}

const budget = 3
