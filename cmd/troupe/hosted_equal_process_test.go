//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// askedOf are requests of everything that the backend plain has, in an order in which what one changes shows in the next.
var askedOf = []struct{ method, params string }{
	{"ping", ""},
	{"tools/call", tool("echo", `{"text":"all the world's a stage\u2028ä\u0000"}`)},
	{"tools/call", tool("add", `{"a":1.5,"b":2}`)},
	{"tools/call", tool("fail", `{}`)},
	{"tools/call", tool("no-such-tool", `{}`)},
	{"tools/call", tool("big", `{"n":200000}`)},
	{"tools/call", tool("ask", `{"text":"who are you","n":1}`)},
	{"tools/call", tool("ask", `{"text":"and again","n":3}`)},
	{"tools/call", tool("sample", `{"text":"say something"}`)},
	{"prompts/get", `"name":"greet","arguments":{"name":"Ada"}`},
	{"prompts/get", `"name":"no-such-prompt"`},
	{"resources/read", `"uri":"test://note"`},
	{"resources/read", `"uri":"test://blob"`},
	{"resources/read", `"uri":"test://item/a%20b"`},
	{"resources/read", `"uri":"test://no-such-resource"`},
	{"resources/subscribe", `"uri":"test://note"`},
	{"tools/call", tool("touch", `{}`)},
	{"resources/read", `"uri":"test://note"`},
	{"resources/unsubscribe", `"uri":"test://note"`},
	{"completion/complete", `"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"name","value":"A"}`},
	{"completion/complete", `"ref":{"type":"ref/resource","uri":"test://item/{id}"},"argument":{"name":"id","value":"G"}`},
	{"logging/setLevel", `"level":"warning"`},
	{"tools/call", tool("log", `{"text":"nobody hears it","level":"info"}`)},
	{"tools/call", tool("log", `{"text":"heard","level":"error"}`)},
}

