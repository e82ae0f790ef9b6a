package hosting_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	theirs "github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// theirTask is the id of each task that a stranger makes. No client gets it.
const theirTask = "id-of-theirs"

// tasksClient is what a client of the newer revision declares that handles tasks.
const tasksClient = `{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

const related = `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"` + theirTask + `"}}`

// tasker is a stranger that makes a task of each call of its tool, which asks once, and ends as the test says.
type tasker struct {
	stranger
	insists bool   // it refuses who does not declare tasks
	end     string // members of a task of the newer era that has ended; with "" no task ends
	asks    bool

	cancelled chan string // gets the tasks that are cancelled

	mu     sync.Mutex // guards the rest
	made   int        // tasks that were made
	answer string     // to the question, in the newer era
}

func newTasker(modern bool) *tasker {
	s := &tasker{cancelled: make(chan string, 8), asks: true}
	s.modern = modern
	s.end = `"status":"completed","result":{"content":[{"type":"text","text":"done: %s"}]}`
	s.call = s.called
	tool := `{"name":"echo","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}`
	s.more = `,"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}`
	if modern {
		s.more = `,"extensions":{"io.modelcontextprotocol/tasks":{}}`
	}
	s.lists = map[string]string{"tools": tool}
	return s
}

func (s *tasker) task(status string) string {
	return fmt.Sprintf(`"taskId":%q,"status":%q,"statusMessage":"it runs","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z"`, theirTask, status)
}

func (s *tasker) called(t *talk, m message) {
	switch {
	case m.Method == "tools/call" && s.modern:
		var p struct {
			Meta struct {
				Caps struct {
					Extensions map[string]any `json:"extensions"`
				} `json:"io.modelcontextprotocol/clientCapabilities"`
			} `json:"_meta"`
		}
		var whole struct{ Params json.RawMessage }
		_ = json.Unmarshal([]byte(m.raw), &whole)
		_ = json.Unmarshal(whole.Params, &p)
		_, may := p.Meta.Caps.Extensions["io.modelcontextprotocol/tasks"]
		switch {
		case !may && s.insists:
			t.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32021,"message":"no","data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`, m.ID)
			return
		case !may:
			t.result(m, `{"resultType":"complete","content":[{"type":"text","text":"at once"}]}`)
			return
		}
		s.begin()
		t.result(m, `{"resultType":"task",`+s.task("working")+`,"ttlMs":null,"pollIntervalMs":500}`)
	case m.Method == "tools/call":
		if !strings.Contains(m.raw, `"task":{"ttl":`) {
			t.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no task"}}`, m.ID)
			return
		}
		s.begin()
		t.result(m, `{"task":{`+s.task("working")+`,"ttl":null,"pollInterval":500}}`)
		if m.Params.Meta.Token != nil {
			t.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,%s}}`, m.Params.Meta.Token, related)
		}
	case m.Method == "tasks/result":
		t.say(`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{%s,"ttl":null}}`, strings.ReplaceAll(s.task("working"), "it runs", "it waits"))
		if s.end == "" {
			<-t.ctx.Done()
			return
		}
		answer := "nothing"
		if s.asks {
			answer = t.asks("elicitation/create", `{"message":"who?","requestedSchema":{"type":"object","properties":{"answer":{"type":"string"}}},`+related+`}`)
		}
		t.result(m, fmt.Sprintf(`{"content":[{"type":"text","text":%q}],%s}`, "done: "+answer, related))
	case m.Method == "tasks/get":
		s.mu.Lock()
		answer := s.answer
		s.mu.Unlock()
		switch {
		case !s.modern:
			t.result(m, `{`+s.task("working")+`,"ttl":null}`)
		case s.asks && answer == "":
			t.result(m, `{"resultType":"complete",`+s.task("input_required")+`,"ttlMs":null,"inputRequests":{"who":{"method":"elicitation/create","params":{"mode":"form","message":"who?","requestedSchema":{"type":"object","properties":{"answer":{"type":"string"}}}}}}}`)
		case s.end == "":
			t.result(m, `{"resultType":"complete",`+s.task("working")+`,"ttlMs":null}`)
		default:
			end := s.end
			if strings.Contains(end, "%s") {
				quoted, _ := json.Marshal(answer)
				end = fmt.Sprintf(end, strings.Trim(string(quoted), `"`))
			}
			t.result(m, `{"resultType":"complete","taskId":"`+theirTask+`","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":null,`+end+`}`)
		}
	case m.Method == "tasks/update":
		s.mu.Lock()
		s.answer = string(m.Params.Responses)
		s.mu.Unlock()
		t.result(m, `{"resultType":"complete"}`)
	case m.Method == "tasks/cancel":
		t.result(m, `{"resultType":"complete",`+s.task("cancelled")+`,"ttlMs":null,"ttl":null}`)
		s.cancelled <- m.Params.TaskID
	}
}

