package recovery_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// serving is a host that Runtime.Serve serves.
type serving struct {
	*host.Host
	stop   func()
	served chan error
	ended  time.Time
}

// served serves h with Runtime.Serve, on connections of its own.
func served(h *host.Host) *serving {
	h.T.Helper()
	own := *h
	ln := kit.NewListener()
	tr := &http.Transport{DialContext: ln.Dial, MaxIdleConnsPerHost: 100}
	own.Listener, own.HTTP = ln, &http.Client{Transport: tr}
	ctx, stop := context.WithCancel(h.T.Context())
	s := &serving{Host: &own, stop: stop, served: make(chan error, 1)}
	go func() {
		err := h.Runtime.ServeOn(ctx, ln)
		s.ended = time.Now()
		s.served <- err
	}()
	h.T.Cleanup(tr.CloseIdleConnections)
	return s
}

// end waits for the end of Serve and returns the time from since until then.
func (s *serving) end(since time.Time) time.Duration {
	s.T.Helper()
	if err := <-s.served; err != nil {
		s.T.Errorf("serve: %v", err)
	}
	return s.ended.Sub(since)
}

// fresh returns c on connections of its own.
func (s *serving) fresh(c *kit.Client) *kit.Client {
	tr := &http.Transport{DialContext: s.Listener.Dial}
	s.T.Cleanup(tr.CloseIdleConnections)
	m := *c
	m.HTTP = &http.Client{Transport: tr}
	return &m
}

// TestDrainWaitsOnlyForWhatNobodyElseCanEnd drains a server while calls of each kind run, and has another client call
// all the time.
func TestDrainWaitsOnlyForWhatNobodyElseCanEnd(t *testing.T) {
	when.Long(t, "virtual minutes of six kinds of calls")
	count := host.CallWith("1", "count", `{"to":60,"delay_ms":1000}`, "1")
	for name, tt := range map[string]struct {
		revision, call string
		want           time.Duration // from the start of the call; the drain begins after a second
	}{
		"a safe call":                                {"2025-11-25", count, time.Second},
		"a safe call that is silent":                 {"2025-11-25", host.Call("1", "count", `{"to":1,"delay_ms":60000}`), time.Second},
		"a question of a safe call":                  {"2025-11-25", host.Call("1", "ask", `{"question":"?"}`), time.Second},
		"a call that may not run again":              {"2025-11-25", host.Call("1", "sleep", `{"ms":5000}`), 5 * time.Second},
		"a client that may not come back by itself":  {"2025-06-18", host.CallWith("1", "count", `{"to":5,"delay_ms":1000}`, "1"), 5 * time.Second},
		"a batch with a call that may not run again": {"2025-03-26", "[" + host.Call("1", "echo", `{"text":"x"}`) + "," + host.Call("2", "sleep", `{"ms":5000}`) + "]", 5 * time.Second},
		"a call that takes too long":                 {"2025-11-25", host.Call("1", "sleep", `{"ms":3600000}`), 11 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				h := served(host.New(t, troupe.Options{Dir: t.TempDir(), DrainDelay: -1, DrainWait: 10 * time.Second}, nil))
				c := h.Unchecked().InitializeAs(tt.revision, `{"elicitation":{}}`)
				other := h.fresh(h.Session())
				began := time.Now()
				a := c.Post(tt.call)
				go a.All()
				time.Sleep(time.Until(began.Add(time.Second)))
				h.stop()
				refused := time.Duration(0)
				for ; time.Since(began) < tt.want; time.Sleep(100 * time.Millisecond) {
					a, err := other.Try("POST", host.Call("7", "echo", `{"text":"x"}`))
					if err != nil || a.StatusCode != 200 {
						refused = tt.want - time.Since(began)
						break
					}
				}
				if took := h.end(began); took < tt.want || took > tt.want+500*time.Millisecond {
					t.Errorf("it ends %v after the call began, want %v", took, tt.want)
				}
				if refused > 200*time.Millisecond {
					t.Errorf("another client is refused for %v", refused)
				}
				if a, err := other.Try("POST", host.Call("8", "echo", `{"text":"x"}`)); err == nil {
					t.Errorf("after the end: %s", a.Status)
				}
			})
		})
	}
}