// lists are those that a backend has.
var lists = map[string]string{"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "resourceTemplates"}

// TestHostedIsWhatItSays asks a backend everything, directly and by way of serve, and compares what comes byte for byte.
func TestHostedIsWhatItSays(t *testing.T) {
	t.Parallel()
	s := newStranger(t)
	p := hostOn(t, append([]string{"--data", t.TempDir()}, s.command("plain")...)...)
	d, g := s.speak(t, "2025-11-25", declared, "plain"), arrive(t, p, "2025-11-25", declared)

	for _, member := range []string{"serverInfo", "instructions", "protocolVersion"} {
		if got, want := memberOf(t, g.began, member), memberOf(t, d.began, member); got != want {
			t.Errorf("initialize has %s %s, want %s", member, got, want)
		}
	}
	var got, want map[string]json.RawMessage
	if json.Unmarshal([]byte(memberOf(t, g.began, "capabilities")), &got) != nil || json.Unmarshal([]byte(memberOf(t, d.began, "capabilities")), &want) != nil {
		t.Fatalf("the capabilities are %s", g.began.Result)
	}
	for name := range want {
		if got[name] == nil {
			t.Errorf("initialize lacks the capability %s: %s", name, g.began.Result)
		}
	}
	for method, member := range lists {
		if got, want := listAll(t, g, method, member), listAll(t, d, method, member); !slices.Equal(got, want) {
			t.Errorf("%s has\n%s\nwant\n%s", method, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	for _, asked := range askedOf {
		got, want := g.do(t, asked.method, asked.params), d.do(t, asked.method, asked.params)
		if string(got.Result) != string(want.Result) || (got.Error == nil) != (want.Error == nil) {
			t.Errorf("%s %.200s:\n%.500s, want\n%.500s", asked.method, asked.params, got.says(), want.says())
		} else if got.Error != nil && got.Error.Code != want.Error.Code {
			t.Errorf("%s %.200s: error %s, want %s", asked.method, asked.params, got.says(), want.says())
		}
	}
	// What came beside the answers is the same, but for roots, which are never asked of the client.
	if got, want := besides(g.beside, "elicitation/create", "sampling/createMessage"), besides(d.beside, "elicitation/create", "sampling/createMessage"); got != want {
		t.Errorf("the client was asked\n%s\nwant\n%s", got, want)
	}
}

// TestHostedSaysWhatItLists hosts a backend to which no client comes: the log says what it lists, and the next serve knows that without a process.
func TestHostedSaysWhatItLists(t *testing.T) {
	t.Parallel()
	s := newStranger(t)
	args := append([]string{"--data", t.TempDir()}, s.command("plain")...)
	p := hostOn(t, args...)
	if said := p.await(t, `a backend has said what it lists" .*tools=(\d+)`)[1]; said == "0" {
		t.Error("it lists no tools")
	}
	p.signal(t, syscall.SIGTERM)
	p.exit(t)
	p = hostOn(t, args...)
	arrive(t, p, "2025-11-25", "{}")
	if log := p.stderr.String(); strings.Contains(log, "is asked what it lists") {
		t.Errorf("serve has asked again:\n%s", log)
	}
}

// memberOf returns a member of a result, as it came.
func memberOf(t *testing.T, r reply, member string) string {
	t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal(r.Result, &all); err != nil {
		t.Fatalf("%v: %s", err, r.says())
	}
	return string(all[member])
}

// besides are the messages of some methods, a line each.
func besides(all []reply, methods ...string) string {
	var b strings.Builder
	for _, r := range all {
		if slices.Contains(methods, r.Method) {
			fmt.Fprintln(&b, r.Method, string(r.Params))
		}
	}
	return b.String()
}

// TestHostedInEachRevision has clients of all revisions use a legacy backend, and a modern one, each by one process.
func TestHostedInEachRevision(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"plain", "modern"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := newStranger(t)
			p := hostOn(t, append([]string{"--data", t.TempDir()}, s.command(mode)...)...)
			for _, revision := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
				g := arrive(t, p, revision, declared)
				if got := memberOf(t, g.began, "protocolVersion"); got != `"`+revision+`"` {
					t.Errorf("%s begins with %s", revision, got)
				}
				if got := g.call(t, "echo", `{"text":"to be"}`); got.says() != "to be" {
					t.Errorf("%s: echo says %s", revision, got.says())
				}
				if got := len(listAll(t, g, "tools/list", "tools")); got < 10 {
					t.Errorf("%s: %d tools", revision, got)
				}
				if revision >= "2025-06-18" { // which have elicitation
					if got := g.call(t, "ask", `{"text":"which","n":2}`); got.says() != "which-1 which-2" {
						t.Errorf("%s: ask says %s", revision, got.says())
					}
				}
				g.leave(t)
			}
			discovered := p.alone(t, "server/discover", "")
			if !strings.Contains(discovered.Body, `"A backend of tests"`) || !strings.Contains(discovered.Body, `"instructions":"Call echo."`) {
				t.Errorf("server/discover: %s", discovered.Body)
			}
			if got := p.alone(t, "tools/call", tool("echo", `{"text":"or not"}`)); got.says() != "or not" || got.Result.ResultType != "complete" {
				t.Errorf("echo without a session: %s", got.Body)
			}
			if got := p.alone(t, "tools/list", ""); len(got.Result.Tools) < 10 || got.Result.ResultType != "complete" {
				t.Errorf("tools/list without a session: %s", got.Body)
			}
			p.askedTwice(t)
		})
	}
}

// askedTwice has a call without a session be asked twice.
func (p *process) askedTwice(t *testing.T) {
	t.Helper()
	params, more := tool("ask", `{"text":"which","n":2}`), ""
	for round := 1; ; round++ {
		a := p.alone(t, "tools/call", params+more)
		if round == 3 {
			if a.says() != "a1 a2" {
				t.Errorf("after two rounds: %s", a.Body)
			}
			return
		}
		if a.Result.ResultType != "input_required" || len(a.Result.InputRequests) != 1 {
			t.Fatalf("round %d: %s", round, a.Body)
		}
		for key, question := range a.Result.InputRequests {
			if !strings.Contains(string(question), fmt.Sprintf("which %d", round)) {
				t.Errorf("round %d asks %s", round, question)
			}
			more = fmt.Sprintf(`,"requestState":%q,"inputResponses":{%s}`, a.Result.RequestState, form(key, "answer", fmt.Sprintf("a%d", round)))
		}
	}
}

