package stateless_test

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

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestQuestionsOverAlternatingProcesses has a call that asks three times, and whose client reaches another of three processes with
// each request: one handler runs, where the call began (2026-07-28, basic/patterns/mrtr).
func TestQuestionsOverAlternatingProcesses(t *testing.T) {
	runs := 0
	host.Fleet(t, 3, troupe.Options{}, func(h *host.Host) {
		h.AddTool("thrice", mcp.CapClientElicitationForm, func(ctx context.Context, call *troupe.Call) (string, error) {
			runs++
			var all []string
			for i := range 3 {
				key := fmt.Sprint("q", i)
				a, err := call.Ask(ctx, troupe.Elicit(key, "Who?", host.Form))
				if err != nil {
					return "", err
				}
				r, err := a.Elicited(key)
				if err != nil {
					return "", err
				}
				all = append(all, string(r.Content))
				_ = call.Progress(ctx, float64(i+1), 3, "")
				time.Sleep(time.Second)
			}
			return h.Runtime.Node() + strings.Join(all, ""), nil
		})
	}, func(t *testing.T, hosts []*host.Host) {
		var clients []*host.Stateless
		for _, h := range hosts {
			clients = append(clients, h.Stateless(host.EveryCapability))
		}
		at := func(i int) *host.Stateless { return clients[i%len(clients)] }
		a, _ := at(0).Tool("thrice", `{}`)
		response := a.Body
		for i := range 3 {
			var asked host.Required
			if err := json.Unmarshal([]byte(response), &asked); err != nil || asked.Result.RequestState == "" {
				t.Fatalf("round %d: %v %s", i+1, err, response)
			}
			state := fmt.Sprintf(`"requestState":%q`, asked.Result.RequestState)
			var progress []string
			progress, response = at(i+1).Send("tools/call", host.ToolParams("thrice", `{}`, state, host.Given(fmt.Sprint("q", i), fmt.Sprint("answer ", i))), `"progressToken":"p"`)
			if len(progress) != 1 || !strings.Contains(progress[0], fmt.Sprintf(`"progressToken":"p","progress":%d`, i+1)) {
				t.Errorf("round %d: progress %q", i+1, progress)
			}
		}
		host.Contains(t, "the result", response, `a{\"answer\":\"answer 0\"}{\"answer\":\"answer 1\"}{\"answer\":\"answer 2\"}`)
		if runs != 1 {
			t.Errorf("the handler ran %d times", runs)
		}
	})
}

// TestQuestionWhoseProcessHasEnded checks that a call goes on elsewhere if it may run again, and is lost if it may not.
func TestQuestionWhoseProcessHasEnded(t *testing.T) {
	host.Fleet(t, 2, troupe.Options{}, func(h *host.Host) {
		h.AddTool("once", mcp.CapClientElicitationForm, func(ctx context.Context, call *troupe.Call) (string, error) {
			_, err := call.Ask(ctx, troupe.Elicit("name", "Who?", host.Form))
			return "", err
		})
	}, func(t *testing.T, hosts []*host.Host) {
		first, second := hosts[0].Stateless(host.EveryCapability), hosts[1].Stateless(host.EveryCapability)
		safe, safeID := first.Tool("ask", `{"question":"Who?"}`)
		once, onceID := first.Tool("once", `{}`)
		safeState, onceState := first.Parked(safe, safeID, "elicit"), first.Parked(once, onceID, "name")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = hosts[0].Runtime.Close(ctx)
		synctest.Wait()
		a, id := second.Tool("ask", `{"question":"Who?"}`, safeState, host.Given("elicit", "me"))
		host.Equal(t, "a call that may run again", second.Done(a, id), `accept {"answer":"me"}`)
		a, id = second.Tool("once", `{}`, onceState, host.Given("name", "me"))
		host.Contains(t, "a call that may not", second.Done(a, id), "error -32010")
	})
}