// TestDrainOfStatelessCalls checks that a drain waits for calls whose clients could not come back, including parked
// calls that may not run in another process.
func TestDrainOfStatelessCalls(t *testing.T) {
	for tool, want := range map[string]time.Duration{"safe": 0, "never": 1800 * time.Millisecond} {
		kit.Bubble(t, func(t *testing.T) {
			h, _, _ := host.NewParking(t, troupe.Options{DrainDelay: -1, DrainWait: 2 * time.Second})
			s := served(h)
			m := s.Stateless(host.EveryCapability)
			a, id := m.Tool(tool, `{}`)
			m.Parked(a, id, "name")
			time.Sleep(time.Second)
			stopped := time.Now()
			s.stop()
			if took := s.end(stopped); took < want || took > want+500*time.Millisecond {
				t.Errorf("%s: parked, it ends after %v, want %v", tool, took, want)
			}
		})
	}
	kit.Bubble(t, func(t *testing.T) {
		h := served(host.New(t, troupe.Options{DrainDelay: -1}, nil))
		m := h.Stateless(`{}`)
		a, _ := m.Later("tools/call", host.ToolParams("count", `{"to":4,"delay_ms":1000}`))
		time.Sleep(time.Second)
		stopped := time.Now()
		h.stop()
		if got := <-a; !strings.Contains(string(got.Body), "counted to 4") {
			t.Errorf("a safe call is answered with %s %s", got.Status, got.Body)
		}
		if took := h.end(stopped); took < 3*time.Second || took > 3500*time.Millisecond {
			t.Errorf("it ends after %v, want 3 s", took)
		}
	})
}

// TestDrainRefusesWhatCouldNotEnd has new calls that may not run again come for as long as a drain waits: none may
// begin that the end of the drain would cut off.
func TestDrainRefusesWhatCouldNotEnd(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := served(host.New(t, troupe.Options{Dir: t.TempDir(), DrainDelay: -1, DrainWait: 10 * time.Second}, nil))
		c := h.Session()
		began := time.Now()
		var open []<-chan *kit.Answer
		later := func() {
			open = append(open, c.PostLater(host.Call(fmt.Sprint(len(open)), "sleep", `{"ms":4000}`)))
			synctest.Wait()
		}
		later()
		time.Sleep(time.Second)
		h.stop()
		for time.Since(began) < 5900*time.Millisecond { // half of the time is over at 6 s
			later()
			time.Sleep(1500 * time.Millisecond)
		}
		if a := c.Post(host.Call("90", "sleep", `{"ms":1}`)); !host.TurnedAway(a) {
			t.Errorf("a call that may not run again, in the second half: %s", a.Status)
		}
		if a := c.Post(host.Call("91", "echo", `{"text":"x"}`)); a.StatusCode != 200 {
			t.Errorf("one that may: %s", a.Status)
		}
		for i, a := range open {
			if got := host.Payloads((<-a).All()); len(got) != 1 || got[0] != host.TextResult(fmt.Sprint(i), "slept") {
				t.Errorf("call %d is answered with %v", i, got)
			}
		}
		if took := h.end(began); took > 10*time.Second {
			t.Errorf("it ends %v after it began", took)
		}
	})
}

// TestDrainOfADeafHandler hands over a safe call whose handler ignores its context.
func TestDrainOfADeafHandler(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Dir: t.TempDir(), DrainDelay: -1}, nil)
		troupe.AddTool(h.Server, troupe.Tool{Name: "deaf", Rerun: troupe.Safe}, func(context.Context, *troupe.Call, struct{}) (string, error) {
			time.Sleep(20 * time.Second)
			return "", nil
		})
		s := served(h)
		a := s.Session().Post(host.Call("1", "deaf", `{}`))
		stopped := time.Now()
		s.stop()
		a.All()
		if took := s.end(stopped); took > time.Second {
			t.Errorf("it ends after %v", took)
		}
	})
}