func (s *tasker) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	s.answer = ""
}

func (s *tasker) tasks() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made
}

// hidesTheirs reports an id of a stranger's task in what a client gets.
func hidesTheirs(t *testing.T, what string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(text, theirTask) {
			t.Errorf("%s: the client gets the backend's id: %s", what, text)
		}
	}
}

// field is a member of a message, by its path.
func field(t testing.TB, text string, path ...string) string {
	t.Helper()
	raw := json.RawMessage(text)
	for _, name := range path {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(raw, &members); err != nil {
			t.Fatalf("%s of %s: %v", path, text, err)
		}
		raw = members[name]
	}
	return strings.Trim(string(raw), `"`)
}

// aboutTask sends a request about a task, and returns the response.
func aboutTask(m *host.Stateless, method, params string) string {
	m.T.Helper()
	request := m.Body(m.NextID(), method, params, "")
	return response(m.T, m.Client.Post(request, append(m.Header(method, request), "Mcp-Name", field(m.T, params, "taskId"))...))
}

// response is an answer, which comes on a stream if it takes long.
func response(t *testing.T, a *kit.Answer) string {
	t.Helper()
	if a.Stream() {
		return host.Last(t, a)
	}
	return a.Body
}

const acceptMe = `{"action":"accept","content":{"answer":"me"}}`

// answerIn is the text of a result that has what a stranger was answered.
func answerIn(modern bool) string {
	text := `done: ` + acceptMe
	if modern {
		text = `done: {"who":` + acceptMe + `}`
	}
	quoted, _ := json.Marshal(text)
	return string(quoted)
}