// TestStepsOfAParkedCall ends the process in which a call waits for its second answer. The run in another one finds the steps in the requestState, with the answers.
func TestStepsOfAParkedCall(t *testing.T) {
	var ran []string
	host.Fleet(t, 2, troupe.Options{}, func(h *host.Host) {
		troupe.AddTool(h.Server, troupe.Tool{Name: "trip", Needs: mcp.CapClientElicitationForm, Rerun: troupe.Safe}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			said := ""
			for _, what := range []string{"book", "pay", "send"} {
				done, err := troupe.Step(ctx, call, what, func(context.Context) (string, error) {
					ran = append(ran, h.Runtime.Node()+" "+what)
					if what == "pay" {
						return "", troupe.Permanent(errors.New("no money"))
					}
					return what, nil
				})
				if said += done; err != nil {
					said += err.Error()
				}
				if what == "send" {
					break
				}
				a, err := call.Ask(ctx, troupe.Elicit(what+"ed", "Well?", host.Form))
				if err != nil {
					return "", err
				}
				r, err := a.Elicited(what + "ed")
				if err != nil {
					return "", err
				}
				said += string(r.Content)
			}
			return said, nil
		})
	}, func(t *testing.T, hosts []*host.Host) {
		first, second := hosts[0].Stateless(host.EveryCapability), hosts[1].Stateless(host.EveryCapability)
		a, id := first.Tool("trip", `{}`)
		a, id = first.Tool("trip", `{}`, first.Parked(a, id, "booked"), host.Given("booked", "yes"))
		state := first.Parked(a, id, "payed")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = hosts[0].Runtime.Close(ctx)
		synctest.Wait()
		a, id = second.Tool("trip", `{}`, state, host.Given("payed", "no"))
		host.Equal(t, "the result", second.Done(a, id), `book{"answer":"yes"}no money{"answer":"no"}send`)
		host.Equal(t, "the steps", strings.Join(ran, ", "), "a book, a pay, b send")
	})
}

// TestQuestionOfARunLeftBehind has a process that is cut off until another one has run its call again, and asked for more. It comes back, and
// the other one dies: the answer to the later question does not fit the call that still waits here for the earlier one.
func TestQuestionOfARunLeftBehind(t *testing.T) {
	kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
		var all []*host.Stateless
		var ended atomic.Int64
		for _, name := range []string{"a", "b"} {
			o := troupe.Options{}
			o.Store.Node, o.Store.NATS.URL, o.Store.Lease = name, v.Line(name).URL(), 5*time.Second
			h := host.New(t, o, nil)
			troupe.AddTool(h.Server, troupe.Tool{Name: "two questions", Needs: mcp.CapClientElicitationForm, Rerun: troupe.Safe}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
				defer ended.Add(1)
				said := h.Runtime.Node()
				for _, key := range []string{"first", "second"} {
					a, err := call.Ask(ctx, troupe.Elicit(key, "Who?", host.Form))
					if err != nil {
						return "", err
					}
					r, err := a.Elicited(key)
					if err != nil {
						return "", err
					}
					said += string(r.Content)
				}
				return said, nil
			})
			all = append(all, h.Stateless(host.EveryCapability))
		}
		const lapse = 10 * time.Second // of a lease
		// answers sends the call again, until the node there knows that the other one is gone.
		answers := func(at *host.Stateless, more ...string) (a *kit.Answer, id string) {
			for range 20 {
				if a, id = at.Tool("two questions", `{}`, more...); a.StatusCode != 503 {
					break
				}
				time.Sleep(time.Second)
			}
			return a, id
		}
		asked, id := all[0].Tool("two questions", `{}`)
		first := all[0].Parked(asked, id, "first")
		v.Line("a").Break()
		time.Sleep(lapse)
		asked, id = answers(all[1], first, host.Given("first", "1"))
		second := all[1].Parked(asked, id, "second")
		v.Line("a").Heal()
		time.Sleep(lapse)
		v.Line("b").Break()
		time.Sleep(lapse)
		asked, id = answers(all[0], second, host.Given("second", "2"))
		host.Equal(t, "at the one that was cut off", all[0].Done(asked, id), `a{"answer":"1"}{"answer":"2"}`)
		synctest.Wait()
		if n := ended.Load(); n != 2 {
			t.Errorf("%d handlers have ended, want that of the answer and the one that was left behind", n)
		}
		v.Line("b").Heal()
		time.Sleep(lapse)
	})
}
