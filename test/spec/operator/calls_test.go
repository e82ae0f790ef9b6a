package operator_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/operator"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestCancelCall ends a call of each era, on each transport, before and after something was sent, whose handler heeds nothing: its client has one
// response, that an operator has ended it, and may use the id again at once. What the handler returns later comes to nobody.
func TestCancelCall(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(t *testing.T, h *host.Host, w *runaways){
		"2026-07-28, a plain response": func(t *testing.T, h *host.Host, w *runaways) {
			m := h.Stateless(`{}`)
			later, id := m.Later("tools/call", host.ToolParams("silent", `{}`))
			w.cancel(t, h.Runtime, operator.Call{State: "running", Target: "silent", Revision: "2026-07-28"})
			a := <-later
			host.Equal(t, "response", a.Body, fault(id))
			if a.StatusCode != 200 {
				t.Errorf("status %s", a.Status)
			}
		},
		"2026-07-28, a stream": func(t *testing.T, h *host.Host, w *runaways) {
			m := h.Stateless(`{}`)
			id := m.NextID()
			body := m.Body(id, "tools/call", host.ToolParams("talks", `{}`), `"io.modelcontextprotocol/logLevel":"info"`)
			a := m.Client.Post(body, m.Header("tools/call", body)...)
			w.cancel(t, h.Runtime, operator.Call{State: "streaming", Target: "talks", Revision: "2026-07-28"})
			all := host.Payloads(a.All())
			if len(all) != 2 || !strings.Contains(all[0], "begun") {
				t.Fatalf("the stream is %q", all)
			}
			host.Equal(t, "response", all[1], fault(id))
		},
		"2026-07-28, waiting for its client": func(t *testing.T, h *host.Host, w *runaways) {
			m := h.Stateless(`{"roots":{}}`)
			a, id := m.Tool("asks", `{}`)
			state := m.Parked(a, id, "roots")
			w.cancel(t, h.Runtime, operator.Call{State: "waiting", Target: "asks", Revision: "2026-07-28"})
			for range 2 { // whoever did not get the response asks once more
				a, id = m.Tool("asks", `{}`, state, given)
				host.Equal(t, "response to the request that is sent again", a.Body, fault(id))
			}
		},
		"2026-07-28, sent again": func(t *testing.T, h *host.Host, w *runaways) {
			m := h.Stateless(`{"roots":{}}`)
			a, id := m.Tool("asks", `{}`)
			params := host.ToolParams("asks", `{}`, m.Parked(a, id, "roots"), given)
			first, one := m.Later("tools/call", params)
			synctest.Wait()
			second, two := m.Later("tools/call", params) // waits for the same response
			w.cancel(t, h.Runtime, operator.Call{State: "running", Target: "asks", Revision: "2026-07-28"})
			host.Equal(t, "response", (<-first).Body, fault(one))
			host.Equal(t, "response to the other", (<-second).Body, fault(two))
			third, three := m.Do("tools/call", params)
			host.Equal(t, "response, once more", third.Body, fault(three))
		},
		"2025-11-25, a plain response": func(t *testing.T, h *host.Host, w *runaways) {
			c := h.Session()
			for range 2 {
				later := c.PostLater(host.Call("7", "silent", `{}`))
				w.cancel(t, h.Runtime, operator.Call{State: "running", Target: "silent", Revision: "2025-11-25"})
				host.Equal(t, "response", (<-later).Body, fault("7"))
			}
		},
		"2025-11-25, a stream": func(t *testing.T, h *host.Host, w *runaways) {
			c := h.Session()
			a := c.Post(host.Call("7", "talks", `{}`))
			w.cancel(t, h.Runtime, operator.Call{State: "streaming", Target: "talks", Revision: "2025-11-25"})
			all := a.All()
			got := host.Payloads(all)
			host.Equal(t, "response", got[len(got)-1], fault("7"))
			again := host.Payloads(c.Get(all[0].ID).All()) // it is stored
			host.Equal(t, "response, to a client that resumes", again[len(again)-1], fault("7"))
		},
		"2025-11-25, which asks": func(t *testing.T, h *host.Host, w *runaways) {
			c := h.Session()
			a := c.Post(host.Call("7", "asks", `{}`))
			host.NextQuestion(t, a)
			w.cancel(t, h.Runtime, operator.Call{State: "streaming", Target: "asks", Revision: "2025-11-25"})
			host.Equal(t, "response", host.Last(t, a), fault("7"))
		},
		"2025-03-26, one of a batch": func(t *testing.T, h *host.Host, w *runaways) {
			c := h.BatchingSession()
			later := c.PostLater(host.Batch(host.Call("1", "silent", `{}`), host.Method("2", "ping", "")))
			w.cancel(t, h.Runtime, operator.Call{State: "streaming", Target: "silent", Revision: "2025-03-26"})
			a := <-later
			all := a.Body
			if a.Stream() {
				all = strings.Join(host.Payloads(a.All()), "\n")
			}
			if strings.Count(all, fault("1")) != 1 || strings.Count(all, `"id":2`) != 1 {
				t.Errorf("responses %s", all)
			}
		},
		"2024-11-05, HTTP+SSE": func(t *testing.T, h *host.Host, w *runaways) {
			c := h.SSE()
			c.Handshake("2024-11-05", `{}`)
			c.Post(host.Call("7", "silent", `{}`))
			w.cancel(t, h.Runtime, operator.Call{State: "running", Target: "silent", Revision: "2024-11-05"})
			host.NextEvent(t, "response", c.Stream, fault("7"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				h := host.New(t, troupe.Options{DrainDelay: -1}, nil)
				w := addRunaways(h.Server, troupe.Tool{})
				call(t, h, w)
				close(w.goOn)
				synctest.Wait()
				if n := h.Gauge("troupe.calls.in_flight", ""); n != 0 {
					t.Errorf("%d calls are in flight at the end", n)
				}
			})
		})
	}
}

