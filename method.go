package troupe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/catalogue"
	"github.com/troupe-run/troupe/mcp"
)

// Method describes a method that the specification does not have.
type Method struct {
	// Name is the name in requests, such as "acme/search": a name of your own before a
	// slash keeps the method apart from the methods of other revisions.
	Name string
	// Rerun says whether a request may run again after a crash. RerunDefault is Never.
	Rerun Rerun
}

type method struct {
	safe bool
	// run returns the result as JSON.
	run func(ctx context.Context, call *Call, params []byte) (json.RawMessage, error)
}

// AddMethod registers the handler of a method that the specification does not have; it
// replaces one of the same name. Params are decoded into In; params that do not fit are
// refused with -32602. Out must encode as a JSON object. An *mcp.Error goes to the client.
// Any other error is logged and answered with -32603.
//
// Requests of the method count as calls for all limits, become streams, and can be
// cancelled, like calls of tools. A client learns of the method from
// ServerOptions.Experimental, or by other means. A call may report progress, log, and, in
// a session, ask. AddMethod panics for a name that the specification has, and for a nil
// handler.
func AddMethod[In, Out any](s *Server, m Method, handler func(ctx context.Context, call *Call, in In) (Out, error)) {
	must(addMethod(s, m, handler, true))
}

// TryAddMethod is AddMethod with an error in place of a panic, as [TryAddTool] is [AddTool].
func TryAddMethod[In, Out any](s *Server, m Method, handler func(ctx context.Context, call *Call, in In) (Out, error)) error {
	return addMethod(s, m, handler, false)
}

func addMethod[In, Out any](s *Server, m Method, handler func(ctx context.Context, call *Call, in In) (Out, error), replace bool) error {
	if err := checkOwnName(m.Name); err != nil {
		return fmt.Errorf("troupe: %w", err)
	}
	if handler == nil {
		return fmt.Errorf("troupe: method %q: %w", m.Name, errNoHandler)
	}
	if s == nil {
		return fmt.Errorf("troupe: method %q: %w", m.Name, errNoServer)
	}
	precompileTypes(reflect.TypeFor[In](), reflect.TypeFor[Out]())
	return registerHandler(s, &s.methods, "method", m.Name, replace, &method{safe: m.Rerun == Safe, run: func(ctx context.Context, call *Call, params []byte) (json.RawMessage, error) {
		var in In
		if err := call.decodeParams(ctx, params, &in); err != nil {
			return nil, err
		}
		out, err := handler(ctx, call, in)
		if err != nil {
			return nil, err
		}
		return codec.Marshal(&out)
	}})
}

// AddNotification registers a handler of the client's notifications of a name that the
// specification does not have; it replaces one of the same name. The handler gets the
// notifications of one connection in their order, and must not block. Notifications whose
// params do not fit In are dropped. So are those of stateless clients (2026-07-28), which
// have no session that they could notify. AddNotification panics for a name that the
// specification has, and for a nil handler.
func AddNotification[In any](s *Server, name string, handler func(p *Peer, in In)) {
	must(addNotification(s, name, handler, true))
}

// TryAddNotification is AddNotification with an error in place of a panic, as [TryAddTool]
// is [AddTool].
func TryAddNotification[In any](s *Server, name string, handler func(p *Peer, in In)) error {
	return addNotification(s, name, handler, false)
}

func addNotification[In any](s *Server, name string, handler func(p *Peer, in In), replace bool) error {
	if err := checkOwnName(name); err != nil {
		return fmt.Errorf("troupe: %w", err)
	}
	if handler == nil {
		return fmt.Errorf("troupe: notification %q: %w", name, errNoHandler)
	}
	if s == nil {
		return fmt.Errorf("troupe: notification %q: %w", name, errNoServer)
	}
	return registerHandler(s, &s.notifications, "notification", name, replace, func(p *Peer, params []byte) {
		var in In
		if codec.Unmarshal(orEmpty(params), &in) == nil {
			handler(p, in)
		}
	})
}

// registerHandler adds a method or the handler of a notification. One of the same name is replaced, or refused unless replace is set.
func registerHandler(s *Server, to *sync.Map, kind, name string, replace bool, v any) error {
	if !replace {
		if _, taken := to.LoadOrStore(name, v); taken {
			return fmt.Errorf("troupe: %s %w", kind, catalogue.ErrTaken(name))
		}
		return nil
	}
	if _, replaced := to.Swap(name, v); replaced {
		s.mount.adviseReplaced(kind, name)
	}
	return nil
}