// TestDrainDelayAnnounces checks what clients and balancers get during the delay, and right after it.
func TestDrainDelayAnnounces(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := served(host.New(t, troupe.Options{Dir: t.TempDir(), DrainDelay: 3 * time.Second}, nil))
		get := func(path string) *http.Response {
			t.Helper()
			resp, err := h.HTTP.Get("http://127.0.0.1" + path)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			return resp
		}
		c := h.Session()
		c.Header = http.Header{"Mcp-Protocol-Version": {"2025-11-25"}}
		kept := h.fresh(c)
		kept.Post(host.Call("1", "echo", `{"text":"x"}`))
		began := c.Post(host.CallWith("2", "count", `{"to":3,"delay_ms":500}`, "2"))
		slow := h.fresh(c).PostLater(host.Call("3", "sleep", `{"ms":100}`))
		time.Sleep(50 * time.Millisecond)
		if resp := get("/readyz"); resp.Close || resp.StatusCode != 200 {
			t.Errorf("before: %s, close %t", resp.Status, resp.Close)
		}
		stopped := time.Now()
		h.stop()
		synctest.Wait()
		for path, want := range map[string]int{"/readyz": 503, "/healthz": 200, "/nowhere": 404} {
			if resp := get(path); !resp.Close || resp.StatusCode != want {
				t.Errorf("%s: %s, close %t, want %d and the end of the connection", path, resp.Status, resp.Close, want)
			}
		}
		ends := func(what string, a *kit.Answer, want bool) {
			t.Helper()
			if a.Response.Close != want {
				t.Errorf("%s (%s): the connection is to be closed: %t, want %t", what, a.Status, a.Response.Close, want)
			}
			if a.Stream() {
				go a.All()
			}
		}
		ends("a plain answer", c.Post(host.Call("4", "echo", `{"text":"x"}`)), true)
		ends("an answer to what came before", <-slow, true)
		ends("a call's stream", c.Post(host.CallWith("5", "count", `{"to":2}`, "5")), true)
		ends("a refusal", h.Unchecked().Post(`{`), true)
		ends("the session's own stream", c.Get(""), true)
		ends("a stateless stream", h.Stateless(`{}`).Post("tools/call", host.ToolParams("count", `{"to":2,"delay_ms":1}`, `"_meta":{"progressToken":1}`)), true)
		// A client that resumes only broken streams would take an announced end for the end of the response.
		ends("a stream of an older revision", h.Client().InitializeAs("2025-03-26", `{}`).Post(host.CallWith("5", "count", `{"to":2}`, "5")), false)
		if got := host.Payloads(began.All()); len(got) != 4 {
			t.Errorf("a stream that was open before: %v", got)
		}
		time.Sleep(time.Until(stopped.Add(2900 * time.Millisecond)))
		young := h.fresh(c).PostLater(host.Call("10", "sleep", `{"ms":240}`))
		time.Sleep(180 * time.Millisecond)
		if _, err := h.fresh(c).Try("POST", host.Call("11", "echo", `{"text":"x"}`)); err == nil {
			t.Error("a new connection is accepted after the delay")
		}
		if a, err := kept.Try("POST", host.Call("12", "echo", `{"text":"x"}`)); err != nil || a.StatusCode != 200 || !a.Response.Close {
			t.Errorf("a request on a connection that was kept: %v, %+v", err, a)
		}
		host.Equal(t, "what runs is answered", string((<-young).Body), host.TextResult("10", "slept"))
		if took := h.end(stopped); took < 3*time.Second || took > 3500*time.Millisecond {
			t.Errorf("it ends after %v", took)
		}
	})
}

