//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An outcome is what a guest has to get of a rude backend.
type outcome func(t *testing.T, r reply)

// politely is the outcome of a call that is answered after all.
func politely(t *testing.T, r reply) {
	if r.says() != "polite" {
		t.Errorf("it says %.500s", r.says())
	}
}

// refusedWith is that of a call that ends with an error, whose text and data have words.
func refusedWith(code int, words ...string) outcome {
	return func(t *testing.T, r reply) {
		if r.Error == nil || r.Error.Code != code {
			t.Fatalf("it says %.500s, want error %d", r.says(), code)
		}
		for _, word := range words {
			if !strings.Contains(r.Error.Message+string(r.Error.Data), word) {
				t.Errorf("the error lacks %q: %s", word, r.says())
			}
		}
	}
}

// codedOr is that of a request that is answered, or refused with a code.
func codedOr(t *testing.T, r reply) {
	if r.Error != nil && (r.Error.Code == 0 || r.Error.Message == "") {
		t.Errorf("it says %.500s", r.says())
	}
}

// rudeBackends are what a backend may do that no backend should.
var rudeBackends = []struct {
	mode    string
	rude    outcome // of its tool rude; nil for none
	endless bool    // the call never ends by itself: it is cancelled
	listing outcome // of tools/list, nil where it is that of a good one
	terms   string  // further options
	never   bool    // nothing can ever be served there: rude is the outcome of each call
	blind   bool    // it has no list of tools: rude is the outcome of each call
	other   bool    // the session has to be given another process
}{
	{mode: "silent", never: true, terms: ", start-timeout: 1s", rude: refusedWith(-32603, `"ran":false`)},
	{mode: "dies-at-once", never: true, rude: refusedWith(-32603, `"ran":false`, "exit status 3", "I cannot go on")},
	{mode: "bad-version", never: true, rude: refusedWith(-32603, `"ran":false`)},
	{mode: "asks-early"},
	{mode: "cursors", blind: true, rude: refusedWith(-32602), listing: codedOr},
	{mode: "many-tools 99000", rude: politely, listing: codedOr},
	{mode: "many-tools 100000", rude: codedOr, listing: codedOr}, // beside its others: what is beyond the bounds is left out
	{mode: "bad-schema", rude: politely},
	{mode: "list-changes", rude: politely},
	{mode: "floods-stdout", rude: politely},
	{mode: "floods-stderr", rude: politely},
	{mode: "no-answer", endless: true}, // but it answers pings
	{mode: "deaf", endless: true, other: true},
	{mode: "stops", endless: true, other: true},
	{mode: "no-json", rude: politely},
	{mode: "half-lines", rude: refusedWith(-32603)},
	{mode: "crlf", rude: politely},
	{mode: "bom", rude: politely},
	{mode: "bad-utf8", rude: refusedWith(-32603)},
	{mode: "dies", rude: refusedWith(-32010), other: true},
	{mode: "twice", rude: politely},
	{mode: "unknown-id", rude: politely},
	{mode: "wrong-type", rude: refusedWith(-32603)},
	{mode: "batch", rude: politely},
	{mode: "huge", rude: refusedWith(-32010), other: true}, // it is ended before the end of its line
	{mode: "asks-late", rude: politely},
	{mode: "asks-on", rude: politely},
	{mode: "holds-stdout", rude: refusedWith(-32010), other: true},
}

// TestHostedRudely has backends do what no backend should. Each call gets a clear answer, and the next calls are served: of another session at the same
// backend, of the same session at another backend, and of the same session at the same one.
func TestHostedRudely(t *testing.T) {
	t.Parallel()
	for _, c := range rudeBackends {
		t.Run(c.mode, func(t *testing.T) {
			t.Parallel()
			s := newStranger(t)
			config := configured(t, fmt.Sprintf("  rude: {command: %q, args: [\"%s\"], prefix: none%s}\n  good: {command: %q, args: [plain]}\n", s.path, strings.Join(strings.Fields(c.mode), `", "`), c.terms, s.path))
			p := hostOn(t, "--data", t.TempDir(), "--config", config)
			g, other := arrive(t, p, "2025-11-25", declared), arrive(t, p, "2025-11-25", declared)
			good := func(when string) {
				for i, g := range []*guest{g, other} {
					if r := g.call(t, "good__echo", `{"text":"good"}`); r.says() != "good" {
						t.Errorf("%s, the other backend says to session %d: %s", when, i, r.says())
					}
				}
			}
			good("at first")
			if c.listing != nil {
				c.listing(t, g.do(t, "tools/list", ""))
			}
			if c.never || c.blind {
				for range 3 {
					c.rude(t, g.call(t, "echo", `{"text":"x"}`))
				}
				good("afterwards")
				return
			}
			had := g.counter(t)
			if c.listing == nil {
				if tools := listAll(t, g, "tools/list", "tools"); len(tools) < 20 {
					t.Errorf("tools/list has %d tools", len(tools))
				}
			}
			switch {
			case c.rude != nil:
				c.rude(t, g.call(t, "rude", "{}"))
			case c.endless:
				_, id := g.open(t, "tools/call", tool("rude", "{}"))
				good("meanwhile")
				if r := other.call(t, "echo", `{"text":"x"}`); r.says() != "x" {
					t.Errorf("another session's echo says %s", r.says())
				}
				g.tell(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`)
				if c.other {
					gone(t, had.PID)
				}
			}
			now := g.counterAtLast(t) // first: an instance that has only a call that was cancelled is replaced after a while
			good("afterwards")
			if r := other.call(t, "echo", `{"text":"x"}`); r.says() != "x" {
				t.Errorf("another session's echo says %s", r.says())
			}
			switch {
			case c.other && (now.PID == had.PID || now.N != 1):
				t.Errorf("the session counts %+v, and had process %d, which is to be another", now, had.PID)
			case !c.other && (now.PID != had.PID || now.N != 2):
				t.Errorf("the session counts %+v, and had process %d, which is to be the same", now, had.PID)
			}
		})
	}
}

// TestHostedLate has a backend answer nothing before a file is there. Its clients are told what is known, or wait, and are served then.
func TestHostedLate(t *testing.T) {
	t.Parallel()
	s := newStranger(t)
	file := filepath.Join(t.TempDir(), "go-on")
	p := hostOn(t, append([]string{"--data", t.TempDir(), "--set", "learn-wait=1s"}, s.command("late", file)...)...)
	g := &guest{p: p, revision: "2025-11-25", capabilities: "{}"}
	if r := g.initialize(t); r.Error != nil { // after a second
		t.Fatalf("initialize is answered with %s", r.says())
	}
	x, id := g.open(t, "tools/call", tool("echo", `{"text":"at last"}`))
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := g.answer(t, x, id); r.says() != "at last" {
		t.Errorf("echo says %s", r.says())
	}
}

// TestHostedDiesOnce has a backend die at its first start. It is started again.
func TestHostedDiesOnce(t *testing.T) {
	t.Parallel()
	s := newStranger(t)
	p := hostOn(t, append([]string{"--data", t.TempDir()}, s.command("dies-once", filepath.Join(t.TempDir(), "died"))...)...)
	g := &guest{p: p, revision: "2025-11-25", capabilities: "{}"}
	until(t, "a session", func() bool { return g.initialize(t).Error == nil })
	if c := g.counterAtLast(t); c.N != 1 {
		t.Errorf("it counts %+v", c)
	}
}
