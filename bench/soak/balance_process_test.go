//go:build full

package main

import (
	"os/exec"
	"testing"
	"time"
)

// TestBalance restarts two processes in turn behind nginx and HAProxy; go run
// ./bench/soak balance does more. The processes keep the default --drain-delay, which
// the proxies' configurations rely on: they close idle connections before that.
func TestBalance(t *testing.T) {
	for _, name := range []string{"nginx", "haproxy"} {
		_, err := exec.LookPath(name)
		if err != nil {
			_, err = exec.LookPath("/usr/sbin/" + name)
		}
		if err != nil {
			t.Skipf("%s is not installed; .ci/run installs it", name)
		}
	}
	r, err := runBalance(t.Context(), options{clients: 6, seed: 5, bin: program, data: t.TempDir(), time: 12 * time.Second, log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r)
}

// TestRestart restarts one process while a safe call runs; go run ./bench/soak restart
// does it with a call of a minute. The time for which others are refused needs an idle
// machine.
func TestRestart(t *testing.T) {
	r, err := runRestart(t.Context(), options{rounds: 1, seed: 4, servers: 1, bin: program, data: t.TempDir(), time: 6 * time.Second, flags: []string{"--drain-delay", "500ms"}, log: t.Output()})
	if r == nil {
		t.Fatal(err)
	}
	t.Logf("%+v, %v", r, err)
	if r.Ends.Max > 10_000 { // it waited for the call, or for its DrainWait
		t.Errorf("it ended after %v ms", r.Ends.Max)
	}
}