// serviceMethods runs the middleware of a service, and the methods that the program has added.
type serviceMethods struct {
	*service
	chain  MethodHandler // the middleware; nil if there is none
	layers int           // how many middlewares that are
}

// callMethod answers a request of such a method.
func (s *serviceMethods) callMethod(ctx context.Context, call *Call, h *method, dst []byte) ([]byte, *mcp.Error) {
	m := call.msg
	result, err := h.run(ctx, call, m.Params)
	if err == nil {
		dst, err = s.appendResult(dst, call, result)
	}
	if err != nil {
		return nil, s.handlerError(&call.peer, string(m.Method), err)
	}
	return dst, nil
}

// MethodHandler answers a request of a client. params are its raw params, nil if it has
// none. The result is a JSON object, as the client's revision has it. An *mcp.Error goes
// to the client. Any other error is logged, and the client gets an error without its text.
type MethodHandler func(ctx context.Context, call *Call, method string, params json.RawMessage) (json.RawMessage, error)

// MethodMiddleware wraps the handler of every request of a client, whatever transport it
// came by: those of tools, prompts, resources and completion, logging/setLevel,
// server/discover, ping of a session that has begun, methods of [AddMethod], and unknown
// methods. It does not see initialize (see ServerOptions.SessionBegan),
// subscriptions/listen (see ServerOptions.Subscribe) and notifications.
//
// A middleware may refuse a request, answer it itself, and pass on other params. It may
// not pass on another method or another tool: it is already settled whether the call may
// run again after a crash. For clients of 2026-07-28 the Runtime adds resultType and
// `_meta` to a result that lacks them. A middleware may call next several times, also at
// once. Each of these calls must return before the middleware does. After that, next fails,
// also while the middleware runs once more for the same request: the context tells the runs
// apart. With a context that is not derived from the run's own, next fails once no run is
// left.
//
// A middleware costs copies of each request's params and result.
//
// New and NewServer refuse a middleware that is nil, Mount one that returns a nil handler.
type MethodMiddleware func(next MethodHandler) MethodHandler

// withLayer returns the middleware m with its index in passing.running: the next that m gets
// fails once m has returned. It returns nil if m does.
func withLayer(place int, m MethodMiddleware, next MethodHandler) MethodHandler {
	inner := m(func(ctx context.Context, call *Call, method string, params json.RawMessage) (json.RawMessage, error) {
		p := call.passing
		if p.over.Load() || p.running[place].Load() == 0 {
			return nil, errOver
		}
		if run, ok := ctx.Value(&p.running[place]).(*layerRun); ok && run.over.Load() {
			return nil, errOver
		}
		return next(ctx, call, method, params)
	})
	if inner == nil {
		return nil
	}
	return func(ctx context.Context, call *Call, method string, params json.RawMessage) (json.RawMessage, error) {
		run := &layerRun{Context: ctx, of: &call.passing.running[place]}
		run.of.Add(1)
		defer func() {
			run.over.Store(true)
			run.of.Add(-1)
		}()
		return inner(run, call, method, params)
	}
}

// layerRun is the context of one run of a middleware, by which next finds out that the run
// is over.
type layerRun struct {
	context.Context
	of   *atomic.Int32 // the middleware and the request, as the key of Value
	over atomic.Bool   // the middleware has returned
}

func (r *layerRun) Value(key any) any {
	if key == any(r.of) {
		return r
	}
	return r.Context.Value(key)
}

// noneOf reports a nil middleware in the option of that name.
func noneOf(option string, all []MethodMiddleware) error {
	for i, m := range all {
		if m == nil {
			return fmt.Errorf("%s[%d] is nil", option, i)
		}
	}
	return nil
}

// buildChain returns the middleware of a server around s.answerMethod: around, the Runtime's, first, and of
// each the first one outermost. It returns nil if there is none. A middleware that returns
// nil is an error: to skip it would skip the middleware inside it, too, which may guard the
// server.
func (s *serviceMethods) buildChain(around []MethodMiddleware) (h MethodHandler, _ error) {
	wrap := func(of string, all []MethodMiddleware) error {
		for i := len(all) - 1; i >= 0; i-- {
			if h == nil {
				h = s.answerMethod
			}
			if h = withLayer(s.layers, all[i], h); h == nil {
				return fmt.Errorf("troupe: the server %q: %s.MethodMiddleware[%d] returns a nil handler", s.id, of, i)
			}
			s.layers++
		}
		return nil
	}
	if err := wrap("ServerOptions", s.srv.opts.MethodMiddleware); err != nil {
		return nil, err
	}
	if err := wrap("Options", around); err != nil {
		return nil, err
	}
	return h, nil
}

