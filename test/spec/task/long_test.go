package task_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// long are tools whose handlers count their runs, and return after a time.
func long(h *host.Host) (runs *atomic.Int32) {
	runs = new(atomic.Int32)
	for name, tool := range map[string]troupe.Tool{
		"safe":      {Rerun: troupe.Safe},
		"once":      {Rerun: troupe.Never},
		"forbidden": {Rerun: troupe.Safe, Task: troupe.TaskForbidden},
		"soon":      {Rerun: troupe.Safe, TaskAfter: time.Second},
		"late":      {Rerun: troupe.Safe, TaskAfter: 25 * time.Second},
	} {
		tool.Name = name
		add(h, tool, func(ctx context.Context, call *troupe.Call, in WorkIn) (*mcp.CallToolResult, error) {
			runs.Add(1)
			switch in.Text {
			case "panics":
				defer panic("on purpose")
			}
			if err := host.Sleep(ctx, in.MS); err != nil {
				return nil, context.Cause(ctx)
			}
			if in.Text == "refuses" {
				return nil, mcp.NewError(-31999, "out of paper")
			}
			return words(in.Text), nil
		})
	}
	return runs
}

// TestALongCallBecomesATask calls tools for longer than the grace, and for less.
func TestALongCallBecomesATask(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		runs := long(h)
		with, plain := stateless(h, withTasks), stateless(h, `{}`)
		host.Contains(t, "the capability", with.do("server/discover", `{}`), extension)
		host.Equal(t, "within the grace", with.call("safe", `{"ms":9000,"text":"x"}`), host.StatelessText("2", "x"))
		for tool, after := range map[string]time.Duration{"safe": 10 * time.Second, "soon": time.Second, "late": 25 * time.Second} {
			began := time.Now()
			made := last(with.call(tool, `{"ms":60000,"text":"y"}`))
			if d := time.Since(began); d != after {
				t.Errorf("%s: answered after %v, want %v", tool, d, after)
			}
			host.Equal(t, tool, str(t, made, "result", "resultType"), "task")
			id := str(t, made, "result", "taskId")
			host.Equal(t, tool+" runs", str(t, with.of("get", id), "result", "status"), "working")
			host.Contains(t, tool+": its result", with.await(id, "completed"), `"text":"y"`)
			if d := time.Since(began); d < time.Minute || d > time.Minute+2*time.Second {
				t.Errorf("%s: it has taken %v", tool, d)
			}
		}
		host.Contains(t, "another client", last(plain.call("safe", `{"ms":15000,"text":"z"}`)), `"text":"z"`)
		for _, tool := range []string{"once", "forbidden"} {
			host.Contains(t, tool, last(with.call(tool, `{"ms":15000,"text":"z"}`)), `"text":"z"`)
		}
		refused(t, "tasks/get of none", with.of("get", strange), host.BadParam)
		if n := runs.Load(); n != 7 {
			t.Errorf("handlers ran %d times for 7 calls", n)
		}
	})
}

// TestAShortCallStoresNothing has calls that might become tasks end before: with the extension as without it nothing is stored for them.
func TestAShortCallStoresNothing(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		long(h)
		with := stateless(h, withTasks)
		stored := func() string {
			synctest.Wait()
			text := fmt.Sprint("appends ", h.Gauge("troupe.log.appends", ""))
			for _, stream := range []string{"sessions", "events", "tasks", "work"} {
				text += fmt.Sprint(", ", stream, " ", h.Stored(stream))
			}
			return text
		}
		before := stored()
		for _, tool := range []string{"safe", "once", "forbidden", "late"} {
			done := make(chan string)
			go func() { done <- with.call(tool, `{"ms":9000,"text":"x"}`) }()
			time.Sleep(8 * time.Second)
			host.Equal(t, tool+" runs", stored(), before)
			host.Contains(t, tool, <-done, `"text":"x"`)
			host.Equal(t, tool+" has ended", stored(), before)
		}
		with.call("safe", `{"ms":15000}`)
		if after := stored(); after == before {
			t.Errorf("the store's figures do not tell of a task: %s", after)
		}
	})
}

