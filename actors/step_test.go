package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/mcp"
)

// does does a step whose result is a text, and reports whether it ran.
func does(ctx context.Context, c *Call, name, text string) (ran bool, err error) {
	found, run, err := c.BeginStep(ctx, name)
	if err != nil || found != nil {
		if found != nil && string(found.Value) != `"`+text+`"` {
			err = fmt.Errorf("%s has another result: %.20s", name, found.Value)
		}
		return false, err
	}
	defer run.End()
	return true, run.Keep(ctx, json.RawMessage(`"`+text+`"`), "")
}

// TestStepsOfACallAreBounded has calls store more steps, and larger ones, than there is room for. What did not fit runs again in a second run, where there is no more room than
// before.
func TestStepsOfACallAreBounded(t *testing.T) {
	type step struct {
		name string
		size int
	}
	var many []step
	for i := range maxSteps + 2 {
		many = append(many, step{fmt.Sprint(i), 1})
	}
	for name, tt := range map[string]struct {
		steps   []step
		refused int64
	}{
		"many":  {many, 2},
		"large": {[]step{{"a", 200 << 10}, {"b", 100 << 10}, {"c", 50 << 10}, {"d", 8 << 10}}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				var mu sync.Mutex
				ran := make(map[int]int)
				handle := func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
					for _, s := range tt.steps {
						did, err := does(ctx, c, s.name, strings.Repeat("x", s.size))
						if err != nil {
							t.Error(err)
						}
						mu.Lock()
						if did {
							ran[c.Attempt()]++
						}
						mu.Unlock()
					}
					if c.Attempt() == 1 {
						<-ctx.Done()
					}
					return []byte(`{}`), nil
				}
				h.handler.f = handle
				h.svc.Handler = safeHandler{h.handler}
				c, session := &heldConn{}, h.begin("2025-11-25")
				go h.postOn(c, session, aCall)
				time.Sleep(30 * time.Minute)
				n, svc, end := h.heir(safeHandler{&heldHandler{f: handle}}, Limits{})
				defer end()
				back := h.resume(n, svc, session, c.lastID())
				time.Sleep(time.Minute)
				if !strings.Contains(fmt.Sprint(back.events()), `"result":{}`) {
					t.Errorf("the client got %q", back.events())
				}
				if ran[1] != len(tt.steps) || ran[2] != int(tt.refused) || h.refused(limits.CallSteps.Row) != tt.refused || n.refused(limits.CallSteps.Row) != tt.refused {
					t.Errorf("%d steps ran, then %d; %d and %d were not stored; want %d, then %d, twice", ran[1], ran[2], h.refused(limits.CallSteps.Row), n.refused(limits.CallSteps.Row), len(tt.steps), tt.refused)
				}
			})
		})
	}
}

// TestRunThatWasReplacedStoresNoStep takes the stream of a call over while it runs. What the first run does then is not stored, and ends it.
func TestRunThatWasReplacedStoresNoStep(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		goOn, first, second := make(chan struct{}), make(chan error, 1), make(chan bool, 2)
		h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			if _, err := does(ctx, c, "a", "1"); err != nil {
				t.Error(err)
			}
			_, run, err := c.BeginStep(ctx, "b")
			if err != nil {
				t.Error(err)
			}
			<-goOn
			first <- run.Keep(ctx, json.RawMessage(`"old"`), "")
			<-ctx.Done()
			return nil, mcp.NewError(mcp.CodeInternalError, "ended")
		}
		h.svc.Handler = safeHandler{h.handler}
		c, session := &heldConn{}, h.begin("2025-11-25")
		go h.postOn(c, session, aCall)
		synctest.Wait()
		n, svc, end := h.heir(safeHandler{&heldHandler{f: func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			close(goOn)
			time.Sleep(time.Second)
			for _, name := range []string{"a", "b"} {
				did, err := does(ctx, c, name, "1")
				if err != nil {
					t.Error(err)
				}
				second <- did
			}
			return []byte(`{}`), nil
		}}}, Limits{})
		defer end()
		h.resume(n, svc, session, c.lastID())
		time.Sleep(time.Minute)
		if err := <-first; !errors.Is(err, ErrStreamLost) {
			t.Errorf("the run that was replaced stores a step: %v", err)
		}
		if a, b := <-second, <-second; a || !b {
			t.Errorf("the second run did a: %v, and b: %v", a, b)
		}
	})
}

