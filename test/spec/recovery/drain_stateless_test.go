package recovery_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestAllWhoWaitForACallAreToldThatItIsGivenUp drains a server while a call runs for
// two requests that brought the same answers: both get the error.
func TestAllWhoWaitForACallAreToldThatItIsGivenUp(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, _, _ := host.NewParking(t, troupe.Options{DrainDelay: -1, DrainWait: 100 * time.Millisecond})
		m := h.Stateless(host.EveryCapability)
		came := map[string][]<-chan *kit.Answer{}
		for _, tool := range []string{"safe", "never"} {
			a, id := m.Tool(tool, `{}`)
			params := host.ToolParams(tool, `{}`, m.Parked(a, id, "name"), host.Given("name", "Ada"))
			for range 2 {
				later, _ := m.Later("tools/call", params)
				synctest.Wait()
				came[tool] = append(came[tool], later)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- h.Runtime.ServeOn(ctx, kit.NewListener()) }()
		stop()
		for i := range 2 {
			if a := <-came["safe"][i]; a.StatusCode != 503 || a.Header.Get("Retry-After") == "" {
				t.Errorf("what may run again, request %d: %s %s", i+1, a.Status, a.Body)
			}
			if a := <-came["never"][i]; a.StatusCode != 200 || !strings.Contains(a.Body, `"error":{"code":-32010,`) {
				t.Errorf("what may not, request %d: %s %s", i+1, a.Status, a.Body)
			}
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// sendAgain is the error that says to send a request again, and lost the one that says that nobody knows what has become of the call.
const (
	sendAgain = `"error":{"code":-32603,"message":"temporarily unavailable: try again shortly","data":{"retryAfterMs":1000}}`
	lostCall  = `"error":{"code":-32010,"message":"the node running this call was lost; whether it took effect is unknown"}`
)

// TestADrainOfStatelessClients drains a server with the default times while calls of 2026-07-28 run, and others come: those that come once the
// delay is over get 503, and those that run have until two seconds before the end of the drain, which takes 25.
func TestADrainOfStatelessClients(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := served(host.New(t, troupe.Options{Limits: troupe.Limits{StatelessGrace: time.Minute}}, nil))
		session := h.fresh(h.Session())
		m := h.Stateless(`{}`)
		began := time.Now()
		h.stop()
		type running struct {
			answer <-chan *kit.Answer
			what   string
			status int
			body   string
		}
		var calls []running
		begin := func(what, tool, args string, status int, body string, meta ...string) {
			request := m.Body(m.NextID(), "tools/call", host.ToolParams(tool, args), strings.Join(meta, ","))
			calls = append(calls, running{m.Client.PostLater(request, m.Header("tools/call", request)...), what, status, body})
		}
		const token = `"progressToken":1`
		begin("safe and silent", "count", `{"to":1,"delay_ms":3600000}`, 503, sendAgain)
		begin("safe, after its first event", "count", `{"to":2,"delay_ms":3600000}`, 200, sendAgain, token)
		begin("one that may not run twice", "sleep", `{"ms":3600000}`, 200, lostCall)
		begin("one that ends in time", "sleep", `{"ms":22990}`, 200, `"text":"slept"`)
		time.Sleep(time.Until(began.Add(2900 * time.Millisecond)))
		m.Tool("echo", `{"text":"x"}`)
		time.Sleep(200 * time.Millisecond)
		for _, method := range []string{"tools/call", "tools/list", "server/discover"} {
			params := `{}`
			if method == "tools/call" {
				params = host.ToolParams("echo", `{"text":"x"}`)
			}
			if a, _ := m.Do(method, params); a.StatusCode != 503 || a.Header.Get("Retry-After") != "1" || !strings.Contains(a.Body, sendAgain) {
				t.Errorf("%s after the delay: %s %v %s", method, a.Status, a.Header, a.Body)
			}
		}
		if a := session.Post(host.Call("1", "echo", `{"text":"x"}`)); a.StatusCode != 200 {
			t.Errorf("a session is refused: %s %s", a.Status, a.Body)
		}
		for _, c := range calls {
			a := <-c.answer
			body := a.Body
			if a.Stream() {
				body = strings.Join(host.Payloads(a.All()), "\n")
			}
			if a.StatusCode != c.status || !strings.Contains(body, c.body) || (a.StatusCode == 503) != (a.Header.Get("Retry-After") == "1") {
				t.Errorf("%s: %s %s", c.what, a.Status, body)
			}
			if d := time.Since(began); d != 23*time.Second && c.status != 200 {
				t.Errorf("%s: it is answered after %v, want 23 s", c.what, d)
			}
		}
		if took := h.end(began); took < 23*time.Second || took > 25*time.Second {
			t.Errorf("the drain took %v", took)
		}
	})
}

// TestAnswersComeInADrain has a client answer the question of a call while the call's node drains: the call is here, and goes on. Without it the
// answers are for another node.
func TestAnswersComeInADrain(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, _, _ := host.NewParking(t, troupe.Options{DrainDelay: -1, DrainWait: 20 * time.Second})
		s := served(h)
		m := s.Stateless(host.EveryCapability)
		a, id := m.Tool("never", `{}`)
		params := host.ToolParams("never", `{}`, m.Parked(a, id, "name"), host.Given("name", "Ada"))
		time.Sleep(time.Second)
		s.stop()
		time.Sleep(time.Second)
		if a, _ := m.Do("tools/call", params); a.StatusCode != 200 || strings.Contains(a.Body, `"error"`) {
			t.Errorf("the answers of a call that waits here: %s %s", a.Status, a.Body)
		}
		_ = s.end(time.Now())
	})
}