// TestALongCallOnAPipe has a call over standard input and output become a task, which its client asks for in the same way.
func TestALongCallOnAPipe(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		p := host.NewStatelessPipe(t, troupe.Options{}, nil)
		p.M.Capabilities = withTasks
		made := p.Result("tools/call", host.ToolParams("count", `{"to":30,"delay_ms":1000}`), "")
		id := str(t, made, "taskId")
		host.Contains(t, "it runs", p.Result("tasks/get", `{"taskId":"`+id+`"}`, ""), `"status":"working"`)
		time.Sleep(time.Minute)
		host.Contains(t, "its result", p.Result("tasks/get", `{"taskId":"`+id+`"}`, ""), `"text":"counted to 30"`)
		_ = p.In.Close()
		p.End()
	})
}

// last is the last message of a response, which may be a stream.
func last(response string) string {
	if i := strings.LastIndex(response, "data: "); i >= 0 {
		return strings.TrimSpace(response[i+len("data: "):])
	}
	return response
}

// TestHowLongCallsEnd has calls that became tasks fail, panic, and be cancelled.
func TestHowLongCallsEnd(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		runs := long(h)
		c := stateless(h, withTasks)
		for text, status := range map[string]string{"refuses": "failed", "panics": "failed"} {
			id := str(t, last(c.call("safe", `{"ms":15000,"text":"`+text+`"}`)), "result", "taskId")
			got := at(t, c.await(id, status), "result")
			if text == "refuses" {
				host.Equal(t, text, str(t, got, "statusMessage"), "out of paper")
			}
		}
		id := str(t, last(c.call("safe", `{"ms":60000}`)), "result", "taskId")
		c.of("cancel", id)
		synctest.Wait()
		host.Equal(t, "cancelled", str(t, c.of("get", id), "result", "status"), "cancelled")
		time.Sleep(11 * time.Minute) // all tasks have been compared with their work once more
		if n := runs.Load(); n != 3 {
			t.Errorf("handlers ran %d times for 3 calls", n)
		}
	})
}

// TestProgressOfALongCall reports progress before the call becomes a task and after it: what the stream had sent stays sent, and what comes later is what the task says.
func TestProgressOfALongCall(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		add(h, troupe.Tool{Name: "reports", Rerun: troupe.Safe}, func(ctx context.Context, call *troupe.Call, _ WorkIn) (*mcp.CallToolResult, error) {
			for i := range 10 {
				message := fmt.Sprint("part ", i+1)
				if i == 8 {
					message = strings.Repeat("ä", 400_000)
				}
				if err := call.Progress(ctx, float64(i+1), 10, message); err != nil {
					return nil, err
				}
				if err := host.Sleep(ctx, 2000); err != nil {
					return nil, context.Cause(ctx)
				}
			}
			return words("done"), nil
		})
		c := stateless(h, withTasks)
		request := c.Body(c.NextID(), "tools/call", `{"name":"reports","arguments":{}}`, `"progressToken":"p"`)
		a := c.Client.Post(request, c.Header("tools/call", request)...)
		for n := range 5 {
			e, ok := a.Next()
			if !ok {
				t.Fatal("the stream has ended")
			}
			host.Contains(t, "before", e.Data, fmt.Sprintf(`"message":"part %d"`, n+1))
		}
		id := str(t, host.Last(t, a), "result", "taskId")
		time.Sleep(5 * time.Second)
		host.Equal(t, "after", str(t, c.of("get", id), "result", "statusMessage"), "8 of 10: part 8")
		time.Sleep(2 * time.Second)
		host.Equal(t, "a long message", str(t, c.of("get", id), "result", "statusMessage"), "9 of 10: "+strings.Repeat("ä", 2043)+"…")
		host.Contains(t, "its result", c.await(id, "completed"), `"text":"done"`)
	})
}

