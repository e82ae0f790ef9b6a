package backend

import (
	"context"
	"errors"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/upstream"
	"github.com/troupe-run/troupe/mcp"
)

// An Event is something that a backend says beside an answer: a notification, or a question.
type Event struct {
	Backend string
	Method  string
	Params  []byte // raw JSON, an object; nil for none
	in      *instance
	id      []byte
}

// Question reports whether the backend waits for an answer, of which there must be one: [Event.Answer] or [Event.Refuse].
func (e *Event) Question() bool { return e.id != nil }

// Session is the key of the session whose instance says it, "" for an instance that is of no session.
func (e *Event) Session() string { return e.in.session() }

// Principal is the key of the principal whose instance says it, "" where nobody says who calls, and for an instance that all share.
func (e *Event) Principal() string { return e.in.principal() }

// Holder is whose instance says it, as [Caller.Holder] has it.
func (e *Event) Holder() string { return e.in.holder() }

// Answer answers a question with a result, an object as raw JSON. After an error the backend does not wait for it any more.
func (e *Event) Answer(ctx context.Context, result []byte) error {
	conn, err := e.in.opened(ctx)
	if err != nil {
		return err
	}
	return e.answered(conn.Answer(ctx, e.id, result))
}

// Refuse answers a question with an error, as Answer does with a result.
func (e *Event) Refuse(ctx context.Context, refusal *mcp.Error) error {
	conn, err := e.in.opened(ctx)
	if err != nil {
		return err
	}
	return e.answered(conn.Refuse(ctx, e.id, refusal))
}

// answered has the keeper forget a question, unless its answer was not sent: then it waits for the next process, which has the answer of
// the client, too.
func (e *Event) answered(err error) error {
	if err == nil || errors.Is(err, upstream.ErrNoQuestion) {
		estate{e.in}.forgetQuestion(e.id)
	}
	return err
}

// byPolicy answers a question that no client has to, and reports whether it did. Whether somebody's call runs decides about roots
// that are forwarded: outside of any call nobody waits for them who could be asked.
func (e *Event) byPolicy(o *host.Options, runs bool) bool {
	if e.Method != mcp.MethodRootsList || !e.Question() || o.Roots.Forward && runs {
		return false
	}
	result := []byte(`{"roots":[]}`)
	if len(o.Roots.List) > 0 {
		raw, err := codec.Marshal(mcp.ListRootsResult{Roots: o.Roots.List})
		if err == nil {
			result = raw
		}
	}
	e.in.b.background(func(ctx context.Context) { _ = e.Answer(ctx, result) }) // whoever is gone waits for nothing
	return true
}

// refuseUnheard refuses a question that belongs to nobody.
func (e *Event) refuseUnheard() {
	if !e.Question() {
		return
	}
	refusal := mcp.NewError(mcp.CodeInvalidRequest, "no call is running that could be asked")
	e.in.b.background(func(ctx context.Context) { _ = e.Refuse(ctx, refusal) })
}

// eventOf is what an instance has said.
func (in *instance) eventOf(e upstream.Event) Event {
	return Event{Backend: in.of.Name, Method: e.Method, Params: e.Params, in: in, id: e.ID}
}