// TestDrainDelayNeedsAWitness checks that the delay is cut short when there is no client and no probe.
func TestDrainDelayNeedsAWitness(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(h *serving)
		want   time.Duration
	}{
		"nobody came":             {func(*serving) {}, 0},
		"whoever came has left":   {func(h *serving) { h.Session(); h.HTTP.CloseIdleConnections() }, 0},
		"a connection is open":    {func(h *serving) { h.Session() }, 3 * time.Second},
		"somebody asks readiness": {func(h *serving) { h.ask("/readyz"); h.HTTP.CloseIdleConnections() }, 3 * time.Second},
		"somebody asks health":    {func(h *serving) { h.ask("/healthz"); h.HTTP.CloseIdleConnections() }, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				h := served(host.New(t, troupe.Options{}, nil))
				tt.before(h)
				synctest.Wait()
				stopped := time.Now()
				h.stop()
				if took := h.end(stopped); took < tt.want || took > tt.want+300*time.Millisecond {
					t.Errorf("it ends after %v, want %v", took, tt.want)
				}
			})
		})
	}
}

func (s *serving) ask(path string) {
	s.T.Helper()
	resp, err := s.HTTP.Get("http://127.0.0.1" + path)
	if err != nil {
		s.T.Fatal(err)
	}
	_ = resp.Body.Close()
}

// TestRestartUnderASafeCall drains a server while a call of a minute runs, and has the next one on the same data go on
// with it.
func TestRestartUnderASafeCall(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		h := served(host.New(t, troupe.Options{Dir: dir, DrainDelay: -1}, nil))
		c := h.Session()
		a := c.Post(host.CallWith("1", "count", `{"to":60,"delay_ms":1000}`, "1"))
		alone := c.Get("")
		var events []kit.Event
		for range 11 {
			e, _ := a.Next()
			events = append(events, e)
		}
		stopped := time.Now()
		h.stop()
		events = append(events, a.All()...)
		alone.All()
		if a.Broke || alone.Broke {
			t.Errorf("broken off: the call's stream %t, the session's own %t", a.Broke, alone.Broke)
		}
		if took := h.end(stopped); took > 500*time.Millisecond {
			t.Errorf("it ends after %v", took)
		}
		next := host.New(t, troupe.Options{Dir: dir}, nil)
		events = append(events, next.Moved(c).Get(events[len(events)-1].ID).All()...)
		var want []string
		for i := 1; i <= 60; i++ {
			want = append(want, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":%d,"total":60}}`, i))
		}
		want = append(want, host.TextResult("1", "counted to 60"))
		if diff := cmp.Diff(want, host.Payloads(events)); diff != "" {
			t.Errorf("the call (-want +got):\n%s", diff)
		}
	})
}

// TestDrainTellsNobodyWhatIsHidden calls tools in the second half of a drain: a hidden tool and an absent one get the
// same error.
func TestDrainTellsNobodyWhatIsHidden(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{DrainDelay: -1, DrainWait: 10 * time.Second}, &troupe.ServerOptions{
			Visible: func(_ troupe.Principal, i troupe.Item) bool { return !strings.HasPrefix(i.Name, "hidden") },
		})
		for name, rerun := range map[string]troupe.Rerun{"own": troupe.Never, "hidden-own": troupe.Never, "hidden-safe": troupe.Safe} {
			troupe.AddTool(h.Server, troupe.Tool{Name: name, Rerun: rerun}, func(ctx context.Context, _ *troupe.Call, _ struct{}) (string, error) {
				<-ctx.Done()
				return "", ctx.Err()
			})
		}
		c := h.Session()
		host.Listen(c.Post(host.Call("1", "own", `{}`)))
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			_ = h.Runtime.Drain(t.Context())
		}()
		time.Sleep(6 * time.Second)
		host.Contains(t, "a call that may not run again", c.Post(host.Call("2", "own", `{}`)).Body, "try again")
		for _, name := range []string{"absent", "hidden-own", "hidden-safe"} {
			host.Equal(t, name, c.Post(host.Call("2", name, `{}`)).Body, host.Fault("2", -32602, "Unknown tool: "+name, ""))
		}
		<-drained
	})
}
