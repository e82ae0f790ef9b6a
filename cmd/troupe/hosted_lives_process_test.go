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
)

// TestHostedSurvivesAKill kills serve, and has it end in order, while sessions and calls without one have processes of a backend. The next serve
// on the same data directory goes on with the same processes and all that they hold.
func TestHostedSurvivesAKill(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"kill -9": syscall.SIGKILL, "a deploy": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStranger(t)
			args := append([]string{"--data", t.TempDir(), "--keep", "1h"}, s.command("plain")...)
			p := hostOn(t, args...)
			guests := []*guest{arrive(t, p, "2025-11-25", declared), arrive(t, p, "2025-06-18", "{}")}
			var before []counted
			for i, g := range guests {
				for range i + 1 {
					g.counter(t)
				}
				before = append(before, g.counter(t))
			}
			p.alone(t, "tools/call", tool("counter", "{}"))
			standing := alonesCount(t, p)
			keeper := s.keeperOf(t, standing.PID)
			for round := range 2 {
				p.signal(t, sig)
				if code := p.exit(t); sig == syscall.SIGTERM && code != 0 {
					t.Fatalf("it ended with %d:\n%s", code, p.stderr)
				}
				p = hostOn(t, args...)
				for i, g := range guests {
					g.p = p
					want := counted{before[i].PID, before[i].N + round + 1, 0}
					if got := g.counter(t); got != want {
						t.Errorf("after %d times, session %d counts %+v, want %+v", round+1, i, got, want)
					}
				}
				want := counted{standing.PID, standing.N + round + 1, 0}
				if got := alonesCount(t, p); got != want {
					t.Errorf("after %d times, calls without a session count %+v, want %+v", round+1, got, want)
				}
			}
			if got := s.keeperOf(t, standing.PID); got != keeper {
				t.Errorf("the keeper is %d, and was %d", got, keeper)
			}
			// One that has told what the backend lists has ended.
			until(t, "three processes of the backend", func() bool { return len(s.processes(t)) == 3 })
			s.endAll(t, p, keeper)
		})
	}
}

// alonesCount is the counter of calls without a session.
func alonesCount(t *testing.T, p *process) (c counted) {
	t.Helper()
	a := p.alone(t, "tools/call", tool("counter", "{}"))
	if err := json.Unmarshal([]byte(a.says()), &c); err != nil || c.PID == 0 {
		t.Fatalf("counter says %s", a.Body)
	}
	return c
}

