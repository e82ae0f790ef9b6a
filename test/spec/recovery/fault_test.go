package recovery_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
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

// TestCallIsOverOnceItsHandlerHasReturned checks that a goroutine that a handler left
// behind reaches no other request: the node uses the objects of a request again for
// later ones.
func TestCallIsOverOnceItsHandlerHasReturned(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		kept, running, release := make(chan *troupe.Call, 1), make(chan struct{}), make(chan struct{})
		h.AddTool("leave", 0, func(_ context.Context, call *troupe.Call) (string, error) {
			kept <- call
			return "left", nil
		})
		h.AddTool("hold", 0, func(context.Context, *troupe.Call) (string, error) {
			running <- struct{}{}
			<-release
			return "held", nil
		})
		other := h.Session()
		host.Equal(t, "first", h.Session().Post(host.CallWith("1", "leave", `{}`, `"first"`)).Body, host.TextResult("1", "left"))
		left := <-kept
		send := func(when string) {
			t.Helper()
			ctx := context.Background()
			if left.Log(ctx, mcp.LevelError, "", "a secret of the first client") == nil {
				t.Errorf("%s: a message went somewhere", when)
			}
			if left.Progress(ctx, 1, 0, "") == nil {
				t.Errorf("%s: progress went somewhere", when)
			}
			if _, err := left.Elicit(ctx, "?", host.Form); err == nil {
				t.Errorf("%s: a question was answered", when)
			}
			left.Disconnect()
		}
		synctest.Wait() // the objects of the call are free
		send("while nothing runs")
		answered := make(chan *kit.Answer, 1)
		go func() { answered <- other.Post(host.CallWith("1", "hold", `{}`, `"other"`)) }()
		<-running
		send("while another call runs")
		close(release)
		if a := <-answered; a.Stream() {
			t.Errorf("the other call got %q", host.Payloads(a.All()))
		} else {
			host.Equal(t, "other", a.Body, host.TextResult("1", "held"))
		}
		// At any moment of the other call.
		var stop atomic.Bool
		var wg sync.WaitGroup
		wg.Go(func() {
			for !stop.Load() {
				left.Disconnect()
				_ = left.Log(context.Background(), mcp.LevelError, "", "a secret")
				runtime.Gosched()
			}
		})
		for i := range 100 {
			id := fmt.Sprint(i)
			if a := other.Post(host.CallWith(id, "echo", `{"text":"`+id+`"}`, id)); a.Body != host.TextResult(id, id) {
				t.Errorf("call %s got %s %q", id, a.Status, a.Body)
			}
		}
		stop.Store(true)
		wg.Wait()
	})
}

// TestManyGoroutinesOfAHandlerSend has many goroutines of a handler send at once: each
// message arrives once, unless its sender gets an error, and the response comes after
// them.
func TestManyGoroutinesOfAHandlerSend(t *testing.T) {
	for name, tt := range map[string]struct {
		senders, each int
		all           bool // no send may fail
	}{
		"as many as wait for the log":  {1000, host.Sized(20, 3), true},
		"more than a mailbox can hold": {host.Sized(20_000, 5000), 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				h := host.New(t, troupe.Options{Limits: troupe.Limits{LogRate: -1}}, nil)
				var refused atomic.Int64
				h.AddTool("many", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
					var wg sync.WaitGroup
					for range tt.senders {
						wg.Go(func() {
							for range tt.each {
								if call.Log(ctx, mcp.LevelError, "", strings.Repeat("x", 40)) != nil {
									refused.Add(1)
								}
							}
						})
					}
					wg.Wait()
					return "done", nil
				})
				c := h.Unchecked().Initialize(`{}`)
				a := c.Post(host.Call("1", "many", `{}`))
				seen, newest := make(map[string]bool), kit.Event{}
				for newest.Data != host.TextResult("1", "done") {
					e, ok := a.Next()
					if !ok { // cut off because it read slowly
						if a = c.Get(newest.ID); !a.Stream() {
							t.Fatalf("resume: %s %s", a.Status, a.Body)
						}
						continue
					}
					if newest = e; e.Data != "" {
						if seen[e.ID] {
							t.Errorf("%s came twice", e.ID)
						}
						seen[e.ID] = true
					}
				}
				got, sent := len(seen)-1, tt.senders*tt.each-int(refused.Load())
				if got != sent || tt.all && sent != tt.senders*tt.each {
					t.Errorf("%d messages came of %d that were not refused", got, sent)
				}
				if rest := a.All(); len(rest) != 0 {
					t.Errorf("after the answer: %v", rest)
				}
			})
		})
	}
}

// TestRerunsOfAFullSession checks that admitted calls run again after a crash even if
// newer calls have taken their places, but not under an id that a newer call has.
func TestRerunsOfAFullSession(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		dir, o := t.TempDir(), troupe.Options{Limits: troupe.Limits{CallsPerSession: 4}}
		first := o
		first.Dir = dir
		h := host.New(t, first, nil)
		c := h.Session()
		primes := make(map[string]string)
		for _, id := range []string{"1", "2", "3", "4"} {
			a := c.Post(host.CallWith(id, "count", `{"to":3,"delay_ms":20000}`, id))
			e, _ := a.Next()
			primes[id] = e.ID
			defer a.Close()
		}
		_, m := host.Crashed(t, dir, o, c)
		for _, id := range []string{"1", "9"} {
			a := m.Post(host.Call(id, "sleep", `{"ms":3600000}`))
			a.Next()
			defer a.Close()
		}
		resumed := make(map[string]func() []string)
		for id, prime := range primes {
			resumed[id] = host.Reading(m.Get(prime))
		}
		for id, wait := range resumed {
			want := host.TextResult(id, "counted to 3")
			if id == "1" {
				want = `{"jsonrpc":"2.0","id":1,"error":{"code":-32010,"message":"the node running this call was lost; whether it took effect is unknown"}}`
			}
			if got := wait(); len(got) == 0 || got[len(got)-1] != want {
				t.Errorf("call %s got %q, want %s at last", id, got, want)
			}
		}
	})
}

