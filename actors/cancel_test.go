package actors

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// handlerFunc serves every request in the same way.
type handlerFunc struct {
	plainHandler
	serve func(ctx context.Context, c *Call) error
}

func (h handlerFunc) Serve(ctx context.Context, c *Call, dst []byte) ([]byte, *mcp.Error) {
	if err := h.serve(ctx, c); err != nil {
		return nil, &mcp.Error{Code: mcp.CodeInternalError, Message: err.Error()}
	}
	return append(dst, "{}"...), nil
}

// TestCancelDropsWhatWaits checks that the stream drops the entries that wait for the log
// when the client cancels. The log gets only the append that is on its way, and the
// connection not even that one.
func TestCancelDropsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flood, stored := make(chan struct{}), make(chan struct{})
		a := newStatelessNode(t, handlerFunc{serve: func(ctx context.Context, c *Call) error {
			for i := range 1000 {
				if i == 1 {
					<-flood
				}
				if err := c.Notify(ctx, "x", nil); err != nil {
					return err
				}
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}})
		h := a.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`)
		synctest.Wait()
		a.store.before = func(op, _ string) error {
			if op == "Append" {
				<-stored
			}
			return nil
		}
		close(flood)
		synctest.Wait()
		cancel := a.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		synctest.Wait()
		if status, _, _ := cancel.now(); status != 0 {
			t.Errorf("the cancel was answered %d before the log had its end", status)
		}
		close(stored)
		synctest.Wait()
		if status, _, _ := cancel.now(); status != 202 {
			t.Errorf("the cancel was answered %d", status)
		}
		if status, live, events := h.now(); status != 200 || live || len(events) != 1 {
			t.Errorf("the call: status %d, live %v, %d events, want 1", status, live, len(events))
		}
		if diff := cmp.Diff([]stream.Kind{stream.Message, stream.Message, stream.End}, a.store.kinds(t)); diff != "" {
			t.Errorf("the log (-want +got):\n%s", diff)
		}
	})
}

// kinds returns the kinds of the entries in the log. Only one stream may have entries.
func (m *memory) kinds(t *testing.T) (all []stream.Kind) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.appends) != 1 {
		t.Fatalf("%d streams have a log", len(m.appends))
	}
	for _, log := range m.appends {
		var rd stream.Reader
		for num := range uint64(len(log)) {
			a, _, err := rd.Add(num+1, log[num+1])
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range a.Entries {
				all = append(all, e.Kind)
			}
		}
	}
	return all
}

// patientConn is a connection for stateless requests whose client waits until it may send.
type patientConn struct {
	*heldConn
	h  *held
	in Input
}

// patient connects a patientConn to a service whose tools may ask.
func (h *held) patient(l Limits) *patientConn {
	h.svc = NewService("s", benchHandler{h.handler}, l)
	h.mrtr.keys = benchKeys{}
	c := &patientConn{heldConn: &heldConn{}, h: h}
	c.in = Input{Tenant: "anon", Conn: c.heldConn, Patient: true}
	h.Connect(h.svc, &c.in)
	c.in.Session = c.name
	return c
}

func (c *patientConn) post(body string, stateless bool) {
	c.h.t.Helper()
	var m codec.Message
	if err := codec.Scan([]byte(body), &m, codec.Limits{}); err != nil {
		c.h.t.Fatal(err)
	}
	in := c.in
	in.Stateless = stateless
	c.h.Message(c.h.svc, &in, nil, &m, []byte(body))
}

// call sends a call of a tool; more are members of its params.
func (c *patientConn) call(id, more string) { c.post(toolCall(id, more), true) }

// onlyBound is the one bound session of the node.
func (h *held) onlyBound() (only *boundConn) {
	h.bound.Each(func(l *boundConn) { only = l })
	return only
}

func (c *patientConn) cancel(id string) {
	c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`, false)
}

// places returns how many calls of the client have a place.
func (c *patientConn) places() int { return len(c.h.onlyBound().slots) }

