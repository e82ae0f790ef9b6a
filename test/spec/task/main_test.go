package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
	"github.com/troupe-run/troupe/test/spec/official"
)

func TestMain(m *testing.M) { kit.Main(m) }

// Names of the extension and of members of _meta.
const (
	extension = `"io.modelcontextprotocol/tasks":{}`
	related   = "io.modelcontextprotocol/related-task"
	immediate = "io.modelcontextprotocol/model-immediate-response"
)

// Capabilities of stateless clients that can handle tasks, with and without forms.
const (
	withTasks = `{"extensions":{` + extension + `}}`
	withForms = `{"elicitation":{"form":{}},"extensions":{` + extension + `}}`
)

// strange has the form of a task's id, and is none.
const strange = "aaaaaaaaaaaaaaaaaaaaaaaaaa"

// WorkIn are the arguments of most tools.
type WorkIn struct {
	MS   int    `json:"ms,omitempty"`
	Text string `json:"text,omitempty"`
}

// add adds a tool with a handler that returns anything.
func add(h *host.Host, tool troupe.Tool, f func(ctx context.Context, call *troupe.Call, in WorkIn) (*mcp.CallToolResult, error)) {
	troupe.AddTool(h.Server, tool, f)
}

// words is a result with text.
func words(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: mcp.Contents{mcp.Text(text)}}
}

// serve starts a host whose tools become tasks.
func serve(t *testing.T, o troupe.Options, so *troupe.ServerOptions) *host.Host {
	t.Helper()
	h := host.New(t, o, so)
	work := func(ctx context.Context, _ *troupe.Call, in WorkIn) (*mcp.CallToolResult, error) {
		return words(in.Text), host.Sleep(ctx, in.MS)
	}
	add(h, troupe.Tool{Name: "work", Task: troupe.TaskOptional, Rerun: troupe.Safe}, work)
	add(h, troupe.Tool{Name: "must", Task: troupe.TaskRequired, TaskNotice: "It is being done."}, work)
	add(h, troupe.Tool{Name: "fault", Task: troupe.TaskOptional}, func(context.Context, *troupe.Call, WorkIn) (*mcp.CallToolResult, error) {
		return nil, errors.New("no luck")
	})
	add(h, troupe.Tool{Name: "refuse", Task: troupe.TaskOptional}, func(context.Context, *troupe.Call, WorkIn) (*mcp.CallToolResult, error) {
		return nil, mcp.NewError(-31999, "out of paper").WithData(map[string]int{"tray": 2})
	})
	add(h, troupe.Tool{Name: "rich", Task: troupe.TaskOptional}, func(context.Context, *troupe.Call, WorkIn) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{
			Content:           mcp.Contents{mcp.Text("a \"☃\""), mcp.Image([]byte{1, 2, 3}, "image/png"), mcp.Link(mcp.Resource{URI: "x:1", Name: "one", Title: "One"})},
			StructuredContent: json.RawMessage(`{"n":1.0,"deep":{"a":[null,true]}}`),
			Meta:              mcp.Meta{"example.com/own": json.RawMessage(`[1]`)},
		}, nil
	})
	return h
}

// session is a client of 2025-11-25 that can answer everything.
func session(h *host.Host) *kit.Client { return h.Unchecked().Initialize(host.EveryCapability) }

// body is the response, which comes on a stream if it takes long.
func body(t *testing.T, a *kit.Answer) string {
	t.Helper()
	if a.Stream() {
		return host.Last(t, a)
	}
	return a.Body
}

// at returns a member of a message as JSON, "" if there is none.
func at(t *testing.T, message string, path ...string) string {
	t.Helper()
	raw := json.RawMessage(message)
	for _, name := range path {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(raw, &members); err != nil {
			t.Fatalf("%q of %s: %v", path, message, err)
		}
		if raw = members[name]; raw == nil {
			return ""
		}
	}
	return string(raw)
}

// str is at for a string.
func str(t *testing.T, message string, path ...string) (s string) {
	t.Helper()
	if raw := at(t, message, path...); raw != "" {
		if err := json.Unmarshal([]byte(raw), &s); err != nil {
			t.Fatalf("%q of %s: %v", path, message, err)
		}
	}
	return s
}