// TestWithdrawnQuestionIsNoMessageOfTheHandler checks that the notice that a question
// needs no answer does not count as a message of the handler: a second run counts those
// to send each once.
func TestWithdrawnQuestionIsNoMessageOfTheHandler(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := troupe.Options{Dir: t.TempDir(), Limits: troupe.Limits{MaxAsk: 10 * time.Second}}
		add := func(h *host.Host) {
			troupe.AddTool(h.Server, troupe.Tool{Name: "asklog", Description: "Asks, and then logs.", Rerun: troupe.Safe},
				func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
					_, _ = call.Elicit(ctx, "who?", host.Form) // the client does not answer
					if err := host.Sleep(ctx, 5000); err != nil {
						return "", err
					}
					return "done", call.Log(ctx, mcp.LevelError, "", "never sent before the crash")
				})
		}
		h := host.New(t, o, nil)
		add(h)
		c := h.Session()
		a := c.Post(host.Call("1", "asklog", `{}`))
		question := host.NextQuestion(t, a)
		withdrawn, _ := a.Next()
		host.Contains(t, "withdrawn", withdrawn.Data, `"notifications/cancelled","params":{"requestId":`+string(question.ID))
		o.Dir = host.CopyDir(t, o.Dir)
		after := host.New(t, o, nil)
		add(after)
		a.Close()
		var got []string
		for _, s := range host.Payloads(after.Moved(c).Get(withdrawn.ID).All()) {
			if !strings.Contains(s, `"notifications/cancelled"`) {
				got = append(got, s)
			}
		}
		want := []string{host.Note("notifications/message", `{"level":"error","data":"never sent before the crash"}`), host.TextResult("1", "done")}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestAnsweredCallNeverRunsAgain checks that an answered call is never mistaken for a
// lost one: however late its client comes back, it gets the same response again, or
// learns that it is too late.
func TestAnsweredCallNeverRunsAgain(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		var runs atomic.Int32
		troupe.AddTool(h.Server, troupe.Tool{Name: "once", Description: "Counts its runs.", Rerun: troupe.Safe},
			func(ctx context.Context, _ *troupe.Call, _ struct{}) (string, error) {
				return fmt.Sprint("run ", runs.Add(1)), host.Sleep(ctx, 500)
			})
		c := h.Session()
		for _, tt := range []struct{ tool, args, text string }{{"once", `{}`, "run 1"}, {"sleep", `{"ms":500}`, "slept"}} {
			begin := time.Now()
			events := c.Post(host.Call("1", tt.tool, tt.args)).All()
			want := host.TextResult("1", tt.text)
			host.Equal(t, tt.tool, fmt.Sprint(host.Payloads(events)), fmt.Sprint([]string{want}))
			for _, age := range []time.Duration{9 * time.Minute, 11 * time.Minute, 13 * time.Minute, 13*time.Minute + 30*time.Second, 14 * time.Minute, 20 * time.Minute} {
				time.Sleep(time.Until(begin.Add(age)))
				if r := c.Get(events[0].ID); r.Stream() {
					host.Equal(t, fmt.Sprintf("%s after %v", tt.tool, age), fmt.Sprint(host.Payloads(r.All())), fmt.Sprint([]string{want}))
				} else if age < 10*time.Minute {
					t.Errorf("%s after %v: %s %s", tt.tool, age, r.Status, r.Body)
				} else {
					host.BadEvent(t, r)
				}
			}
		}
		if n := runs.Load(); n != 1 {
			t.Errorf("an answered call ran %d times", n)
		}
	})
}

// TestRerunOfDeepArguments checks that arguments that Options allowed run again under
// the same Options.
func TestRerunOfDeepArguments(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := troupe.Options{Dir: t.TempDir(), Limits: troupe.Limits{MaxDepth: 500}}
		add := func(h *host.Host) {
			troupe.AddRawTool(h.Server, troupe.Tool{Name: "deep", Description: "Takes anything.", InputSchema: []byte(`{"type":"object"}`), Rerun: troupe.Safe},
				func(ctx context.Context, _ *troupe.Call, _ json.RawMessage) (*mcp.CallToolResult, error) {
					return &mcp.CallToolResult{Content: mcp.Contents{mcp.Text("done")}}, host.Sleep(ctx, 5000)
				})
		}
		h := host.New(t, o, nil)
		add(h)
		c := h.Session()
		a := c.Post(host.Call("1", "deep", `{"x":`+strings.Repeat("[", 200)+strings.Repeat("]", 200)+`}`))
		prime, _ := a.Next()
		o.Dir = host.CopyDir(t, o.Dir)
		after := host.New(t, o, nil)
		add(after)
		a.Close()
		r := host.Listen(after.Moved(c).Get(prime.ID))
		time.Sleep(time.Minute)
		got, ended := r.Now()
		if diff := cmp.Diff([]string{host.TextResult("1", "done")}, got); diff != "" || !ended {
			t.Errorf("ended: %v (-want +got):\n%s", ended, diff)
		}
		r.Close()
	})
}
