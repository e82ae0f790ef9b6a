package hosting

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/backend"
	"github.com/troupe-run/troupe/internal/backend/listing"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/upstream"
	"github.com/troupe-run/troupe/mcp"
)

// A Client is the client of a call, which [actors.Call] is.
type Client interface {
	// Ask puts questions and returns all answers.
	Ask(ctx context.Context, qs []actors.Question) ([]actors.Answer, error)
	// Progress reports progress; params are those of the notification. ProgressToken is the raw token that they must have, nil if the
	// client wants none.
	Progress(ctx context.Context, value float64, params []byte) error
	ProgressToken() []byte
	Notify(ctx context.Context, method string, params []byte) error
}

var _ Client = (*actors.Call)(nil)

// A Request is what a client asks of an item of a backend.
type Request struct {
	Client  Client
	Caller  *Caller
	Item    *Item
	Message *codec.Message
	Key     string      // see Asked
	Again   bool        // an earlier process has begun the call
	Level   string      // the log level that the session has set, or that the request has, "" for none
	Header  http.Header // of the client's request, nil for none; it is only read
	// Log sends a log message with these params, and Missed tells how many were dropped. Complete fills in of a question how its answer is
	// judged, and by whom it is followed.
	Log      func(ctx context.Context, params []byte)
	Missed   func(ctx context.Context, n int)
	Complete func(ctx context.Context, q *actors.Question)
	// Remember stores a value for later runs of the call, by a name that this run has not used, and returns that of an earlier run if there
	// is one.
	Remember func(ctx context.Context, name string, value []byte) ([]byte, error)
	// Task has the backend make tasks of calls of tools; nil has it make none.
	Task Task
	// Hit notes that the call has hit a limit; it must not block. nil notes nothing.
	Hit func(*limits.Row)
}

// Faults of a backend that its client learns of.
var (
	errRounds = errors.New("the backend asks again and again")
	errKind   = errors.New("the backend answered with a result of a type that nobody has asked for")
	errInput  = errors.New("the backend asks for input that cannot be read")
)

// mostRounds is how often a backend may answer a request with questions.
var mostRounds = limits.BackendRounds.Value()

// firstPause is how long the first request of a backend to come again, with nothing to ask, waits. Each further one waits for twice as long.
const firstPause = 100 * time.Millisecond

// Call asks the backend of an item, and returns its result for the client: bytes of the backend, without what the client's revision
// does not have. The error is an *[mcp.Error], which is the client's, or the cause of the end of ctx.
func (s *Server) Call(ctx context.Context, q *Request) ([]byte, error) {
	x := newExchange(ctx, q)
	defer x.close()
	params := paramsOf(q)
	out := Asked{Method: string(q.Message.Method), Header: headerOf(q), Asks: x.mayAsk(), Level: q.Level, Key: q.Key, Again: q.Again, Heard: x.hear, Sent: x.beginRun}
	out.Safe = out.Method != mcp.MethodToolsCall || q.Item.Safe()
	x.given.keeps = out.Safe
	if q.Client.ProgressToken() != nil {
		out.Progress = func(params []byte) { x.hear(Said{Method: mcp.NotifyProgress, Params: params}) }
	}
	out.Params = params
	if err := x.prepareTask(ctx, &out); err != nil {
		return nil, err
	}
	params = out.Params
	for round := 0; ; round++ {
		r, err := s.askBackend(ctx, x, out)
		x.flush(ctx)
		switch fault := x.fault.Load(); {
		case err != nil:
			return nil, callError(ctx, err)
		case fault != nil && errors.Is(*fault, errTaskGone) && out.Safe:
			out.Begun, out.Again = nil, false
			x.fault.Store(nil)
			continue
		case fault != nil && errors.Is(*fault, errTaskGone):
			return nil, mcp.NewError(mcp.CodeCallLost, errTaskGone.Error())
		case fault != nil:
			return nil, callError(ctx, *fault)
		case r.Kind == upstream.Refused && x.insistsOnTask(&r, &out):
			out.Tasks = true
			continue
		case r.Kind == upstream.Refused:
			return nil, errorOf(&r)
		case r.Kind == upstream.Complete:
			return resultFor(out.Method, r.Result, q.Item.revision(), q.Caller.Revision), nil
		case r.Kind != upstream.InputRequired:
			return nil, mcp.NewError(mcp.CodeInternalError, errKind.Error())
		case round == mostRounds:
			x.hit(limits.BackendRounds.Row)
			return nil, mcp.NewError(mcp.CodeInternalError, errRounds.Error())
		}
		out.Again = false
		responses, err := x.gatherInput(ctx, r.Result, round)
		if err != nil {
			return nil, err
		}
		out.Params = WithMember(params, "inputResponses", responses)
		out.Params = WithMember(out.Params, "requestState", codec.Optional(r.Result, "requestState"))
	}
}

// askBackend asks the backend of a call. One that goes on when this process ends is not cancelled by that: the next process has its answer.
func (s *Server) askBackend(ctx context.Context, x *exchange, out Asked) (upstream.Response, error) {
	key, c := x.Item.backend.Key, x.Caller.Caller
	if out.Key == "" {
		return s.backends.Call(ctx, key, c, out)
	}
	calling, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	over := func(why error) { cancel(why) }
	answered := make(chan struct{})
	var r upstream.Response
	var err error
	go func() {
		defer close(answered)
		r, err = s.backends.Call(calling, key, c, out)
	}()
	select {
	case <-answered:
	case <-ctx.Done():
		if errors.Is(context.Cause(ctx), actors.ErrClosing) {
			x.leave()
			return upstream.Response{}, context.Cause(ctx)
		}
		over(context.Cause(ctx))
		<-answered
	}
	over(nil)
	return r, err
}

// callError is the error of a call that its backend has not answered.
func callError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e, ok := errors.AsType[*backend.Error](err); ok {
		return e.Wire()
	}
	return err
}

// paramsOf returns the params for the backend: those of the client, with the name by which the backend knows the item, and without
// what is between the client and us.
func paramsOf(q *Request) []byte {
	params := q.Message.Params
	if params == nil {
		params = []byte("{}")
	}
	params = Without(params, "inputResponses", "requestState", "task")
	if q.Item.Own == q.Item.Name || q.Item.Of != listing.Tools && q.Item.Of != listing.Prompts {
		return params
	}
	if string(q.Message.Method) == mcp.MethodCompletionComplete {
		return WithMember(params, "ref", WithMember(codec.Field(params, "ref"), "name", quoted(q.Item.Own)))
	}
	return WithMember(params, "name", quoted(q.Item.Own))
}

// headerOf returns the headers for the backend: those of the client that its configuration names, and those that repeat arguments.
func headerOf(q *Request) http.Header {
	m := q.Item.backend
	if !m.URL {
		return nil
	}
	var out http.Header
	if q.Item.Of == listing.Tools && q.Item.listed() != nil {
		params, err := upstream.HeaderParams(codec.Field(q.Item.Raw, "inputSchema"))
		if err == nil { // else the backend is of an older revision, which knows nothing of such headers
			out = upstream.ParamHeaders(params, q.Message.Arguments)
		}
	}
	for _, name := range m.Options.PassHeaders {
		if values := q.Header.Values(name); len(values) > 0 {
			if out == nil {
				out = make(http.Header)
			}
			out[http.CanonicalHeaderKey(name)] = slices.Clone(values)
		}
	}
	return out
}