// TestHostedTellsOfWhatHappens has progress, log messages, updates and changed lists reach the session whose backend they are of, and no other.
func TestHostedTellsOfWhatHappens(t *testing.T) {
	t.Parallel()
	s := newStranger(t)
	p := hostOn(t, append([]string{"--data", t.TempDir()}, s.command("plain")...)...)
	g, other := arrive(t, p, "2025-11-25", declared), arrive(t, p, "2025-11-25", declared)
	heard, others := g.listen(t), other.listen(t)
	file := filepath.Join(t.TempDir(), "go-on")

	x, id := g.open(t, "tools/call", tool("hold", fmt.Sprintf(`{"file":%q}`, file))+`,"_meta":{"progressToken":"mine"}`)
	for step := 1; step <= 2; step++ {
		r, err := x.message()
		if want := fmt.Sprintf(`{"progressToken":"mine","progress":%d,"total":2,"message":"step %d"}`, step, step); err != nil || r.Method != "notifications/progress" || !sameJSON(r.Params, want) {
			t.Fatalf("progress %d is %s %s (%v)", step, r.Method, r.Params, err)
		}
		if step == 1 {
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if r := g.answer(t, x, id); r.says() != "held" {
		t.Errorf("hold says %s", r.says())
	}

	// A cancelled call reaches the backend, which goes on.
	_, id = g.open(t, "tools/call", tool("hold", `{"file":"/no/such/file"}`))
	until(t, "a call that waits", func() bool { return g.counter(t).Waiting == 1 })
	g.tell(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`)
	until(t, "the end of the call", func() bool { return g.counter(t).Waiting == 0 })

	if r := g.do(t, "resources/subscribe", `"uri":"test://note"`); r.Error != nil {
		t.Fatal(r.says())
	}
	g.call(t, "touch", "{}")
	if r := awaitMessage(t, heard, "notifications/resources/updated"); !strings.Contains(string(r.Params), "test://note") {
		t.Errorf("updated: %s", r.Params)
	}
	g.call(t, "change", "{}")
	awaitMessage(t, heard, "notifications/tools/list_changed")
	if g.call(t, "extra", "{}").says() != "extra" || !slices.ContainsFunc(listAll(t, g, "tools/list", "tools"), func(item string) bool { return strings.Contains(item, `"extra"`) }) {
		t.Error("the session has no tool extra")
	}
	if r := other.call(t, "extra", "{}"); r.Error == nil {
		t.Errorf("another session has the tool extra: %s", r.says())
	}
	other.leave(t)
	for r := range others { // the stream ends with its session
		if r.Method != "notifications/tools/list_changed" { // by which it loses nothing
			t.Errorf("another session heard %s %s", r.Method, r.Params)
		}
	}
}

// sameJSON reports whether two texts are one value.
func sameJSON(a json.RawMessage, b string) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	return fmt.Sprint(x) == fmt.Sprint(y)
}

// TestHostedInstancesAreApart has each session count for itself, and all calls without a session together.
func TestHostedInstancesAreApart(t *testing.T) {
	t.Parallel()
	s := newStranger(t)
	p := hostOn(t, append([]string{"--data", t.TempDir()}, s.command("plain")...)...)
	pids := map[int]bool{}
	for range 3 {
		g := arrive(t, p, "2025-11-25", "{}")
		g.counter(t)
		c := g.counter(t)
		if c.N != 2 || pids[c.PID] {
			t.Errorf("a session counts %+v, beside %v", c, pids)
		}
		pids[c.PID] = true
	}
	var last counted
	for i := range 3 {
		a := p.alone(t, "tools/call", tool("counter", "{}"))
		if err := json.Unmarshal([]byte(a.says()), &last); err != nil || last.N != i+1 || pids[last.PID] {
			t.Errorf("call %d without a session counts %s", i+1, a.Body)
		}
	}
}