// endAll ends serve and its keeper, and checks that nothing is left.
func (s stranger) endAll(t *testing.T, p *process, keeper int) {
	t.Helper()
	p.kill(t)
	if err := syscall.Kill(keeper, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	gone(t, keeper)
	s.nothingLeft(t)
}

// eachKept runs f with the arguments of a serve with a backend that outlives it: a process that its keeper keeps, and a session at the URL of another serve.
func eachKept(t *testing.T, f func(t *testing.T, args []string)) {
	t.Helper()
	t.Run("process", func(t *testing.T) {
		t.Parallel()
		f(t, append([]string{"--data", t.TempDir(), "--keep", "1h"}, newStranger(t).command("plain")...))
	})
	t.Run("URL", func(t *testing.T) {
		t.Parallel()
		far := hostOn(t, append([]string{"--data", t.TempDir()}, newStranger(t).command("plain")...)...)
		f(t, []string{"--data", t.TempDir(), "--config", configured(t, fmt.Sprintf("  far: {url: %q, prefix: none}\n", far.base+"/mcp"))})
	})
}

// TestHostedCallsSurviveAKill kills serve in the middle of calls that the backend runs. Whether they may run again or not, the next serve brings their
// answers, as their processes go on with them: none runs twice, and nothing comes twice.
func TestHostedCallsSurviveAKill(t *testing.T) {
	t.Parallel()
	eachKept(t, func(t *testing.T, args []string) {
		dir := t.TempDir()
		p := hostOn(t, args...)
		type held struct {
			g              *guest
			x              *exchange
			pid            int
			name, id, file string
			last           string
		}
		var all []*held
		for _, name := range []string{"look", "hold"} { // the first may run again
			h := &held{g: arrive(t, p, "2025-11-25", "{}"), name: name, file: filepath.Join(dir, name)}
			h.pid = h.g.counter(t).PID
			h.x, h.id = h.g.open(t, "tools/call", tool(name, fmt.Sprintf(`{"file":%q}`, h.file))+`,"_meta":{"progressToken":"p"}`)
			for data := ""; !strings.Contains(data, "notifications/progress"); { // the call is a stream now
				var err error
				if h.last, data, err = h.x.event(); err != nil {
					t.Fatal(err)
				}
			}
			all = append(all, h)
		}
		p.kill(t)
		p = hostOn(t, args...)
		for _, h := range all {
			h.g.p = p
			x, err := p.send(t.Context(), "GET", "", h.g.header("Last-Event-ID", h.last)...)
			if err != nil {
				t.Fatal(err)
			}
			defer x.close()
			if err := os.WriteFile(h.file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if r := h.g.answer(t, x, h.id); r.says() != "held" {
				t.Errorf("%s says %s", h.name, r.says())
			}
			// Progress that comes before anybody is back is lost.
			if got := besides(h.g.beside, "notifications/progress"); strings.Count(got, "\n") > 1 || strings.Contains(got, "step 1") {
				t.Errorf("%s: after the kill it tells of\n%s", h.name, got)
			}
			if text, err := os.ReadFile(h.file + ".runs"); err != nil || string(text) != fmt.Sprintln(h.pid) {
				t.Errorf("%s ran in %q, want once in %d (%v)", h.name, text, h.pid, err)
			}
			if got := h.g.counter(t); got.PID != h.pid {
				t.Errorf("the session has process %d, and had %d", got.PID, h.pid)
			}
		}
	})
}

// TestHostedQuestionsSurviveAKill kills serve while questions of the backend wait for answers, in both eras.
func TestHostedQuestionsSurviveAKill(t *testing.T) {
	t.Parallel()
	eachKept(t, func(t *testing.T, args []string) {
		p := hostOn(t, args...)
		g := arrive(t, p, "2025-11-25", declared)
		pid := g.counter(t).PID
		x, id := g.open(t, "tools/call", tool("ask", `{"text":"which"}`))
		var question reply
		last := ""
		for question.Method != "elicitation/create" {
			at, data, err := x.event()
			if err != nil {
				t.Fatal(err)
			}
			last = at
			if data != "" {
				question = reply{}
				if err := json.Unmarshal([]byte(data), &question); err != nil {
					t.Fatal(err)
				}
			}
		}
		params := tool("ask", `{"text":"which"}`)
		a := p.alone(t, "tools/call", params)
		if a.Result.ResultType != "input_required" {
			t.Fatalf("ask without a session: %s", a.Body)
		}
		p.kill(t)
		p = hostOn(t, args...)
		g.p = p
		x, err := p.send(t.Context(), "GET", "", g.header("Last-Event-ID", last)...)
		if err != nil {
			t.Fatal(err)
		}
		defer x.close()
		g.tell(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"answer":"this"}}}`, question.ID))
		if r := g.answer(t, x, id); r.says() != "this" {
			t.Errorf("ask says %s", r.says())
		}
		if again := besides(g.beside, "elicitation/create"); again != "" {
			t.Errorf("after the kill it asks again:\n%s", again)
		}
		if got := g.counter(t).PID; got != pid {
			t.Errorf("the session has process %d, and had %d", got, pid)
		}
		for key := range a.Result.InputRequests {
			b := p.alone(t, "tools/call", fmt.Sprintf(`%s,"requestState":%q,"inputResponses":{%s}`, params, a.Result.RequestState, form(key, "answer", "that")))
			if b.says() != "that" {
				t.Errorf("ask without a session says %s", b.Body)
			}
		}
	})
}

// TestHostedKeeperKilled kills the keeper. Its processes end with it, whatever they do to live on, and the next call of each session has another one.
func TestHostedKeeperKilled(t *testing.T) {
	t.Parallel()
	for name, alone := range map[string]bool{"and serve goes on": false, "and serve": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStranger(t)
			args := append([]string{"--data", t.TempDir(), "--keep", "1h"}, s.command("ignores-eof", "ignores-term", "daemon", "double", "plain")...)
			p := hostOn(t, args...)
			g, other := arrive(t, p, "2025-11-25", "{}"), arrive(t, p, "2025-11-25", "{}")
			pids := []int{g.counter(t).PID, other.counter(t).PID}
			all := s.processes(t)
			if err := syscall.Kill(s.keeperOf(t, pids[0]), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if alone {
				p.kill(t)
				p = hostOn(t, args...)
			}
			for _, was := range all {
				gone(t, was.pid)
			}
			for i, g := range []*guest{g, other} {
				g.p = p
				if c := g.counterAtLast(t); c.PID == pids[i] || c.N != 1 {
					t.Errorf("session %d counts %+v, and had process %d", i, c, pids[i])
				}
			}
			p.kill(t)
		})
	}
}

// counterAtLast is counter for a session whose process was lost, and whose next call may be told so.
func (g *guest) counterAtLast(t *testing.T) (c counted) {
	t.Helper()
	until(t, "an answer of counter", func() bool {
		r := g.call(t, "counter", "{}")
		if r.Error != nil && r.Error.Code != -32010 && !strings.Contains(string(r.Error.Data), `"ran":false`) {
			t.Fatalf("counter says %s", r.says())
		}
		return r.Error == nil && json.Unmarshal([]byte(r.says()), &c) == nil
	})
	return c
}

// TestHostedIsNotKeptForEver kills serve, and starts none. All processes end, and their keeper too.
func TestHostedIsNotKeptForEver(t *testing.T) {
	t.Parallel()
	s := newStranger(t)
	p := hostOn(t, append([]string{"--data", t.TempDir(), "--keep", "1s"}, s.command("ignores-eof", "ignores-term", "daemon", "stripped", "plain")...)...)
	g := arrive(t, p, "2025-11-25", "{}")
	keeper := s.keeperOf(t, g.counter(t).PID)
	p.kill(t)
	s.nothingLeft(t)
	gone(t, keeper)
}

// TestHostedInMemory ends with its process: there is nobody who could go on.
func TestHostedInMemory(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"kill -9": syscall.SIGKILL, "in order": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStranger(t)
			p := hostOn(t, append([]string{"--memory"}, s.command("plain")...)...)
			arrive(t, p, "2025-11-25", "{}").counter(t)
			p.signal(t, sig)
			p.exit(t)
			s.nothingLeft(t)
			if strings.Contains(p.stderr.String(), "part=keeper") {
				t.Errorf("the keeper, in which nothing is wrong, writes into the log of its program:\n%s", p.stderr.String())
			}
		})
	}
}

// TestHostedInstanceKilled kills the process of a session in the middle of calls: one that may run again does so in another, the other ends with -32010.
func TestHostedInstanceKilled(t *testing.T) {
	t.Parallel()
	s := newStranger(t)
	dir := t.TempDir()
	p := hostOn(t, append([]string{"--data", t.TempDir()}, s.command("plain")...)...)
	for name, safe := range map[string]bool{"look": true, "hold": false} {
		g, other := arrive(t, p, "2025-11-25", "{}"), arrive(t, p, "2025-11-25", "{}")
		pid, apart := g.counter(t).PID, other.counter(t).PID
		file := filepath.Join(dir, name)
		x, id := g.open(t, "tools/call", tool(name, fmt.Sprintf(`{"file":%q}`, file)))
		runs := func() int {
			text, _ := os.ReadFile(file + ".runs")
			return strings.Count(string(text), "\n")
		}
		until(t, "the call at the backend", func() bool { return runs() == 1 })
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if safe {
			until(t, "the second run", func() bool { return runs() == 2 })
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if r := g.answer(t, x, id); r.says() != "held" {
				t.Errorf("%s says %s", name, r.says())
			}
		} else if r := g.answer(t, x, id); r.Error == nil || r.Error.Code != -32010 || runs() != 1 {
			t.Errorf("%s says %s after %d runs", name, r.says(), runs())
		}
		if c := g.counterAtLast(t); c.PID == pid {
			t.Errorf("the session has process %d still", pid)
		}
		if c := other.counter(t); c != (counted{apart, 2, 0}) {
			t.Errorf("another session counts %+v, want 2 of %d", c, apart)
		}
	}
}

// TestHostedAnswersOutliveAnInstance kills the process of a session between two questions of a call that may run again: its client is asked the first one
// once.
func TestHostedAnswersOutliveAnInstance(t *testing.T) {
	t.Parallel()
	p := hostOn(t, append([]string{"--data", t.TempDir()}, newStranger(t).command("plain")...)...)
	g := arrive(t, p, "2025-11-25", declared)
	pid := g.counter(t).PID
	x, id := g.open(t, "tools/call", tool("ask", `{"text":"which","n":2}`))
	for {
		q, err := x.message()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(q.Params), "which 2") {
			break
		}
		if q.Method == "elicitation/create" {
			g.tell(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"answer":"this"}}}`, q.ID))
		}
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if r := g.answer(t, x, id); r.says() != "this which-2" {
		t.Errorf("ask says %s", r.says())
	}
}