// given are the answers to the questions of the tool asks.
const given = `"inputResponses":{"roots":{"roots":[]}}`

// TestCancelCallOfAPipe is the same on standard input and output, in both eras.
func TestCancelCallOfAPipe(t *testing.T) {
	t.Parallel()
	kit.Bubble(t, func(t *testing.T) {
		p := host.NewPipe(t, troupe.Options{DrainDelay: -1})
		w := addRunaways(p.Server, troupe.Tool{})
		p.Initialize("2025-11-25")
		p.Send(host.Call("7", "silent", `{}`))
		w.cancel(t, p.Runtime, operator.Call{State: "running", Target: "silent", Revision: "2025-11-25"})
		host.Equal(t, "response", p.Next(), fault("7"))
		close(w.goOn)
	})
}

// TestSlotOfAnEndedCall has a client with one call at a time go on after its call was ended, though the handler never returns.
func TestSlotOfAnEndedCall(t *testing.T) {
	t.Parallel()
	kit.Bubble(t, func(t *testing.T) {
		p := host.NewPipe(t, troupe.Options{DrainDelay: -1, Limits: troupe.Limits{CallsPerSession: 1}})
		w := addRunaways(p.Server, troupe.Tool{})
		p.Initialize("2025-11-25")
		for range 3 {
			p.Send(host.Call("7", "silent", `{}`))
			w.cancel(t, p.Runtime, operator.Call{State: "running", Target: "silent", Revision: "2025-11-25"})
			host.Equal(t, "response", p.Next(), fault("7"))
		}
		close(w.goOn)
	})
}

// TestDrainBesideAnEndedCall: a drain does not wait for a handler whose call was ended.
func TestDrainBesideAnEndedCall(t *testing.T) {
	t.Parallel()
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{DrainDelay: -1, DrainWait: time.Minute}, nil)
		w := addRunaways(h.Server, troupe.Tool{})
		m, c := h.Stateless(`{}`), h.Session()
		stateless, _ := m.Later("tools/call", host.ToolParams("silent", `{}`))
		w.cancel(t, h.Runtime, operator.Call{State: "running", Target: "silent", Revision: "2026-07-28"})
		<-stateless
		session := c.PostLater(host.Call("7", "silent", `{}`))
		w.cancel(t, h.Runtime, operator.Call{State: "running", Target: "silent", Revision: "2025-11-25"})
		<-session
		began := time.Now()
		if err := h.Runtime.Drain(t.Context()); err != nil || time.Since(began) > 10*time.Second {
			t.Errorf("the drain: %v, after %v", err, time.Since(began))
		}
		close(w.goOn)
	})
}
