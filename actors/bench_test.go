package actors

import (
	"context"
	"testing"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// benchConn is a connection that only keeps its answer.
type benchConn struct {
	noConn
	over chan struct{} // has a value when a stream has ended
	body []byte
}

func (c *benchConn) Answer(_ int, body []byte) bool {
	c.body = append(c.body[:0], body...)
	return true
}
func (c *benchConn) Open() bool                              { return true }
func (c *benchConn) Finish()                                 { c.over <- struct{}{} }
func (c *benchConn) Context() context.Context                { return context.Background() }
func (c *benchConn) WhenGone(func()) (stop func() bool)      { return func() bool { return true } }
func (c *benchConn) AnswerLast(status int, body []byte) bool { return c.Answer(status, body) }

// benchHandler serves tools that may ask.
type benchHandler struct{ *heldHandler }

func (benchHandler) MayAsk(method, _ []byte) bool { return string(method) == mcp.MethodToolsCall }

// benchKeys seal nothing.
type benchKeys struct{}

func (benchKeys) Seal(plain, _ []byte) ([]byte, error)  { return plain, nil }
func (benchKeys) Open(sealed, _ []byte) ([]byte, error) { return sealed, nil }
func (benchKeys) Tag([]byte) []byte                     { return nil }

// BenchmarkCall measures a call from the message that the transport has scanned to its
// response, over a store in memory: a call of a session with a plain response and with a
// stream of one event, and a stateless call with and without a question.
func BenchmarkCall(b *testing.B) {
	h := &heldHandler{}
	n := NewNode(Config{Name: "n", Boot: "b", Store: newMemory(), Keys: benchKeys{}, Limits: NodeLimits{Principal: PrincipalLimits{Rate: -1}}})
	b.Cleanup(func() { _ = n.Close(context.Background()) })
	svc := NewService("s", benchHandler{h}, Limits{Rate: -1})
	s, err := n.sessions.createSession(b.Context(), svc, &Input{Tenant: "anon"}, Settled{Revision: "2025-11-25"})
	if err != nil {
		b.Fatal(err)
	}
	run := func(name, body string, in Input, f func(context.Context, *Call) ([]byte, *mcp.Error), after func(b *testing.B, c *benchConn)) {
		b.Run(name, func(b *testing.B) {
			h.f = f
			b.ReportAllocs()
			for b.Loop() {
				c := &benchConn{over: make(chan struct{}, 1)}
				own := in
				own.Conn = c
				own.Stateless, own.Exchange = in.Session == "", c
				var m codec.Message
				if err := codec.Scan([]byte(body), &m, codec.Limits{}); err != nil {
					b.Fatal(err)
				}
				n.Post(svc, &own, nil, &m, []byte(body))
				after(b, c)
			}
		})
	}
	answered := func(b *testing.B, c *benchConn) {
		if len(c.body) == 0 {
			b.Fatal("no answer")
		}
	}
	result := []byte(`{}`)
	plain := func(context.Context, *Call) ([]byte, *mcp.Error) { return result, nil }
	session := Input{Tenant: "anon", Session: s.key.ID}
	run("session/plain", message("1", "x"), session, plain, answered)
	run("session/stream", message("1", "x"), session, func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
		_ = c.Notify(ctx, "x", nil)
		return result, nil
	}, func(_ *testing.B, c *benchConn) { <-c.over })
	const start = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x",` + statelessMeta
	run("stateless/plain", `{"jsonrpc":"2.0","id":1,"method":"x/y","params":{`+statelessMeta+`}}`, Input{Tenant: "anon"}, plain, answered)
	run("stateless/ask", start+`}}`, Input{Tenant: "anon"}, func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
		_, _ = c.Ask(ctx, []Question{{Key: "k", Method: "elicitation/create"}})
		return result, nil
	}, func(b *testing.B, c *benchConn) {
		answered(b, c)
		state := codec.Field(codec.Field(c.body, "result"), "requestState")
		again := start + `,"requestState":` + string(state) + `,"inputResponses":{"k":{}}}}`
		in := Input{Tenant: "anon", Conn: c}
		in.Stateless, in.Exchange = true, c
		var m codec.Message
		if err := codec.Scan([]byte(again), &m, codec.Limits{}); err != nil {
			b.Fatal(err, string(c.body))
		}
		n.Post(svc, &in, nil, &m, []byte(again))
		answered(b, c)
	})
}
