//go:build full

package main

import (
	"testing"
	"time"
)

// TestOrphans kills serve, its keeper, wrappers and servers for some rounds. go run ./bench/soak orphans has more of them, and other seeds.
func TestOrphans(t *testing.T) {
	r, err := runOrphans(t.Context(), options{rounds: 12, seed: 3, bin: troupe, data: t.TempDir() + "/data", counts: true, log: t.Output()})
	proved(t, r, err)
	for _, victim := range victims {
		if r.Kills[victim] == 0 {
			t.Errorf("nobody killed %s: the run proves less than it should", victim)
		}
	}
}

// TestAbandoned has sessions left for some seconds.
func TestAbandoned(t *testing.T) {
	r, err := runAbandoned(t.Context(), options{clients: 4, seed: 3, time: 20 * time.Second, bin: troupe, data: t.TempDir() + "/data", counts: true, log: t.Output()})
	proved(t, r, err)
	if r.Sessions <= r.Max {
		t.Errorf("%d sessions, of which %d may have an instance: the run proves less than it should", r.Sessions, r.Max)
	}
}

// TestSurvival ends serve some times. go run ./bench/soak survival --clients 50 --rounds 50 has more.
func TestSurvival(t *testing.T) {
	r, err := runSurvival(t.Context(), options{rounds: 4, clients: 4, seed: 3, bin: troupe, data: t.TempDir() + "/data", counts: true, log: t.Output()})
	proved(t, r, err)
	for _, ending := range endings {
		if r.Ends[ending] == 0 {
			t.Errorf("no %s: the run proves less than it should", ending)
		}
	}
}
