package actors

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// attempt is a delivery without a client: one run of a task, which drops the messages of the
// call and stores its result for a later request. It shows what another way of delivery
// takes.
type attempt struct {
	status string // of the task: working, completed, cancelled, or lost with its node
	result string
	seen   []string // messages
	logged atomic.Pointer[logLimiter]
}

var (
	_ delivery = (*attempt)(nil)
	_ client   = (*attempt)(nil)
)

func (a *attempt) openStream() { a.status = "working" }

func (a *attempt) sendEntry(e stream.Entry) {
	a.seen = append(a.seen, string(e.Data))
	e.Drop(nil)
}

func (a *attempt) answerRequest(r response) { a.status, a.result = "completed", string(r.data) }

func (a *attempt) endDelivery(why ending, _ []byte) {
	a.status = map[ending]string{cancelled: "cancelled", givenUp: "lost", broken: "broken"}[why]
}

func (a *attempt) askClient(context.Context, *Call, []Question) ([]Answer, error) {
	return nil, ErrNoStream
}
func (a *attempt) logLimiter() *atomic.Pointer[logLimiter] { return &a.logged }

// begin begins a run of the task for the client of session s, and returns its request.
func (a *attempt) begin(h *held, s *sessionActor, body string) *requestActor {
	h.t.Helper()
	var m codec.Message
	if err := codec.Scan([]byte(body), &m, codec.Limits{}); err != nil {
		h.t.Fatal(err)
	}
	r := h.calls.takeActor(h.takeovers.countRerun(s.key.Tenant))
	w := way{delivery: a, grace: time.Second, table: sessionTable{s}, client: a, pace: noPacer{}, returns: true}
	sessionCalls{s}.beginRequest(r, w, &m, []byte(body), newCall(nil, &Input{}))
	if err := r.enterTable(0); err != nil {
		h.t.Fatal(err)
	}
	go r.serveRequest()
	return r
}

func TestAttempt(t *testing.T) {
	for name, tt := range map[string]struct {
		handler func(ctx context.Context, c *Call) error
		then    func(h *held, session string)
		status  string
		seen    int
	}{
		"a result": {func(ctx context.Context, c *Call) error {
			time.Sleep(time.Minute)
			return c.Notify(ctx, "x", nil)
		}, func(*held, string) { time.Sleep(time.Hour / 2) }, "completed", 1},
		"a long run": {func(ctx context.Context, _ *Call) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}, func(*held, string) { time.Sleep(time.Minute) }, "working", 0},
		"a question": {func(ctx context.Context, c *Call) error {
			_, err := c.Ask(ctx, []Question{{Key: "k"}})
			if !errors.Is(err, ErrNoStream) {
				return nil
			}
			return err
		}, func(*held, string) {}, "completed", 0},
		"a cancel": {func(ctx context.Context, _ *Call) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}, func(h *held, session string) {
			h.post(session, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		}, "cancelled", 0},
		"a node that stops": {func(ctx context.Context, _ *Call) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}, func(h *held, _ string) { drainer{h.Node}.giveUp(context.Background()) }, "lost", 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
					if err := tt.handler(ctx, c); err != nil {
						return nil, &mcp.Error{Code: mcp.CodeInternalError, Message: err.Error()}
					}
					return []byte(`{}`), nil
				}
				session := h.begin("2025-11-25")
				a := &attempt{}
				a.begin(h, h.peerOf(session).last.Load(), message("1", "x"))
				synctest.Wait()
				tt.then(h, session)
				synctest.Wait()
				if a.status != tt.status || len(a.seen) != tt.seen {
					t.Errorf("status %q, messages %q", a.status, a.seen)
				}
				if tt.status == "completed" && !strings.HasPrefix(a.result, `{"jsonrpc":"2.0","id":1,`) {
					t.Errorf("result %q", a.result)
				}
			})
		})
	}
}

// TestWays takes one call through each way of delivery, and checks what its client gets.
func TestWays(t *testing.T) {
	answer := func(result string) string { return `{"jsonrpc":"2.0","id":1,"result":` + result + `}` }
	const event, lost = `{"jsonrpc":"2.0","method":"x"}`, `-32010`
	quick := func(context.Context, *Call) ([]byte, *mcp.Error) { return []byte(`{}`), nil }
	long := func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
		_ = c.Notify(ctx, "x", nil)
		select {
		case <-ctx.Done():
		case <-time.After(time.Hour / 2):
		}
		return []byte(`{}`), nil
	}
	slow := func(ctx context.Context, _ *Call) ([]byte, *mcp.Error) {
		<-ctx.Done()
		return nil, &mcp.Error{Code: mcp.CodeInternalError, Message: "too late"}
	}
	giveUp := func(h *held) { drainer{h.Node}.giveUp(context.Background()) }
	wait := func(*held) { time.Sleep(time.Hour) }
	for name, tt := range map[string]struct {
		handler               func(context.Context, *Call) ([]byte, *mcp.Error)
		then                  func(*held)
		logged, direct, bound []string // parts of the messages that the client gets; a response that is not a stream comes first
	}{
		"a quick answer":                    {quick, wait, []string{answer("{}")}, []string{answer("{}")}, []string{answer("{}")}},
		"a message and an answer":           {long, wait, []string{event, answer("{}")}, []string{event, answer("{}")}, []string{event, answer("{}")}},
		"given up before anything was sent": {slow, giveUp, []string{"try again"}, []string{lost}, []string{lost}},
		"given up after a message":          {long, giveUp, []string{event, lost}, []string{event, lost}, []string{event, lost}},
	} {
		ways := map[string]struct {
			want []string
			post func(h *held) *heldConn
		}{
			"logged": {tt.logged, func(h *held) *heldConn {
				c, session := &heldConn{}, h.begin("2025-11-25")
				go h.postOn(c, session, message("1", "x"))
				return c
			}},
			"direct": {tt.direct, func(h *held) *heldConn {
				c, in := &heldConn{}, h.input("", "192.0.2.1", nil)
				in.Conn, in.Stateless, in.Exchange = c, true, c
				body := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x",` + statelessMeta + `}}`)
				var m codec.Message
				if err := codec.Scan(body, &m, codec.Limits{}); err != nil {
					h.t.Fatal(err)
				}
				go h.Post(h.svc, in, nil, &m, body)
				return c
			}},
			"bound": {tt.bound, func(h *held) *heldConn {
				c := h.connect("192.0.2.1", "2024-11-05")
				c.read()
				h.post(c.name, message("1", "x"))
				return c
			}},
		}
		for way, w := range ways {
			t.Run(way+"/"+name, func(t *testing.T) {
				inBubble(t, Limits{Grace: 10 * time.Second}, NodeLimits{}, func(t *testing.T, h *held) {
					h.svc = NewService("s", benchHandler{h.handler}, Limits{Grace: 10 * time.Second})
					h.handler.f = tt.handler
					c := w.post(h)
					synctest.Wait()
					tt.then(h)
					synctest.Wait()
					got := c.events()
					if status, body := c.answer(); status != 0 {
						got = append([]string{body}, got...)
					}
					if !slices.EqualFunc(got, w.want, strings.Contains) {
						t.Errorf("got %q, want %q", got, w.want)
					}
				})
			})
		}
	}
}