// TestTasksOfOlderClients have a client of 2025-11-25 get tasks of ours, whatever the backend makes of them.
func TestTasksOfOlderClients(t *testing.T) {
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprintf("modern=%v", modern), func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				s := newTasker(modern)
				h := alone(t, &s.stranger)
				c := h.Session()
				_, tools, _ := host.ToolsOf(t, c)
				want := map[bool]string{false: `{"taskSupport":"required"}`, true: `{"taskSupport":"optional"}`}[modern]
				host.Equal(t, "execution", field(t, tools["echo"], "execution"), want)
				made := c.Post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{},"task":{"ttl":60000},"_meta":{"progressToken":"mine"}}}`).Body
				id := field(t, made, "result", "task", "taskId")
				if id == "" || id == theirTask {
					t.Fatalf("the call was answered with %s", made)
				}
				a := c.Post(host.Method("2", "tasks/result", `{"taskId":"`+id+`"}`))
				q := host.NextQuestion(t, a)
				hidesTheirs(t, "the question", string(q.Params))
				host.Contains(t, "the question", string(q.Params), `"io.modelcontextprotocol/related-task":{"taskId":"`+id+`"}`)
				got := c.Post(host.Method("3", "tasks/get", `{"taskId":"`+id+`"}`)).Body
				host.Contains(t, "the task", got, `"status":"input_required"`)
				host.Reply(c, q.ID, "result", acceptMe)
				end := host.Last(t, a)
				host.Contains(t, "the result", end, answerIn(modern))
				hidesTheirs(t, "the result", end, made, got)
				host.Contains(t, "the result", end, `"io.modelcontextprotocol/related-task":{"taskId":"`+id+`"}`)
				if s.tasks() != 1 {
					t.Errorf("the backend has made %d tasks", s.tasks())
				}
				list := c.Post(host.Method("4", "tasks/get", `{"taskId":"`+id+`"}`)).Body
				host.Contains(t, "the task", list, `"status":"completed"`)
			})
		})
	}
}

// TestTasksOfNewerClients have calls of clients that handle tasks become tasks of ours once the backend has made one.
func TestTasksOfNewerClients(t *testing.T) {
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprintf("modern=%v", modern), func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				s := newTasker(modern)
				h := alone(t, &s.stranger)
				m := h.Stateless(tasksClient)
				d, _ := m.Do("server/discover", `{}`)
				host.Contains(t, "server/discover", d.Body, `"io.modelcontextprotocol/tasks":{}`)
				a, _ := m.Tool("echo", `{}`)
				host.Equal(t, "the type of the result", field(t, a.Body, "result", "resultType"), "task")
				id := field(t, a.Body, "result", "taskId")
				one := `{"taskId":"` + id + `"}`
				time.Sleep(5 * time.Second)
				now := aboutTask(m, "tasks/get", one)
				if field(t, now, "result", "status") != "input_required" {
					t.Fatalf("the task is %s", now)
				}
				if message := field(t, now, "result", "statusMessage"); !strings.HasPrefix(message, "it ") {
					t.Errorf("it says %q", message)
				}
				var r struct {
					Result struct{ InputRequests map[string]json.RawMessage }
				}
				if err := json.Unmarshal([]byte(now), &r); err != nil || len(r.Result.InputRequests) != 1 {
					t.Fatalf("%v: %s", err, now)
				}
				for key := range r.Result.InputRequests {
					given := aboutTask(m, "tasks/update", fmt.Sprintf(`{"taskId":%q,"inputResponses":{%q:%s}}`, id, key, acceptMe))
					host.Contains(t, "tasks/update", given, `"resultType":"complete"`)
				}
				time.Sleep(5 * time.Second)
				end := aboutTask(m, "tasks/get", one)
				host.Contains(t, "the end", end, `"status":"completed"`)
				host.Contains(t, "the end", end, answerIn(modern))
				hidesTheirs(t, "what it got", a.Body, now, end)
				if s.tasks() != 1 {
					t.Errorf("the backend has made %d tasks", s.tasks())
				}
			})
		})
	}
}

// TestTasksInTheClientsStead has clients that know no tasks use tools that insist on them: their questions and results are those of the call.
func TestTasksInTheClientsStead(t *testing.T) {
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprintf("modern=%v", modern), func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				s := newTasker(modern)
				s.insists = true
				h := alone(t, &s.stranger)
				c := h.Unchecked().InitializeAs(host.R20250618, host.EveryCapability)
				a := c.Post(host.Call("1", "echo", `{}`))
				q := host.NextQuestion(t, a)
				hidesTheirs(t, "the question", string(q.Params))
				host.Reply(c, q.ID, "result", acceptMe)
				end := host.Last(t, a)
				host.Contains(t, "a session", end, answerIn(modern))
				hidesTheirs(t, "a session", end)

				m := h.Stateless(host.EveryCapability)
				if modern { // it could say that it handles tasks
					a, _ := m.Tool("echo", `{}`)
					host.Contains(t, "a stateless client", a.Body, `"code":-32021`)
					return
				}
				first, id := m.Tool("echo", `{}`)
				var r host.Required
				if err := json.Unmarshal([]byte(first.Body), &r); err != nil || len(r.Result.InputRequests) != 1 {
					t.Fatalf("the round of %s: %v %s", id, err, first.Body)
				}
				for key := range r.Result.InputRequests {
					second, id := m.Tool("echo", `{}`, host.Given(key, "me"), fmt.Sprintf(`"requestState":%q`, r.Result.RequestState))
					got := m.Done(second, id)
					quoted, _ := json.Marshal(got)
					host.Equal(t, "a stateless client", string(quoted), answerIn(modern))
				}
			})
		})
	}
}

// TestTaskIsCancelled passes the end of a task on, and that of a call for which one is waited.
func TestTaskIsCancelled(t *testing.T) {
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprintf("modern=%v", modern), func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				s := newTasker(modern)
				s.insists, s.asks, s.end = true, false, ""
				h := alone(t, &s.stranger)
				m := h.Stateless(tasksClient)
				a, _ := m.Tool("echo", `{}`)
				id := field(t, a.Body, "result", "taskId")
				time.Sleep(5 * time.Second)
				aboutTask(m, "tasks/cancel", `{"taskId":"`+id+`"}`)
				host.Equal(t, "the task", <-s.cancelled, theirTask)

				c := h.Unchecked().InitializeAs(host.R20250618, host.EveryCapability)
				call := c.PostLater(host.Call("7", "echo", `{}`))
				time.Sleep(5 * time.Second)
				c.Post(host.Cancel("7"))
				host.Equal(t, "the task of a call", <-s.cancelled, theirTask)
				(<-call).Close()
			})
		})
	}
}

// TestTaskFails has the error of a backend's task be that of the call.
func TestTaskFails(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		for end, want := range map[string]string{
			`"status":"failed","error":{"code":-32099,"message":"no","data":{"x":[1.0]}}`: host.Fault("1", -32099, "no", `{"x":[1.0]}`),
			`"status":"cancelled"`: host.Fault("1", -32603, "the backend has cancelled its task", ""),
			`"status":"completed"`: host.Fault("1", -32603, "the backend answered with a task that cannot be read", ""),
			`"status":"completed","result":{"isError":true,"content":[]}`: `{"jsonrpc":"2.0","id":1,"result":{"isError":true,"content":[]}}`,
		} {
			s := newTasker(true)
			s.insists, s.asks, s.end = true, false, end
			c := alone(t, &s.stranger).Session()
			a := c.Post(host.Call("1", "echo", `{}`))
			host.Equal(t, end, response(t, a), want)
		}
	})
}

// TestWhoMayNotHaveTasks has calls run without tasks where client and backend do not both have them.
func TestWhoMayNotHaveTasks(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := newTasker(true)
		h := alone(t, &s.stranger)
		m := h.Stateless(`{}`)
		a, id := m.Tool("echo", `{}`)
		host.Equal(t, "a client without tasks", m.Done(a, id), "at once")
		host.Contains(t, "a session", h.Session().Post(host.Call("1", "echo", `{}`)).Body, "at once")
		if s.tasks() != 0 {
			t.Errorf("the backend has made %d tasks", s.tasks())
		}
	})
}

// TestTaskOfAPlainCall has a call of a backend that makes no tasks run as one of ours, if the tool may.
func TestTaskOfAPlainCall(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := &stranger{lists: map[string]string{"tools": `{"name":"may","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}},{"name":"echo","inputSchema":{"type":"object"}}`},
			call: func(t *talk, m message) {
				if strings.Contains(m.raw, `"task"`) {
					t.text(m, "it was asked for a task")
					return
				}
				t.text(m, "done")
			}}
		c := alone(t, s).Session()
		made := c.Post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"may","arguments":{},"task":{}}}`).Body
		id := field(t, made, "result", "task", "taskId")
		host.Contains(t, "the result", response(t, c.Post(host.Method("2", "tasks/result", `{"taskId":"`+id+`"}`))), `"text":"done"`)
		host.Contains(t, "one that may not", c.Post(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{},"task":{}}}`).Body, `"code":-32601`)
		host.Contains(t, "without a task", c.Post(host.Call("4", "may", `{}`)).Body, `"text":"done"`)
	})
}