// TestALongCallOutlivesItsProcess ends the process in the middle of a call, in order or not: its client has a task, which ends in the next one.
func TestALongCallOutlivesItsProcess(t *testing.T) {
	for how, before := range map[string]time.Duration{"drained": time.Second, "killed": 20 * time.Second} {
		t.Run(how, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				dir := t.TempDir()
				h := host.New(t, troupe.Options{Dir: dir, DrainDelay: -1}, nil)
				long(h)
				c := stateless(h, withTasks)
				answer := make(chan string, 1)
				began := time.Now()
				go func() { answer <- last(c.call("safe", `{"ms":60000,"text":"x"}`)) }()
				time.Sleep(before)
				o := troupe.Options{Dir: host.CopyDir(t, dir)}
				if how == "drained" {
					if err := h.Runtime.Drain(t.Context()); err != nil {
						t.Error(err)
					}
					if err := h.Runtime.Close(t.Context()); err != nil {
						t.Error(err)
					}
					o.Dir = dir
				}
				made := <-answer
				host.Equal(t, "its client has a task", str(t, made, "result", "resultType"), "task")
				if d := time.Since(began); how == "drained" && d > 5*time.Second {
					t.Errorf("the drain took until %v", d)
				}
				next := host.New(t, o, nil)
				runs := long(next)
				c.Client = next.Moved(c.Client)
				host.Contains(t, "its result", c.await(str(t, made, "result", "taskId"), "completed"), `"text":"x"`)
				if n := runs.Load(); n != 1 {
					t.Errorf("the handler ran %d times in the next process", n)
				}
			})
		})
	}
}

// TestALongCallInASession asks in a session for the task that a call of the same client became by itself. The server has tasks for sessions only if it has a tool whose
// calls become tasks where clients ask for that.
func TestALongCallInASession(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		long(h)
		id := str(t, last(stateless(h, withTasks).call("safe", `{"ms":15000,"text":"x"}`)), "result", "taskId")
		refused(t, "without such a tool", session(h).Post(of("get", id)).Body, host.NoMethod)
		add(h, troupe.Tool{Name: "optional", Task: troupe.TaskOptional}, func(context.Context, *troupe.Call, WorkIn) (*mcp.CallToolResult, error) {
			return words(""), nil
		})
		c := session(h)
		await(t, c, id, "completed")
		host.Contains(t, "its result", body(t, c.Post(of("result", id))), `"text":"x"`)
	})
}

// TestACallThatEndsAsItBecomesATask has handlers return just as tasks are made of their calls: whatever comes first, their clients get the results.
func TestACallThatEndsAsItBecomesATask(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		long(h)
		c := stateless(h, withTasks)
		for n := range 40 {
			text := fmt.Sprint("result ", n)
			got := last(c.call("safe", `{"ms":10000,"text":"`+text+`"}`))
			if str(t, got, "result", "resultType") == "task" {
				got = c.await(str(t, got, "result", "taskId"), "completed")
			}
			host.Contains(t, text, got, `"text":"`+text+`"`)
		}
	})
}

// TestWhenLongCallsBecomeStreams looks when the response of a call that goes on as one becomes a stream, which keeps its connection alive: after the grace, whatever
// might have become of the call.
func TestWhenLongCallsBecomeStreams(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		long(h)
		for _, c := range []struct{ tool, capabilities string }{{"safe", `{}`}, {"soon", `{}`}, {"late", `{}`}, {"forbidden", withTasks}, {"late", withTasks}} {
			client := stateless(h, c.capabilities)
			request := client.Body(client.NextID(), "tools/call", host.ToolParams(c.tool, `{"ms":60000}`), "")
			began := time.Now()
			a := client.Client.Post(request, client.Header("tools/call", request)...)
			if d := time.Since(began); d != 10*time.Second || !a.Stream() {
				t.Errorf("%s for a client with %s: a response after %v, a stream: %v", c.tool, c.capabilities, d, a.Stream())
			}
			host.Last(t, a)
		}
	})
}

