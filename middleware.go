package troupe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// MethodHandler answers a request of a client: params are its raw params, nil if it has
// none, and the result is a JSON object, as the client's revision has it. An *mcp.Error
// goes to the client; any other error is logged, and the client learns that something
// went wrong.
type MethodHandler func(ctx context.Context, call *Call, method string, params json.RawMessage) (json.RawMessage, error)

// MethodMiddleware wraps the handler of every request of a client, whatever transport it
// came by: those of tools, prompts, resources and completion, logging/setLevel,
// server/discover, ping in a session, methods of [AddMethod], and methods that nobody
// knows. It is not asked about initialize (see ServerOptions.SessionBegan), about
// subscriptions/listen (see ServerOptions.Subscribe), and about notifications.
//
// It may refuse a request, answer it itself, and pass on other params, but neither
// another method nor another tool, for whether a call may run again after a crash is
// known by then. A result of its own needs no resultType and `_meta` for clients of
// 2026-07-28: what is missing of these is added. It may call next several times, and at
// once; each has to have returned before the middleware does, and next fails once the
// request has been answered.
//
// Requests whose server has a middleware cost some copies of their params and results.
//
// Mount refuses a middleware that is nil or returns a nil handler.
type MethodMiddleware func(next MethodHandler) MethodHandler

// chained is the middleware of a server around s.answer: the Runtime's first, and of
// each the first one outermost. It is nil if there is none. A middleware that is nil or
// returns nil is an error: without its handler those inside of it would be skipped, which
// may be what guards the server.
func (s *service) chained() (h MethodHandler, _ error) {
	wrap := func(of string, all []MethodMiddleware) error {
		for i := len(all) - 1; i >= 0; i-- {
			if h == nil {
				h = s.answer
			}
			if all[i] != nil {
				h = all[i](h)
			}
			if all[i] == nil || h == nil {
				return fmt.Errorf("troupe: the server %q: %s.MethodMiddleware[%d] is nil or returns a nil handler", s.id, of, i)
			}
		}
		return nil
	}
	if err := wrap("ServerOptions", s.srv.opts.MethodMiddleware); err != nil {
		return nil, err
	}
	if err := wrap("Options", s.rt.opts.MethodMiddleware); err != nil {
		return nil, err
	}
	return h, nil
}

// serveChained answers a request by the middleware.
func (s *service) serveChained(ctx context.Context, call *Call, dst []byte) (out []byte, code int, _ *mcp.Error) {
	m := call.msg
	method := string(m.Method)
	result, err := s.chain(ctx, call, method, bytes.Clone(m.Params))
	call.over.Store(true)
	if err == nil {
		out, err = s.appendResult(dst, call, result)
	}
	if err != nil {
		return nil, 0, s.failure(call, method, err)
	}
	if method == mcp.MethodToolsCall && string(codec.Optional(result, "isError")) == "true" {
		code = 1
	}
	return out, code, nil
}

// errChanged reports a middleware that passes on what it must not change.
var errChanged = errors.New("troupe: a middleware passed on another method, or the name of another tool")

// errOver is what next returns that is called after the request has been answered.
var errOver = errors.New("troupe: a middleware called next after it had returned")

// answer is the innermost handler.
func (s *service) answer(ctx context.Context, call *Call, method string, params json.RawMessage) (json.RawMessage, error) {
	if call.over.Load() {
		return nil, errOver
	}
	m := call.msg
	if method != string(m.Method) {
		return nil, errChanged
	}
	if !bytes.Equal(params, m.Params) {
		changed, err := withParams(m, params)
		if err != nil {
			return nil, err
		}
		if method == mcp.MethodToolsCall && !bytes.Equal(changed.Name, m.Name) {
			return nil, errChanged
		}
		outer := call
		call = outer.with(changed)
		ctx = call.context(ctx)
		defer func() {
			if call.dropped.Load() {
				outer.dropped.Store(true)
			}
		}()
	}
	var t *tool
	if method == mcp.MethodToolsCall {
		t, _ = s.tool(call.msg.Name)
	}
	out, _, err := s.dispatch(ctx, call, t, nil)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// with is the call with other params. It is another one, as a middleware may call next
// several times at once.
func (c *Call) with(m *codec.Message) *Call {
	return &Call{c: c.c, msg: m, svc: c.svc, peer: Peer{c.peer.p}}
}

// withParams is a request with other params.
func withParams(m *codec.Message, params json.RawMessage) (*codec.Message, error) {
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
	if err := codec.Scan(append(raw, '}'), changed, codec.Limits{}); err != nil {
		return nil, fmt.Errorf("troupe: a middleware passed on params that cannot be read: %w", err)
	}
	return changed, nil
}

// appendResult appends the result that a middleware or the handler of a method gave.
func (s *service) appendResult(dst []byte, call *Call, result json.RawMessage) ([]byte, error) {
	if result = bytes.TrimSpace(result); !codec.Valid(result) || !isObject(result) {
		return nil, fmt.Errorf("%w: it is no object", errBadResult)
	}
	own := codec.Optional(result, "_meta")
	typed := codec.Optional(result, "resultType") != nil
	switch {
	case !call.revision().Stateless() || typed && own != nil:
		return codec.AppendCompact(dst, result), nil
	case own == nil && !typed:
		return s.srv.head.append(dst, nil, nil, json.RawMessage(codec.AppendCompact(nil, result)))
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
	return s.srv.head.append(dst, mcp.Meta(own), nil, members)
}