// TestTaskIsFollowedAgain has the next process follow the task that a killed one has had the backend make, in place of another.
func TestTaskIsFollowedAgain(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		for _, client := range []string{"older", "newer"} {
			s := newTasker(true)
			s.asks, s.end = false, ""
			dir := t.TempDir()
			open := func(dir string) *host.Host {
				return hosting(t, troupe.Options{Dir: dir}, nil, backend{"one", &s.stranger, theirs.Options{Prefix: theirs.NoPrefix}})
			}
			h := open(dir)
			m, c := h.Stateless(tasksClient), h.Session()
			var id string
			if client == "newer" {
				a, _ := m.Tool("echo", `{}`)
				id = field(t, a.Body, "result", "taskId")
			} else {
				id = field(t, c.Post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{},"task":{}}}`).Body, "result", "task", "taskId")
			}
			time.Sleep(5 * time.Second)
			synctest.Wait()
			h = open(host.CopyDir(t, dir))
			m.Client, c = h.Stateless(tasksClient).Client, h.Moved(c)
			s.mu.Lock()
			s.end = `"status":"completed","result":{"content":[{"type":"text","text":"at last"}]}`
			s.mu.Unlock()
			time.Sleep(30 * time.Second)
			one := `{"taskId":"` + id + `"}`
			var got string
			if client == "newer" {
				got = aboutTask(m, "tasks/get", one)
			} else {
				got = response(t, c.Post(host.Method("2", "tasks/result", one)))
			}
			host.Contains(t, client, got, `"text":"at last"`)
			if s.tasks() != 1 {
				t.Errorf("%s: the backend has made %d tasks", client, s.tasks())
			}
		}
	})
}