// TestLongCallsLeaveOthersTheirPlaces has a client call a slow tool more often than tasks may run: the calls that find no place stay calls, and a task of another
// client runs at once.
func TestLongCallsLeaveOthersTheirPlaces(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Authenticate: host.User, Shared: troupe.SharedLimits{TasksPerNode: 16}}, nil)
		long(h)
		add(h, troupe.Tool{Name: "task", Task: troupe.TaskRequired}, func(context.Context, *troupe.Call, WorkIn) (*mcp.CallToolResult, error) {
			return words("at once"), nil
		})
		greedy, other := stateless(h, withTasks), stateless(h, withTasks)
		greedy.Client, other.Client = host.As(greedy.Client, "greedy"), host.As(other.Client, "other")
		answers := make(chan string, 40)
		for n := range cap(answers) {
			go func() {
				request := greedy.Body(fmt.Sprint(n), "tools/call", host.ToolParams("safe", `{"ms":60000,"text":"x"}`), "")
				answers <- last(body(t, greedy.Client.Post(request, greedy.Header("tools/call", request)...)))
			}()
		}
		time.Sleep(30 * time.Second)
		began := time.Now()
		other.await(other.begin("task", `{}`), "completed")
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("the task of another client took %v", d)
		}
		tasks := 0
		for range cap(answers) {
			if got := <-answers; strings.Contains(got, `"resultType":"task"`) {
				tasks++
			} else {
				host.Contains(t, "a call", got, `"text":"x"`)
			}
		}
		if tasks == 0 || tasks > 16 {
			t.Errorf("%d of %d calls became tasks", tasks, cap(answers))
		}
	})
}

// TestALongCallWithABrokenLog has the program's own log panic while a task is made of a call: the call goes on, and its client gets the result.
func TestALongCallWithABrokenLog(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Log: slog.New(brokenLog{slog.DiscardHandler})}, nil)
		long(h)
		c := stateless(h, withTasks)
		made := last(c.call("safe", `{"ms":15000,"text":"x"}`))
		host.Contains(t, "its result", c.await(str(t, made, "result", "taskId"), "completed"), `"text":"x"`)
	})
}

// brokenLog panics when a call becomes a task.
type brokenLog struct{ slog.Handler }

func (brokenLog) Enabled(context.Context, slog.Level) bool { return true }

func (brokenLog) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "a call that takes long") {
		panic("on purpose")
	}
	return nil
}

// TestStepsOfALongCall loses the process of a call whose steps were kept in memory until it became a task. The next run finds those, too, and the one that ended while the call became a task.
func TestStepsOfALongCall(t *testing.T) {
	for name, tt := range map[string]struct {
		each time.Duration // that a step takes
		from int           // the step with which the second run goes on, 20 s after the beginning
	}{"before and after": {4 * time.Second, 6}, "as it becomes a task": {5 * time.Second, 5}, "begun before, ended after": {12 * time.Second, 2}} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				dir := t.TempDir()
				var mu sync.Mutex
				ran := make(map[int][]int)
				scan := func(h *host.Host) {
					add(h, troupe.Tool{Name: "scan", Rerun: troupe.Safe}, func(ctx context.Context, call *troupe.Call, _ WorkIn) (*mcp.CallToolResult, error) {
						sum := 0
						for i := 1; i <= 8; i++ {
							n, err := troupe.Step(ctx, call, fmt.Sprint(i), func(ctx context.Context) (int, error) {
								mu.Lock()
								ran[call.Attempt()] = append(ran[call.Attempt()], i)
								mu.Unlock()
								return i, host.Sleep(ctx, int(tt.each.Milliseconds()))
							})
							if err != nil {
								return nil, err
							}
							sum += n
						}
						return words(fmt.Sprint("sum ", sum)), nil
					})
				}
				h := host.New(t, troupe.Options{Dir: dir}, nil)
				scan(h)
				c := stateless(h, withTasks)
				made := make(chan string, 1)
				go func() { made <- last(c.call("scan", `{}`)) }()
				time.Sleep(20*time.Second + time.Millisecond)
				id := str(t, <-made, "result", "taskId")
				next := host.New(t, troupe.Options{Dir: host.CopyDir(t, dir)}, nil)
				scan(next)
				c.Client = next.Moved(c.Client)
				host.Contains(t, "its result", c.await(id, "completed"), `"text":"sum 36"`)
				mu.Lock()
				defer mu.Unlock()
				var want []int
				for i := tt.from; i <= 8; i++ {
					want = append(want, i)
				}
				if diff := cmp.Diff(want, ran[2]); diff != "" {
					t.Errorf("the second run did these steps (-want +got):\n%s", diff)
				}
			})
		})
	}
}