// TestStepsAndMessages has a call send messages in its steps, in steps of these, and behind them. A run that finds the steps takes none of its own messages for one of theirs.
func TestStepsAndMessages(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		handle := func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			say := func(ctx context.Context, what string) {
				if err := c.Notify(ctx, what, nil); err != nil {
					t.Error(err)
				}
			}
			in := func(ctx context.Context, name string, f func(ctx context.Context)) {
				found, run, err := c.BeginStep(ctx, name)
				if err != nil {
					t.Error(err)
				}
				if found != nil {
					return
				}
				f(run.Context(ctx))
				run.End()
				if err := run.Keep(ctx, json.RawMessage(`1`), ""); err != nil {
					t.Error(err)
				}
			}
			in(ctx, "outer", func(inside context.Context) {
				say(ctx, "m1") // by the context of the handler
				in(inside, "inner", func(inside context.Context) {
					say(inside, "m2")
					c.Pass(inside)
				})
				say(inside, "m3")
			})
			say(ctx, "m4")
			in(ctx, "next", func(inside context.Context) { say(inside, "m5") })
			if c.Attempt() == 1 {
				<-ctx.Done()
				return nil, mcp.NewError(mcp.CodeInternalError, "ended")
			}
			say(ctx, "m6")
			say(ctx, "m7")
			return []byte(`{}`), nil
		}
		h.handler.f = handle
		h.svc.Handler = safeHandler{h.handler}
		c, session := &heldConn{}, h.begin("2025-11-25")
		go h.postOn(c, session, aCall)
		time.Sleep(time.Minute)
		n, svc, end := h.heir(safeHandler{&heldHandler{f: handle}}, Limits{})
		defer end()
		back := h.resume(n, svc, session, c.lastID())
		time.Sleep(time.Minute)
		var got []string
		for _, e := range append(c.events(), back.events()...) {
			_, method, _ := strings.Cut(e, `"method":"`)
			got = append(got, strings.TrimRight(method, `"}`))
		}
		if diff := cmp.Diff([]string{"m1", "m2", "m3", "m4", "m5", "m6", "m7", ""}, got); diff != "" {
			t.Errorf("the client heard (-want +got):\n%s", diff)
		}
	})
}

// TestStepsAreCarried loses the node of a stateless call that has asked its client twice. The requestState has brought the results of its steps, as many as fit.
func TestStepsAreCarried(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		var mu sync.Mutex
		var ran []string
		handle := func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			answers := ""
			for _, s := range []struct {
				name string
				size int
			}{{"a", 60 << 10}, {"b", 5 << 10}, {"c", 10}, {"?", 0}, {"d", 10}, {"?", 0}, {"e", 10}} {
				if s.name == "?" {
					answers += asks(ctx, c, "k")
					continue
				}
				did, err := does(ctx, c, s.name, strings.Repeat("x", s.size))
				if ctx.Err() != nil { // the first run ends with its node
					return nil, mcp.NewError(mcp.CodeInternalError, "ended")
				}
				if err != nil {
					t.Error(err)
				}
				if did {
					mu.Lock()
					ran = append(ran, fmt.Sprint(s.name, c.Attempt()))
					mu.Unlock()
				}
			}
			return []byte(`"` + strings.ReplaceAll(answers, `"`, "'") + `"`), nil
		}
		h.asker(handle)
		h.svc.Handler = mayAgain{benchHandler{h.handler}, func(string) bool { return true }}
		first := h.call(h.Node, h.svc, "")
		second := h.call(h.Node, h.svc, answersTo(first, `{"k":{"n":1}}`))
		n, svc, end := h.heir(mayAgain{benchHandler{&heldHandler{f: handle}}, func(string) bool { return true }}, Limits{})
		defer end()
		n.mrtr.keys = benchKeys{}
		if _, body := h.call(n, svc, answersTo(second, `{"k-2":{"n":2}}`)).answer(); !strings.Contains(body, `"{'n':1}{'n':2}"`) {
			t.Errorf("got %.200q, want the answer of each round", body)
		}
		mu.Lock()
		defer mu.Unlock()
		if diff := cmp.Diff([]string{"a1", "b1", "c1", "d1", "b2", "e2"}, ran); diff != "" {
			t.Errorf("the steps ran (-want +got):\n%s", diff)
		}
		if got := h.refused(limits.CallSteps.Row); got != 2 {
			t.Errorf("%d results were not carried, want one in each round", got)
		}
	})
}

