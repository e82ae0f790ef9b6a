package hosting

import (
	"context"
	"net/http"

	"github.com/troupe-run/troupe/internal/backend"
	"github.com/troupe-run/troupe/internal/upstream"
	"github.com/troupe-run/troupe/mcp"
)

// Backends run the backends of a node: see [backend.Backends], of which [BackendsFrom] makes one.
type Backends interface {
	// Call asks a backend. The error is a *[backend.Error], or the cause of the end of ctx. It begins an instance where there is none, but for
	// logging/setLevel and resources/unsubscribe.
	Call(ctx context.Context, name string, c backend.Caller, q Asked) (upstream.Response, error)
	// Notify sends a notification to the instances of a session, but for those of the newer era.
	Notify(ctx context.Context, name, session, method string, params []byte) error
	// Catalogue is what is known of what a backend lists for a caller. Knows reports whether that is what it lists for such a caller, and
	// not for others alone; Learn waits until it is.
	Catalogue(name string, c backend.Caller) (*backend.Catalogue, bool)
	Knows(name string, c backend.Caller) bool
	Learn(ctx context.Context, name string, c backend.Caller) (*backend.Catalogue, error)
	// Inherit reports whether the caller's instance goes on with what an earlier process, or another node, has left.
	Inherit(ctx context.Context, name string, c backend.Caller) (bool, error)
	// SessionGone says that nobody will call for a session again, or if it has moved, that it is another node's now.
	SessionGone(session string, moved bool)
}

// Asked is what is asked of a backend.
type Asked struct {
	Method string
	Params []byte // an object as raw JSON
	Header http.Header
	Asks   bool   // the backend may ask the caller
	Safe   bool   // it may run once more when its instance is lost
	Level  string // the log level that the caller wants, "" for none
	Key    string // of the call, over the processes that run it; "" for one whose client could come to no other process
	Again  bool   // an earlier process has begun the call
	Sent   func() // called when an instance is about to run it, once for each run
	// Progress gets the params of progress notifications, and Heard what else the backend says to the call. They must not block. A
	// nil Progress asks for none.
	Progress func(params []byte)
	Heard    func(Said)
	// Tasks, Follow and Begun are as in [backend.Request].
	Tasks  bool
	Follow func(ctx context.Context, on Following, answer upstream.Response) (upstream.Response, error)
	Begun  *upstream.Response
}

// Said is what a backend says beside an answer: a notification, or a question.
type Said struct {
	Method   string
	Params   []byte   // an object as raw JSON, or nil
	Question Question // nil for a notification
}

// answer gives a question its answer, whether or not its call goes on.
func (s Said) answer(result []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	return s.Question.Answer(ctx, result)
}

// leaveOpen gives back a question to whose answer the call does not wait any more: it is put to a later call, or refused.
func (s Said) leaveOpen(refusal *mcp.Error) {
	if !s.Question.PutOff() {
		_ = s.refuse(refusal)
	}
}

func (s Said) refuse(refusal *mcp.Error) error {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	return s.Question.Refuse(ctx, refusal)
}

// A Question waits for one answer. After an error the backend does not wait for it any more.
type Question interface {
	Answer(ctx context.Context, result []byte) error
	Refuse(ctx context.Context, refusal *mcp.Error) error
	// PutOff has the question put to a later call, and reports whether it is one that can be: else it is to be refused.
	PutOff() bool
}

// SaidBy is an event of a backend as a Said.
func SaidBy(e backend.Event) Said {
	s := Said{Method: e.Method, Params: e.Params}
	if e.IsQuestion() {
		s.Question = &e
	}
	return s
}

// BackendsFrom returns b as Backends.
func BackendsFrom(b *backend.Backends) Backends { return running{b} }

// running are backends that run.
type running struct{ *backend.Backends }

var _ Backends = running{}

func (r running) Inherit(ctx context.Context, name string, c backend.Caller) (bool, error) {
	return backend.Inherit(ctx, r.Backends, name, c)
}

func (r running) Call(ctx context.Context, name string, c backend.Caller, q Asked) (upstream.Response, error) {
	out := backend.Request{Method: q.Method, Params: q.Params, Header: q.Header, Asks: q.Asks, Safe: q.Safe, Level: q.Level, Key: q.Key, Again: q.Again, Sent: q.Sent, Progress: q.Progress, Tasks: q.Tasks, Begun: q.Begun}
	if q.Follow != nil {
		out.Follow = func(ctx context.Context, on *backend.Following, answer upstream.Response) (upstream.Response, error) {
			return q.Follow(ctx, on, answer)
		}
	}
	if q.Heard != nil {
		out.Event = func(e backend.Event) { q.Heard(SaidBy(e)) }
	}
	return r.Backends.Call(ctx, name, c, out)
}
