//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
)

// hostOnNATS is hostOn for a node of a fleet.
func hostOnNATS(t *testing.T, c *kit.NATS, name string, args ...string) *process {
	t.Helper()
	return hostOn(t, append([]string{"--nats", c.URL(), "--node", name}, args...)...)
}

// TestHostedInAFleet has the calls of a session come to three processes on one NATS server: one process of the backend serves them all. It goes on
// when its node is killed and comes back, and is replaced when that ends for good.
func TestHostedInAFleet(t *testing.T) {
	when.Full(t, "processes on one NATS server, whose leases end")
	t.Parallel()
	s := newStranger(t)
	c := kit.StartNATS(t, 1, nil)
	var all [3]*process
	var args [3][]string
	for i, name := range []string{"a", "b", "c"} {
		args[i] = append([]string{"--data", t.TempDir(), "--keep", "1h"}, s.command("plain")...)
		all[i] = hostOnNATS(t, c, name, args[i]...)
	}
	g := arrive(t, all[0], "2025-11-25", declared)
	g.p = all[1]
	first := g.counter(t)
	n := first.N
	next := func(at *process, what string) {
		t.Helper()
		g.p = at
		n++
		if got := g.counter(t); got.PID != first.PID || got.N != n {
			t.Errorf("%s, process %d counts %d, want process %d and %d", what, got.PID, got.N, first.PID, n)
		}
	}
	for i, at := range []*process{all[0], all[2], all[1], all[0]} {
		next(at, "call "+string(rune('1'+i)))
	}
	for name, sig := range map[string]syscall.Signal{"kill -9": syscall.SIGKILL, "a deploy": syscall.SIGTERM} {
		all[1].signal(t, sig)
		all[1].exit(t)
		all[1] = hostOnNATS(t, c, "b", args[1]...)
		next(all[1], "after "+name)
		next(all[2], "after "+name+", by way of another node")
	}
	all[1].signal(t, syscall.SIGTERM)
	all[1].exit(t)
	g.p = all[0]
	after := g.counterWhenAsked(t)
	if after.PID == first.PID || after.N != 1 {
		t.Errorf("after its node has ended for good, process %d counts %d", after.PID, after.N)
	}
	g.p = all[2]
	if got := g.counter(t); got.PID != after.PID || got.N != 2 {
		t.Errorf("then process %d counts %d, want process %d and 2", got.PID, got.N, after.PID)
	}
}

// counterWhenAsked is the first answer of counter: until then the server says that the client may try again.
func (g *guest) counterWhenAsked(t *testing.T) (c counted) {
	t.Helper()
	until(t, "an answer of counter", func() bool {
		r := g.call(t, "counter", "{}")
		return r.Error == nil && json.Unmarshal([]byte(r.says()), &c) == nil
	})
	return c
}

// TestHostedWhenItsNodeIsLost kills the node of a session's process for good: the next call is answered within the lease and three seconds.
func TestHostedWhenItsNodeIsLost(t *testing.T) {
	when.Full(t, "processes on one NATS server, whose leases end")
	t.Parallel()
	s := newStranger(t)
	c := kit.StartNATS(t, 1, nil)
	const lease = 10 * time.Second
	var all [3]*process
	for i, name := range []string{"a", "b", "c"} {
		all[i] = hostOnNATS(t, c, name, append([]string{"--set", "lease=" + lease.String(), "--data", t.TempDir(), "--keep", "1s"}, s.command("plain")...)...)
	}
	g := arrive(t, all[0], "2025-11-25", declared)
	first := g.counter(t)
	all[0].kill(t)
	g.p = all[1]
	began := time.Now()
	after := g.counterWhenAsked(t)
	if took := time.Since(began); took > lease+3*time.Second {
		t.Errorf("the next call took %v", took)
	}
	if after.PID == first.PID || after.N != 1 {
		t.Errorf("process %d counts %d", after.PID, after.N)
	}
	if got := strings.Count(all[1].stderr.String(), "goes on at another node than before"); got != 1 {
		t.Errorf("that was logged %d times", got)
	}
}

// TestHostedURLInAFleet kills, for good, the node with a session at the URL of a backend, while that works at a call: another node goes on with both.
func TestHostedURLInAFleet(t *testing.T) {
	when.Full(t, "processes on one NATS server, whose leases end")
	t.Parallel()
	far := hostOn(t, append([]string{"--data", t.TempDir()}, newStranger(t).command("plain")...)...)
	config := configured(t, fmt.Sprintf("  far: {url: %q, prefix: none}\n", far.base+"/mcp"))
	c := kit.StartNATS(t, 1, nil)
	var all [2]*process
	for i, name := range []string{"a", "b"} {
		all[i] = hostOnNATS(t, c, name, "--set", "lease=10s", "--data", t.TempDir(), "--config", config)
	}
	g := arrive(t, all[0], "2025-11-25", "{}")
	g.p = all[1]
	first := g.counter(t)
	file := filepath.Join(t.TempDir(), "held")
	x, id := g.open(t, "tools/call", tool("hold", fmt.Sprintf(`{"file":%q}`, file))+`,"_meta":{"progressToken":"p"}`)
	last := ""
	for data := ""; !strings.Contains(data, "notifications/progress"); {
		var err error
		if last, data, err = x.event(); err != nil {
			t.Fatal(err)
		}
	}
	all[1].kill(t)
	g.p = all[0]
	x, err := g.p.send(t.Context(), "GET", "", g.header("Last-Event-ID", last)...)
	if err != nil {
		t.Fatal(err)
	}
	defer x.close()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := g.answer(t, x, id); r.says() != "held" {
		t.Errorf("the call says %s", r.says())
	}
	if text, err := os.ReadFile(file + ".runs"); err != nil || string(text) != fmt.Sprintln(first.PID) {
		t.Errorf("it ran in %q, want once in %d (%v)", text, first.PID, err)
	}
	if got := g.counter(t); got.PID != first.PID || got.N != first.N+1 {
		t.Errorf("the session counts %d in process %d, want %d in %d", got.N, got.PID, first.N+1, first.PID)
	}
}