// becomesTask is what a call has that has become a task.
type becomesTask struct {
	Detached
	kept chan string
}

func (b *becomesTask) KeepStep(_ context.Context, s Step) error {
	b.kept <- s.Name
	return nil
}

// TestStepsMoveToATask ends steps of a stateless call before a task is made of it, meanwhile, and after that. If there is no task in the end, the call keeps the results itself.
func TestStepsMoveToATask(t *testing.T) {
	for name, becomes := range map[string]bool{"it becomes one": true, "it becomes none": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				names := func(c *Call) (all []string, moved func()) {
					kept, moved, err := c.MoveSteps(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					for _, s := range kept {
						all = append(all, s.Name)
					}
					return all, moved
				}
				h.asker(func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
					step := func(name string) {
						if _, err := does(ctx, c, name, "x"); err != nil {
							t.Error(err)
						}
					}
					step("before")
					kept, moved := names(c)
					go step("meanwhile")
					time.Sleep(time.Millisecond)
					to := &becomesTask{kept: make(chan string, 2)}
					if becomes {
						if _, ok := c.Detach([]byte(`,"result":{}}`), to); !ok {
							t.Error("it is not detached")
						}
					}
					if left := len(to.kept); left != 0 {
						t.Errorf("%d results were stored before the task was made", left)
					}
					moved()
					time.Sleep(time.Millisecond)
					if !becomes {
						more, done := names(c)
						done()
						kept = more
					} else {
						kept = append(kept, <-to.kept)
					}
					if diff := cmp.Diff([]string{"before", "meanwhile"}, kept); diff != "" {
						t.Errorf("kept (-want +got):\n%s", diff)
					}
					return []byte(`{}`), nil
				})
				h.svc.Handler = mayAgain{benchHandler{h.handler}, func(string) bool { return true }}
				c := h.call(h.Node, h.svc, "")
				time.Sleep(time.Second)
				if _, body := c.answer(); !strings.Contains(body, `"result":{}`) {
					t.Errorf("it was answered with %q", body)
				}
			})
		})
	}
}

// TestStepsThatNobodyFinds checks that a call that has no second run keeps no results, and names its steps once all the same.
func TestStepsThatNobodyFinds(t *testing.T) {
	for name, tt := range map[string]struct {
		safe  bool
		bound bool
	}{
		"a call that may not run twice": {false, false},
		"a call of HTTP+SSE":            {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
					_, run, err := c.BeginStep(ctx, "a")
					if err != nil || run.Keeps() {
						t.Errorf("the result is kept, or there is an error: %v", err)
						return []byte(`{}`), nil
					}
					if err := run.Keep(ctx, nil, ""); err != nil {
						t.Error(err)
					}
					run.End()
					if _, _, err := c.BeginStep(ctx, "a"); !errors.Is(err, ErrStepUsed) {
						t.Errorf("a name twice: %v", err)
					}
					return []byte(`{}`), nil
				}
				if tt.safe {
					h.svc.Handler = safeHandler{h.handler}
				}
				if tt.bound {
					c := h.connect("192.0.2.1", "2024-11-05")
					h.post(c.name, aCall)
					synctest.Wait()
					return
				}
				if status, body := h.post(h.begin("2025-11-25"), aCall).answer(); status != 200 || !strings.Contains(body, `"result":{}`) {
					t.Errorf("it was answered with %d %s, want plain JSON", status, body)
				}
			})
		})
	}
}