// TestHostedLeavesNoOrphans ends backends that are hard to end in each way in which their work ends. Nothing of them may be left.
func TestHostedLeavesNoOrphans(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, mode, end string
	}{
		{"a good one whose session ends", "plain", "session"},
		{"a wrapper like npx", "wrapper plain", "session"},
		{"a wrapper whose server ignores everything", "wrapper ignores-eof ignores-term plain", "session"},
		{"a deaf one, when serve ends", "ignores-eof ignores-term plain", "serve"},
		{"a daemon in a session of its own", "daemon plain", "session"},
		{"a child that has lost its parent", "double plain", "serve"},
		{"a daemon without our environment", "ignores-eof stripped plain", "session"},
		{"a wrapper that is killed", "wrapper child ignores-eof ignores-term plain", "wrapper"},
		{"a server that is killed, beside zombies", "zombies child daemon plain", "server"},
		{"everything, with its keeper killed", "wrapper ignores-eof ignores-term child daemon double zombies plain", "keeper"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStranger(t)
			p := hostOn(t, append([]string{"--data", t.TempDir(), "--keep", "1s"}, s.command(strings.Fields(c.mode)...)...)...)
			g := arrive(t, p, "2025-11-25", "{}")
			server := g.counter(t).PID
			keeper := s.keeperOf(t, server)
			top := server
			for parent, _ := look(top); parent.parent != keeper; parent, _ = look(top) {
				top = parent.parent
			}
			victim := map[string]int{"wrapper": top, "server": server, "keeper": keeper}[c.end]
			switch {
			case victim != 0:
				if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			case c.end == "session":
				g.leave(t)
			case c.end == "serve":
				p.signal(t, syscall.SIGTERM)
				if code := p.exit(t); code != 0 {
					t.Errorf("it ended with %d:\n%s", code, p.stderr)
				}
			}
			s.nothingLeft(t)
		})
	}
	t.Run("a launcher that leaves its server", func(t *testing.T) {
		t.Parallel()
		s := newStranger(t)
		p := hostOn(t, append([]string{"--data", t.TempDir()}, s.command("launcher", "plain")...)...)
		g := &guest{p: p, revision: "2025-11-25", capabilities: "{}"}
		if r := g.initialize(t); r.Error == nil {
			g.call(t, "echo", "{}") // which it may answer in the time that it is given to end
		}
		s.nothingLeft(t)
	})
}

// TestHostedOfASessionThatHasEnded has a session end while nobody has its process, as where serve is killed in the middle of a DELETE: the next
// serve ends the process that was left for the session.
func TestHostedOfASessionThatHasEnded(t *testing.T) {
	t.Parallel()
	s := newStranger(t)
	dir := t.TempDir()
	args := append([]string{"--data", dir, "--keep", "1h"}, s.command("plain")...)
	p := hostOn(t, args...)
	g := arrive(t, p, "2025-11-25", "{}")
	pid := g.counter(t).PID
	p.kill(t)
	g.p = hostOn(t, "--data", dir)
	g.leave(t)
	g.p.kill(t)
	hostOn(t, args...)
	gone(t, pid)
}
