package backend

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/kernel"
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
	over    chan struct{} // gets something when it was answered; nil if nobody waits for that
}

// IsQuestion reports whether the backend waits for an answer, of which there must be one: [Event.Answer] or [Event.Refuse].
func (e *Event) IsQuestion() bool { return e.id != nil }

// Session is the key of the session whose instance says it, "" for an instance that is of no session.
func (e *Event) Session() string { return e.in.session() }

// Principal is the key of the principal whose instance says it, "" where nobody says who calls, and for an instance that all share.
func (e *Event) Principal() string { return e.in.principal() }

// Holder is whose instance says it, as [Caller.Holder] has it.
func (e *Event) Holder() string { return e.in.holder() }

// Answer answers a question with a result, an object as raw JSON. After an error the backend does not wait for it any more.
func (e *Event) Answer(ctx context.Context, result []byte) error {
	conn, err := e.in.awaitConn(ctx)
	if err != nil {
		return err
	}
	return e.endQuestion(conn.Answer(ctx, e.id, result))
}

// Refuse answers a question with an error, as Answer does with a result.
func (e *Event) Refuse(ctx context.Context, refusal *mcp.Error) error {
	conn, err := e.in.awaitConn(ctx)
	if err != nil {
		return err
	}
	return e.endQuestion(conn.Refuse(ctx, e.id, refusal))
}

// endQuestion tells who waits for it that a question has its answer, and has the keeper forget it, unless its answer was not sent: then it waits for the next
// process, which has the answer of the client, too.
func (e *Event) endQuestion(err error) error {
	select {
	case e.over <- struct{}{}:
	default:
	}
	if err == nil || errors.Is(err, upstream.ErrNoQuestion) {
		estate{e.in}.forgetQuestion(e.id)
	}
	return err
}

// refuseUnheard refuses a question that belongs to nobody.
func (e *Event) refuseUnheard() {
	if !e.IsQuestion() {
		return
	}
	refusal := mcp.NewError(mcp.CodeInvalidRequest, "no call is running that could be asked")
	e.in.b.runInBackground(func(ctx context.Context) { _ = e.Refuse(ctx, refusal) })
}

// eventOf is what an instance has said.
func (in *instance) eventOf(e upstream.Event) Event {
	return Event{Backend: in.of.Name, Method: e.Method, Params: e.Params, in: in, id: e.ID}
}

// Servers ask for roots when their session has begun, and when they hear that roots have changed: outside of any call, where nobody can be asked. Roots
// that are forwarded are asked of the client of the next call, before that is sent, so that it is served with them.
type (
	// rootsWanted takes the questions that wait for a call.
	rootsWanted struct {
		kernel.Reply
		waiting []Event
	}
	// rootsLate says that an instance has waited for roots for as long as it may before it has listed.
	rootsLate struct{}
)

// Refused leaves none to the call.
func (m *rootsWanted) Refused(error) { m.Done() }

// rootsPatience is how long an instance that has not listed waits for roots. One that lists only when it has them would wait for a call that waits for it.
const rootsPatience = 2 * time.Second

// isForRoots reports whether a backend asks for roots.
func (e *Event) isForRoots() bool { return e.Method == mcp.MethodRootsList && e.IsQuestion() }

// answerByPolicy answers a question for roots that are not forwarded, and reports whether it did.
func (e *Event) answerByPolicy(o *host.Options) bool {
	if !e.isForRoots() || o.Roots.Forward {
		return false
	}
	result := []byte(`{"roots":[]}`)
	if len(o.Roots.List) > 0 {
		raw, err := codec.Marshal(mcp.ListRootsResult{Roots: o.Roots.List})
		if err == nil {
			result = raw
		}
	}
	e.in.b.runInBackground(func(ctx context.Context) { _ = e.Answer(ctx, result) }) // whoever is gone waits for nothing
	return true
}

// A rootAsker is an instance as far as it asks for roots that are forwarded.
type rootAsker struct{ *instance }

// wasToldOfRoots reports whether the instance was told that its clients have roots.
func (in rootAsker) wasToldOfRoots() bool {
	_, capabilities := parseClient(in.kind)
	return codec.Optional(capabilities, "roots") != nil
}

// PutOff has a question for roots that a call has left open be put to the next one. It reports false for any other question, which is to be refused.
func (e *Event) PutOff() bool {
	return e.isForRoots() && e.in.of.Options.Roots.Forward && e.in.Post(&heard{upstream.Event{Method: e.Method, Params: e.Params, ID: e.id}}) == nil
}

// putOff keeps a question for roots for the next call.
func (in rootAsker) putOff(e Event) {
	in.rootQuestions = append(in.rootQuestions, e)
	select {
	case <-in.lists:
	default:
		in.b.c.Clock.AfterFunc(rootsPatience, func() { _ = in.Post(&rootsLate{}) })
	}
}

// refuseQuestions refuses the questions that wait for a call, unless the instance has listed without them.
func (in rootAsker) refuseQuestions() {
	select {
	case <-in.lists:
		return
	default:
	}
	for _, e := range in.rootQuestions {
		e.refuseUnheard()
	}
	in.rootQuestions = nil
}

// forwardQuestions puts the questions for roots that wait for a call to the client of this one, and waits for the answers. The keeper knows nothing of the call
// yet, as it was not sent.
func (in rootAsker) forwardQuestions(ctx context.Context, q *Request) {
	if !in.of.Options.Roots.Forward || !q.Asks || q.Event == nil {
		return
	}
	wanted := new(rootsWanted)
	wanted.Init()
	if in.Post(wanted) != nil {
		return
	}
	wanted.Wait()
	for _, e := range wanted.waiting {
		e.over = make(chan struct{}, 1)
		q.Event(e)
		select {
		case <-e.over:
		case <-ctx.Done():
		case <-in.life.Done():
		}
	}
}