// same fails the test unless two JSON values are equal but for the order of their members.
func same(t *testing.T, what, got, want string) {
	t.Helper()
	if diff := cmp.Diff(parsed(t, want), parsed(t, got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func parsed(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}

// without returns an object without some of its members.
func without(t *testing.T, object string, names ...string) string {
	t.Helper()
	members, ok := parsed(t, object).(map[string]any)
	if !ok {
		t.Fatalf("no object: %s", object)
	}
	for _, n := range names {
		delete(members, n)
	}
	return encoded(t, members)
}

// encoded is a value as JSON.
func encoded(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// refused fails the test unless a response is an error with this code.
func refused(t *testing.T, what, response string, code int) {
	t.Helper()
	if got := at(t, response, "error", "code"); got != fmt.Sprint(code) {
		t.Errorf("%s: want error %d, got %s", what, code, response)
	}
}

// legal checks the result of a response against a definition of the official schema of 2025-11-25, if that is there.
func legal(t *testing.T, response, definition string) {
	t.Helper()
	spec, err := official.Of(host.R20251125)
	if err != nil {
		t.Fatal(err)
	}
	if spec == nil {
		return
	}
	if err := spec[definition].Validate(parsed(t, at(t, response, "result"))); err != nil {
		t.Errorf("no legal %s: %s\n%v", definition, response, err)
	}
}

// augmented is a tools/call of 2025-11-25 that asks for a task.
func augmented(tool, args, task string) string {
	return host.Method("1", "tools/call", `{"name":"`+tool+`","arguments":`+args+`,"task":`+task+`}`)
}

// begin makes a task in a session, and returns its id.
func begin(t *testing.T, c *kit.Client, tool, args string) string {
	t.Helper()
	made := body(t, c.Post(augmented(tool, args, `{}`)))
	id := str(t, made, "result", "task", "taskId")
	if id == "" {
		t.Fatalf("no task: %s", made)
	}
	legal(t, made, "CreateTaskResult")
	return id
}

// of is a request about a task in a session.
func of(method, task string) string {
	return host.Method("2", "tasks/"+method, `{"taskId":"`+task+`"}`)
}

// await polls until a task has a status.
func await(t *testing.T, c *kit.Client, task, status string) string {
	t.Helper()
	return polled(t, status, func() string { return c.Post(of("get", task)).Body })
}

// polled repeats tasks/get until the task has a status.
func polled(t *testing.T, status string, get func() string) string {
	t.Helper()
	for range 120 {
		got := get()
		switch str(t, got, "result", "status") {
		case status:
			return got
		case "working", "input_required":
			time.Sleep(time.Second)
		default:
			t.Fatalf("want a task that is %s, got %s", status, got)
		}
	}
	t.Fatalf("the task does not become %s", status)
	return ""
}

// client is a stateless client, whose requests about tasks name the task in a header.
type client struct{ *host.Stateless }

func stateless(h *host.Host, capabilities string) client {
	return client{&host.Stateless{T: h.T, Client: h.Unchecked(), Capabilities: capabilities}}
}

// do sends a request, and returns its response.
func (c client) do(method, params string) string {
	c.T.Helper()
	request := c.Body(c.NextID(), method, params, "")
	header := c.Header(method, request)
	if strings.HasPrefix(method, "tasks/") {
		header = append(header, "Mcp-Name", str(c.T, request, "params", "taskId"))
	}
	return body(c.T, c.Client.Post(request, header...))
}

// of sends a request about a task.
func (c client) of(method, task string, more ...string) string {
	c.T.Helper()
	return c.do("tasks/"+method, `{"taskId":"`+task+`"`+strings.Join(append([]string{""}, more...), ",")+`}`)
}

// call calls a tool.
func (c client) call(tool, args string, more ...string) string {
	c.T.Helper()
	return c.do("tools/call", host.ToolParams(tool, args, more...))
}

// begin makes a task, and returns its id.
func (c client) begin(tool, args string, more ...string) string {
	c.T.Helper()
	made := c.call(tool, args, more...)
	if str(c.T, made, "result", "resultType") != "task" {
		c.T.Fatalf("no task: %s", made)
	}
	return str(c.T, made, "result", "taskId")
}

// await polls until a task has a status.
func (c client) await(task, status string) string {
	c.T.Helper()
	return polled(c.T, status, func() string { return c.of("get", task) })
}

// as makes the requests of a stateless client come from a user.
func (c client) as(name string) client {
	host.As(c.Client, name)
	return c
}

// TestStepsOfATaskRunOnce counts the runs of steps, also across a crash behind them.
func TestStepsOfATaskRunOnce(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		var first, second, failing, permanent, again atomic.Int32
		var id atomic.Value
		// The tool must be there before its server is mounted: a task may run again at once.
		steps := func(h *host.Host) {
			srv := troupe.NewServer(mcp.Implementation{Name: "steps", Version: "1"}, &troupe.ServerOptions{ID: "steps"})
			troupe.AddTool(srv, troupe.Tool{Name: "steps", Task: troupe.TaskOptional, Rerun: troupe.Safe}, func(ctx context.Context, call *troupe.Call, in WorkIn) (*mcp.CallToolResult, error) {
				id.Store(call.Task())
				counted := func(n *atomic.Int32) func(context.Context) (int32, error) {
					return func(context.Context) (int32, error) { return n.Add(1), nil }
				}
				a, err := troupe.Step(ctx, call, "first", counted(&first))
				if err != nil {
					return nil, err
				}
				_, bad := troupe.Step(ctx, call, "permanent", func(context.Context) (int, error) {
					permanent.Add(1)
					return 0, troupe.Permanent(errors.New("never"))
				})
				_, often := troupe.Step(ctx, call, "failing", func(context.Context) (int, error) {
					if failing.Add(1) < 3 {
						return 0, errors.New("not yet")
					}
					return 0, nil
				})
				if _, err := troupe.Step(ctx, call, "first", counted(&again)); !errors.Is(err, troupe.ErrStepUsed) {
					return nil, fmt.Errorf("a name twice: %w", err)
				}
				if err := call.TaskMessage(ctx, "half way"); err != nil {
					return nil, err
				}
				if err := host.Sleep(ctx, in.MS); err != nil {
					return nil, err
				}
				b, err := troupe.Step(ctx, call, "second", counted(&second))
				return words(fmt.Sprintf("%d %d %v %v", a, b, bad, often)), err
			})
			h.Runtime.Mount("/steps", srv)
		}
		h := host.New(t, troupe.Options{Dir: dir}, nil)
		steps(h)
		c := h.Unchecked()
		c.URL = "http://127.0.0.1/steps"
		c.Initialize(`{}`)
		plain := body(t, c.Post(host.Call("1", "steps", `{}`)))
		host.Equal(t, "no task", plain, host.TextResult("1", "1 1 never <nil>"))
		host.Equal(t, "no id", id.Load().(string), "")
		for _, n := range []*atomic.Int32{&first, &second, &failing, &permanent, &again} {
			n.Store(0)
		}
		task := begin(t, c, "steps", `{"ms":5000}`)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		host.Equal(t, "its id", id.Load().(string), task)
		host.Equal(t, "its message", str(t, c.Post(of("get", task)).Body, "result", "statusMessage"), "half way")

		o := troupe.Options{Dir: host.CopyDir(t, dir)}
		await(t, c, task, "completed")
		want := "1 1 never <nil>"
		host.Equal(t, "its result", str(t, strings.Trim(at(t, body(t, c.Post(of("result", task))), "result", "content"), "[]"), "text"), want)

		second.Store(0)
		moved := host.New(t, o, nil)
		steps(moved)
		m := moved.Moved(c)
		await(t, m, task, "completed")
		host.Equal(t, "its result after a crash", str(t, strings.Trim(at(t, body(t, m.Post(of("result", task))), "result", "content"), "[]"), "text"), want)
		if first.Load() != 1 || permanent.Load() != 1 || failing.Load() != 3 || second.Load() != 1 || again.Load() != 0 {
			t.Errorf("the steps ran %d, %d, %d, %d and %d times, want 1, 1, 3, 1 and 0", first.Load(), permanent.Load(), failing.Load(), second.Load(), again.Load())
		}
	})
}

// TestATaskMayTakeLongerThanACall lets a task run for longer than a call may.
func TestATaskMayTakeLongerThanACall(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{Limits: troupe.Limits{MaxCall: time.Minute}}, nil)
		old, now := session(h), stateless(h, withTasks)
		for _, id := range []string{begin(t, old, "work", `{"ms":90000}`), now.begin("work", `{"ms":90000}`)} {
			await(t, old, id, "completed")
			now.await(id, "completed")
		}
	})
}

// TestTheResultIsWaitedForLongerThanACall waits for such a task with tasks/result, which is answered once the task has ended.
func TestTheResultIsWaitedForLongerThanACall(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := session(serve(t, troupe.Options{Limits: troupe.Limits{MaxCall: time.Minute}}, nil))
		id := begin(t, c, "work", `{"ms":90000,"text":"x"}`)
		host.Contains(t, "its result", body(t, c.Post(of("result", id))), `"text":"x"`)
	})
}
