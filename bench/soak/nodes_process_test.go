//go:build full

package main

import (
	"fmt"
	"testing"
)

// TestNodes kills one of two processes that share tasks over NATS servers, and stops one until the other has its tasks.
// go run ./bench/soak nodes has more rounds and other seeds, and judges how long it takes.
func TestNodes(t *testing.T) {
	for _, servers := range []int{1, 3} {
		t.Run(fmt.Sprint(servers), func(t *testing.T) {
			r, err := runNodes(t.Context(), options{rounds: 2, seed: 1, nats: servers, bin: host, data: t.TempDir() + "/data", log: t.Output()})
			if err != nil {
				t.Fatal(err)
			}
			if r.Lost < nodesPopulation/2 || r.Attempts < 2 {
				t.Errorf("%d tasks lost their process, and none had more than %d attempts: it proves less than it should", r.Lost, r.Attempts)
			}
			t.Logf("death to next step: max %.0f ms; %+v", r.Killed.Max, *r)
		})
	}
}