// TestDrainOfAKeptSocket drains a server whose socket another process has, too: it stops accepting at once, but for a client that has a question to answer or may get one, and serves stateless clients
// on the connections that they have, while it waits for a call.
func TestDrainOfAKeptSocket(t *testing.T) {
	for name, asks := range map[string]time.Duration{"nobody is asked": -1, "a client is asked": 0, "a client is asked later": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				h := host.New(t, troupe.Options{DrainDelay: -1, Limits: troupe.Limits{StatelessGrace: time.Minute}}, nil)
				troupe.AddTool(h.Server, troupe.Tool{Name: "asklater", Description: "Asks later, once.", Needs: mcp.CapClientElicitationForm},
					func(ctx context.Context, call *troupe.Call, in host.SleepIn) (string, error) {
						if err := host.Sleep(ctx, in.MS); err != nil {
							return "", err
						}
						r, err := call.Elicit(ctx, "?", host.Form)
						if err != nil {
							return "", err
						}
						return string(r.Action), nil
					})
				ln := kit.NewListener()
				ctx, stop := context.WithCancel(t.Context())
				served := make(chan error, 1)
				go func() { served <- h.Runtime.ServeOn(ctx, troupe.KeepSocket(ln)) }()
				m, session := h.Stateless(`{}`), h.Session()
				running, _ := m.Later("tools/call", host.ToolParams("sleep", `{"ms":5000}`))
				answer := func() {}
				if asks >= 0 {
					a := session.Post(host.Call("1", "asklater", fmt.Sprintf(`{"ms":%d}`, asks.Milliseconds())))
					synctest.Wait()
					answer = func() {
						q := host.NextQuestion(t, a)
						c, err := ln.Dial(t.Context(), "", "")
						if err != nil {
							t.Errorf("no connection for the answer: %v", err)
						} else {
							_ = c.Close()
						}
						host.Reply(session, q.ID, "result", `{"action":"cancel"}`)
						host.Equal(t, "the call that asked", host.Last(t, a), host.TextResult("1", "cancel"))
						time.Sleep(100 * time.Millisecond)
						if _, err := ln.Dial(t.Context(), "", ""); err == nil {
							t.Error("it accepts connections though no call of a session runs")
						}
					}
				}
				time.Sleep(time.Second)
				stop()
				time.Sleep(time.Second)
				c, err := ln.Dial(t.Context(), "", "")
				if (err == nil) != (asks >= 0) {
					t.Errorf("a new connection: %v", err)
				}
				if err == nil {
					_ = c.Close()
				}
				if a, _ := m.Tool("echo", `{"text":"x"}`); a.StatusCode != 200 || !strings.Contains(a.Body, `"text":"x"`) {
					t.Errorf("a new request on a connection that is there: %s %s", a.Status, a.Body)
				}
				answer()
				if a := <-running; a.StatusCode != 200 || !strings.Contains(a.Body, `"text":"slept"`) {
					t.Errorf("the call that ran: %s %s", a.Status, a.Body)
				}
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