// serveChained answers a request with the middleware.
func (s *serviceMethods) serveChained(ctx context.Context, call *Call, dst []byte) (out []byte, code int, _ *mcp.Error) {
	m := call.msg
	method := string(m.Method)
	result, err := s.passOn(ctx, call, method, bytes.Clone(m.Params))
	if err == nil {
		out, err = s.appendResult(dst, call, result)
	}
	if err != nil {
		return nil, 0, s.handlerError(&call.peer, method, err)
	}
	if method == mcp.MethodToolsCall && string(codec.Optional(result, "isError")) == "true" {
		code = 1
	}
	return out, code, nil
}

// passOn runs the middleware. Once it has returned or panicked, next fails.
func (s *serviceMethods) passOn(ctx context.Context, call *Call, method string, params json.RawMessage) (result json.RawMessage, err error) {
	call.passing = &passing{outer: call, running: make([]atomic.Int32, s.layers)}
	returned := false
	defer func() {
		call.passing.over.Store(true)
		if !returned { // it may panic, or end the goroutine, after the handler has returned
			concludeTask(call, brokenResult)
		}
	}()
	result, err = s.chain(ctx, call, method, params)
	returned = true
	return result, err
}

// errChanged reports a middleware that passes on another method or tool.
var errChanged = errors.New("troupe: a middleware passed on another method, or the name of another tool")

// errOver is the error of a next that is called once its middleware has returned.
var errOver = errors.New("troupe: a middleware called next after it had returned")

// answerMethod is the innermost handler.
func (s *serviceMethods) answerMethod(ctx context.Context, call *Call, method string, params json.RawMessage) (json.RawMessage, error) {
	if call.passing.over.Load() {
		return nil, errOver // the bytes of the request may be another's by now
	}
	m := call.msg
	if method != string(m.Method) {
		return nil, errChanged
	}
	if !bytes.Equal(params, m.Params) {
		changed, err := withParams(m, params, s.svc.Limits.Depth)
		if err != nil {
			return nil, err
		}
		if method == mcp.MethodToolsCall && !bytes.Equal(changed.Name, m.Name) {
			return nil, errChanged
		}
		outer := call
		call = &Call{request: outer.request, passing: outer.passing} // a middleware may call next several times at once
		call.msg = changed
		ctx = beginContext(ctx, call)
		defer func() {
			if call.dropped.Load() {
				outer.dropped.Store(true)
			}
		}()
	}
	var t *tool
	if method == mcp.MethodToolsCall {
		t, _ = s.tools.findTool(call.msg.Name)
	}
	out, _, err := s.dispatchCall(ctx, call, t, nil)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// withParams returns the request with other params, which may be nested to a depth.
func withParams(m *codec.Message, params json.RawMessage, depth int) (*codec.Message, error) {
	if len(params) > 0 && (!codec.Valid(params) || !isObject(bytes.TrimSpace(params))) {
		return nil, errors.New("troupe: a middleware passed on params that are no object")
	}
	raw := append([]byte(`{"jsonrpc":"2.0","id":`), m.ID...)
	raw = append(raw, `,"method":`...)
	raw = codec.AppendString(raw, string(m.Method))
	if len(params) > 0 {
		raw = append(raw, `,"params":`...)
		raw = append(raw, params...)
	}
	changed := new(codec.Message)
	if err := codec.Scan(append(raw, '}'), changed, codec.Limits{MaxDepth: depth}); err != nil {
		return nil, fmt.Errorf("troupe: a middleware passed on params that cannot be read: %w", err)
	}
	return changed, nil
}

// appendResult appends the result that a middleware or the handler of a method gave.
func (s *serviceMethods) appendResult(dst []byte, call *Call, result json.RawMessage) ([]byte, error) {
	if result = bytes.TrimSpace(result); !codec.Valid(result) || !isObject(result) {
		return nil, fmt.Errorf("%w: it is no object", errBadResult)
	}
	own := codec.Optional(result, "_meta")
	typed := codec.Optional(result, "resultType") != nil
	switch {
	case !call.revision().Stateless() || typed && own != nil:
		return codec.AppendCompact(dst, result), nil
	case own == nil && !typed:
		return s.srv.head.appendResult(dst, nil, nil, json.RawMessage(codec.AppendCompact(nil, result)))
	}
	var members map[string]json.RawMessage
	if err := codec.Unmarshal(result, &members); err != nil {
		return nil, err
	}
	if typed {
		members["_meta"] = s.svc.ResultMeta
		return codec.AppendMarshal(dst, members)
	}
	delete(members, "_meta")
	return s.srv.head.appendResult(dst, own, nil, members)
}