// toolCall is a stateless call of a tool; more are members of its params.
func toolCall(id, more string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"x",` + statelessMeta + more + `}}`
}

// again returns the members of a call that is sent again with the answer to its question.
func again(answer string) string {
	result := codec.Field([]byte(answer), "result")
	var given []string
	for key := range codec.Members(codec.Field(result, "inputRequests")) {
		given = append(given, `"`+string(key)+`":{}`)
	}
	return `,"requestState":` + string(codec.Field(result, "requestState")) + `,"inputResponses":{` + strings.Join(given, ",") + `}`
}

// TestCancelledStatelessCallGivesItsPlace checks that a cancelled stateless call frees its
// place for the next call of a client that waits.
func TestCancelledStatelessCallGivesItsPlace(t *testing.T) {
	limits := Limits{PerSession: 1}
	inBubble(t, limits, NodeLimits{}, func(t *testing.T, h *held) {
		h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			if string(c.Message().ID) == "1" {
				<-ctx.Done()
			}
			return []byte(`{}`), nil
		}
		c := h.patient(limits)
		c.call("1", "")
		c.cancel("1")
		c.call("2", "")
		synctest.Wait()
		if got := c.read(); len(got) != 1 || !strings.Contains(got[0], `"id":2,"result"`) {
			t.Errorf("got %q", got)
		}
	})
}

// TestCancelLeavesTheAnswerToWhoWaitsForTheSame has two requests of a connection wait for
// the response of one call. The cancelled request leaves the response to the other one and
// frees its place. When the other one is cancelled too, the call is cancelled.
func TestCancelLeavesTheAnswerToWhoWaitsForTheSame(t *testing.T) {
	for name, tt := range map[string]struct {
		then func(c *patientConn, finish chan struct{})
		want string // of what comes
	}{
		"it is answered":                   {func(_ *patientConn, finish chan struct{}) { close(finish) }, `"id":3,"result":{}`},
		"it is cancelled":                  {func(c *patientConn, _ chan struct{}) { c.cancel("3") }, ""},
		"the first is cancelled once more": {func(c *patientConn, finish chan struct{}) { c.cancel("2"); close(finish) }, `"id":3,"result":{}`},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				finish := make(chan struct{})
				var ended error
				h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
					if _, err := c.Ask(ctx, []Question{{Key: "k", Method: "elicitation/create"}}); err != nil {
						return nil, &mcp.Error{Code: mcp.CodeInternalError, Message: err.Error()}
					}
					select {
					case <-finish:
					case <-ctx.Done():
						ended = context.Cause(ctx)
					}
					return []byte(`{}`), nil
				}
				c := h.patient(Limits{PerSession: 2})
				c.call("1", "")
				synctest.Wait()
				more := again(c.read()[0])
				c.call("2", more)
				c.call("3", more)
				synctest.Wait()
				if n := c.places(); n != 2 {
					t.Fatalf("two calls have %d places", n)
				}
				c.cancel("2")
				synctest.Wait()
				if n := c.places(); n != 1 || ended != nil {
					t.Errorf("after the first cancel: %d places, the call ended for %v", n, ended)
				}
				tt.then(c, finish)
				synctest.Wait()
				got := strings.Join(c.read(), "\n")
				if (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) || strings.Contains(got, `"id":2`) {
					t.Errorf("got %q, want %q", got, tt.want)
				}
				if tt.want == "" && !errors.Is(ended, ErrCancelled) {
					t.Errorf("the call ended for %v", ended)
				}
				if n := c.places(); n != 0 {
					t.Errorf("%d places are taken though no call runs", n)
				}
			})
		})
	}
}

// TestEndOfASessionEndsWhoWaitsForTheSame gives a call up while a second request waits for
// its response: that request ends too, and all places of the connection are free once the
// handler returns.
func TestEndOfASessionEndsWhoWaitsForTheSame(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		let := make(chan struct{})
		h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			_, _ = c.Ask(ctx, []Question{{Key: "k", Method: "elicitation/create"}})
			<-let // ignores its context
			return []byte(`{}`), nil
		}
		c := h.patient(Limits{PerSession: 2})
		l := h.onlyBound()
		c.call("1", "")
		synctest.Wait()
		more := again(c.read()[0])
		c.call("2", more)
		c.call("3", more)
		synctest.Wait()
		l.endForGood(false)
		synctest.Wait()
		if n := len(l.slots); n != 1 {
			t.Errorf("%d places are taken, want that of the handler", n)
		}
		close(let)
		synctest.Wait()
		if n := len(l.slots); n != 0 {
			t.Errorf("%d places are taken though no call runs", n)
		}
	})
}

// TestMessagesComeToWhoWaitsForTheSame checks that a call whose first client is gone sends
// its messages to the client that waits for the same call.
func TestMessagesComeToWhoWaitsForTheSame(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		let := make(chan struct{})
		h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			if _, err := c.Ask(ctx, []Question{{Key: "k", Method: "elicitation/create"}}); err != nil {
				return nil, &mcp.Error{Code: mcp.CodeInternalError, Message: err.Error()}
			}
			for range 2 {
				_ = c.Notify(ctx, "x", nil)
				<-let
			}
			return []byte(`{}`), nil
		}
		h.svc = NewService("s", benchHandler{h.handler}, Limits{})
		h.mrtr.keys = benchKeys{}
		post := func(c Exchange, body string) {
			in := h.input("", "192.0.2.1", c)
			in.Stateless, in.Exchange = true, c
			var m codec.Message
			if err := codec.Scan([]byte(body), &m, codec.Limits{}); err != nil {
				t.Error(err)
			}
			h.Post(h.svc, in, nil, &m, []byte(body))
		}
		first := &heldConn{}
		post(first, toolCall("1", ""))
		_, asked := first.answer()
		leaver, other := &leavingConn{}, &heldConn{}
		go post(leaver, toolCall("2", again(asked)))
		synctest.Wait()
		go post(other, toolCall("3", again(asked)))
		synctest.Wait()
		leaver.leave()
		synctest.Wait()
		close(let)
		synctest.Wait()
		if got := other.events(); len(got) != 2 || !strings.Contains(got[0], `"method":"x"`) || !strings.Contains(got[1], `"id":3,"result"`) {
			t.Errorf("got %q", got)
		}
	})
}

// leavingConn is an exchange whose client goes when the test calls leave.
type leavingConn struct {
	heldConn
	leave func()
}

func (c *leavingConn) WhenGone(f func()) (stop func() bool) {
	c.leave = f
	return func() bool { return true }
}

// TestCancelledMemberOfABatchHoldsNobodyBack checks that a cancelled request of a batch on
// a connection does not delay the responses of the others until its handler returns.
func TestCancelledMemberOfABatchHoldsNobodyBack(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		let := make(chan struct{})
		h.handler.f = func(_ context.Context, c *Call) ([]byte, *mcp.Error) {
			if string(c.Message().ID) == "1" {
				<-let // ignores its context
			}
			return []byte(`{}`), nil
		}
		c := h.connect("192.0.2.1", "2024-11-05")
		c.read()
		h.post(c.name, "["+message("1", "x")+","+message("2", "x")+"]")
		synctest.Wait()
		h.post(c.name, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		synctest.Wait()
		if got := c.read(); len(got) != 1 || !strings.Contains(got[0], `"id":2,"result"`) {
			t.Errorf("after the cancel: %q", got)
		}
		close(let)
		synctest.Wait()
		if got := c.read(); len(got) != 0 {
			t.Errorf("after the handler has returned: %q", got)
		}
	})
}

// goneSoon is an exchange whose client goes while the watch on it begins.
type goneSoon struct{ *heldConn }

func (goneSoon) WhenGone(f func()) (stop func() bool) {
	go f()
	for range 100 {
		runtime.Gosched() // does not order the two goroutines
	}
	return func() bool { return false }
}

// TestClientThatIsGoneAtOnce checks that a call is cancelled when its client goes while
// the watch on the connection begins. The race detector reports a watch that is read
// before it is set.
func TestClientThatIsGoneAtOnce(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{Principal: PrincipalLimits{Rate: -1}}, func(t *testing.T, h *held) {
		h.handler.f = func(ctx context.Context, _ *Call) ([]byte, *mcp.Error) { <-ctx.Done(); return []byte(`{}`), nil }
		h.svc = NewService("s", benchHandler{h.handler}, Limits{Rate: -1})
		body := []byte(`{"jsonrpc":"2.0","id":1,"method":"x/y","params":{` + statelessMeta + `}}`)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 20 {
					c := goneSoon{&heldConn{}}
					in := Input{Tenant: "anon", Conn: c, Exchange: c, Stateless: true}
					var m codec.Message
					if err := codec.Scan(body, &m, codec.Limits{}); err != nil {
						t.Error(err)
					}
					h.Post(h.svc, &in, nil, &m, body)
				}
			})
		}
		wg.Wait()
	})
}
