package actors

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/stream"
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

// What waits for the log when the client cancels is dropped: beside what is stored
// by then the log gets the one append that is on its way, and the connection not
// even that.
func TestCancelDropsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flood, stored := make(chan struct{}), make(chan struct{})
		a := newAlone(t, handlerFunc{serve: func(ctx context.Context, c *Call) error {
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

// kinds are those of the entries in the log, of which only one stream may have some.
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

// A stateless call that was cancelled gives its place to the next one of a client that
// waits for its turn.
func TestCancelledStatelessCallGivesItsPlace(t *testing.T) {
	limits := Limits{PerSession: 1}
	inBubble(t, limits, NodeLimits{}, func(t *testing.T, h *held) {
		h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			if string(c.Message().ID) == "1" {
				<-ctx.Done()
			}
			return []byte(`{}`), nil
		}
		h.svc = NewService("s", benchHandler{h.handler}, limits)
		c := &heldConn{}
		in := Input{Tenant: "anon", Conn: c, Patient: true}
		h.Connect(h.svc, &in)
		in.Session = c.name
		post := func(body string, stateless bool) {
			var m codec.Message
			if err := codec.Scan([]byte(body), &m, codec.Limits{}); err != nil {
				t.Fatal(err)
			}
			own := in
			own.Stateless = stateless
			h.Message(h.svc, &own, nil, &m, []byte(body))
		}
		call := func(id string) string {
			return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"x",` + statelessMeta + `}}`
		}
		post(call("1"), true)
		post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, false)
		post(call("2"), true)
		synctest.Wait()
		if got := c.read(); len(got) != 1 || !strings.Contains(got[0], `"id":2,"result"`) {
			t.Errorf("got %q", got)
		}
	})
}
