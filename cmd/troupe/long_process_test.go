package main

import (
	"encoding/json"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
)

// said is what a client of 2026-07-28 was answered with.
type said struct {
	status int
	after  string // Retry-After
	last   string // the last message
	err    error  // the connection broke
}

// late calls a safe tool that takes a time, as a client that handles tasks or does not.
func (p *process) late(t *testing.T, tasks bool, name, arguments string) <-chan said {
	t.Helper()
	body := aloneBody("1", "tools/call", tool(name, arguments))
	if tasks {
		body = strings.Replace(body, `"sampling":{}`, `"extensions":{"io.modelcontextprotocol/tasks":{}}`, 1)
	}
	ch := make(chan said, 1)
	go func() {
		x, err := p.post(t.Context(), body, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", name)
		if err != nil {
			ch <- said{err: err}
			return
		}
		defer x.close()
		data, err := io.ReadAll(x.rd)
		got := said{status: x.StatusCode, after: x.Header.Get("Retry-After"), err: err, last: string(data)}
		if i := strings.LastIndex(got.last, `{"jsonrpc"`); i >= 0 {
			got.last = got.last[i:]
		}
		ch <- got
	}()
	return ch
}

// made is the task that the client was given in place of its result.
func (s *said) made(t *testing.T) string {
	t.Helper()
	var r stored
	if err := json.Unmarshal([]byte(s.last), &r); err != nil || s.err != nil || r.Result.TaskID == "" {
		t.Fatalf("no task: %+v", s)
	}
	return r.Result.TaskID
}

// kill ends the process at once.
func (p *process) kill(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGKILL)
	p.exit(t)
}

const sent = `"error":{"code":-32603,"message":"temporarily unavailable: try again shortly","data":{"retryAfterMs":1000}}`

// TestLongCallsOfAFleet has one of three nodes end in the middle of a safe call of 2026-07-28, in order or not, and then all of them in turn, as a deploy does:
// what a client with the tasks extension and one without it are told is what docs/tasks.md promises.
func TestLongCallsOfAFleet(t *testing.T) {
	when.Full(t, "processes on one NATS server, whose leases end")
	t.Parallel()
	binary(t)
	const naps = `{"ms":4000}`
	slept := `"text":"slept 4000 ms"`
	for name, row := range map[string]func(t *testing.T, start func(name string) *process, a, b *process){
		"kill -9 after it has become a task": func(t *testing.T, _ func(string) *process, a, b *process) {
			got := <-a.late(t, true, "sleep", `{"ms":10000}`)
			id := got.made(t)
			a.kill(t)
			if s := b.until(t, id, "completed"); !strings.Contains(s.body, `"text":"slept 10000 ms"`) {
				t.Errorf("the task: %s", s.body)
			}
		},
		"kill -9 before that": func(t *testing.T, _ func(string) *process, a, b *process) {
			for _, tasks := range []bool{true, false} {
				p := a
				if !tasks {
					p, b = b, a
				}
				answer := p.late(t, tasks, "tick", `{"n":1,"every_ms":60000}`) // which becomes no task
				p.becomes(t, "troupe_calls_in_flight", "1")
				p.kill(t)
				if got := <-answer; got.err == nil {
					t.Errorf("tasks %t: it is answered: %+v", tasks, got)
				}
				if tasks {
					if got := <-b.late(t, true, "sleep", `{"ms":10}`); got.status != 200 || !strings.Contains(got.last, `"text":"slept 10 ms"`) {
						t.Errorf("sent again to another node: %+v", got)
					}
				}
			}
		},
		"SIGTERM, with the extension": func(t *testing.T, _ func(string) *process, a, b *process) {
			answer := a.late(t, true, "sleep", naps)
			a.becomes(t, "troupe_calls_in_flight", "1")
			a.signal(t, syscall.SIGTERM)
			got := <-answer
			if code := a.exit(t); code != 0 {
				t.Errorf("it ended with %d: %s", code, a.stderr)
			}
			if s := b.until(t, got.made(t), "completed"); !strings.Contains(s.body, slept) {
				t.Errorf("the task: %s", s.body)
			}
		},
		"SIGTERM, without it": func(t *testing.T, _ func(string) *process, a, b *process) {
			silent, once := a.late(t, false, "sleep", `{"ms":3600000}`), a.late(t, false, "tick", `{"n":1,"every_ms":60000}`)
			a.becomes(t, "troupe_calls_in_flight", "2")
			speaks := a.open(t, "1", "tools/call", tool("count", `{"to":1000000,"delay_ms":20}`))
			speaks.next(t)
			a.signal(t, syscall.SIGTERM)
			if got := <-silent; got.status != 503 || got.after != "1" || !strings.Contains(got.last, sent) {
				t.Errorf("a call that has said nothing: %+v", got)
			}
			rest, err := io.ReadAll(speaks.rd)
			if said := string(rest); err != nil || !strings.Contains(said[max(0, strings.LastIndex(said, `{"jsonrpc"`)):], sent) {
				t.Errorf("a call after its first event: %v %s", err, said)
			}
			if got := <-once; got.status != 200 || !strings.Contains(got.last, `"code":-32010`) {
				t.Errorf("a call that may not run twice: %+v", got)
			}
			if got := <-b.late(t, false, "sleep", `{"ms":10}`); got.status != 200 || !strings.Contains(got.last, `"text":"slept 10 ms"`) {
				t.Errorf("sent again to another node: %+v", got)
			}
			if code := a.exit(t); code != 0 {
				t.Errorf("it ended with %d: %s", code, a.stderr)
			}
		},
		"a rolling restart": func(t *testing.T, start func(string) *process, a, b *process) {
			c := start("c")
			with, without := a.late(t, true, "sleep", `{"ms":8000}`), a.late(t, false, "sleep", `{"ms":8000}`)
			a.becomes(t, "troupe_calls_in_flight", "2")
			var next []*process
			for i, p := range []*process{a, b, c} {
				p.signal(t, syscall.SIGTERM)
				if code := p.exit(t); code != 0 {
					t.Errorf("node %d ended with %d: %s", i, code, p.stderr)
				}
				next = append(next, start(string(rune('a'+i))))
			}
			got := <-with
			id := got.made(t)
			for got = <-without; got.status == 503 || strings.Contains(got.last, sent); { // as it was told
				got = <-next[0].late(t, false, "sleep", `{"ms":8000}`)
			}
			if got.status != 200 || !strings.Contains(got.last, `"text":"slept 8000 ms"`) {
				t.Errorf("without the extension: %+v", got)
			}
			if s := next[2].until(t, id, "completed"); !strings.Contains(s.body, `"text":"slept 8000 ms"`) {
				t.Errorf("the task: %s", s.body)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := kit.StartNATS(t, 1, nil)
			grace := "1m"
			if strings.Contains(name, "after") {
				grace = "1s"
			}
			begin := func(name string) *process {
				return onNATS(t, c, name, "--drain-wait", "3s", "--set", "stateless-grace="+grace)
			}
			row(t, begin, begin("a"), begin("b"))
		})
	}
}
