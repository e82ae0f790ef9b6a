package troupe

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// Method describes a method that the specification does not have.
type Method struct {
	// Name is what requests call it, such as "acme/search": a name of your own before a
	// slash keeps it apart from what other revisions bring.
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
// replaces one of the same name. Params are decoded into In, and those that do not fit are
// refused with -32602; Out encodes as a JSON object. An *mcp.Error goes to the client,
// and any other error is logged and answered with -32603.
//
// Requests count as calls for all limits, become streams, and are cancelled like those of
// tools. A client learns of the method by ServerOptions.Experimental, or by other means. A
// call of it may report progress, log, and, in a session, ask. AddMethod panics for a name
// that the specification has, and for a nil handler.
func AddMethod[In, Out any](s *Server, m Method, handler func(ctx context.Context, call *Call, in In) (Out, error)) {
	must(TryAddMethod(s, m, handler))
}

// TryAddMethod is AddMethod for methods that are not known when the program is written.
func TryAddMethod[In, Out any](s *Server, m Method, handler func(ctx context.Context, call *Call, in In) (Out, error)) error {
	if err := own(m.Name); err != nil {
		return fmt.Errorf("troupe: %w", err)
	}
	if handler == nil {
		return fmt.Errorf("troupe: method %q: %w", m.Name, errNoHandler)
	}
	pretouch(reflect.TypeFor[In](), reflect.TypeFor[Out]())
	s.methods.Store(m.Name, &method{safe: m.Rerun == Safe, run: func(ctx context.Context, call *Call, params []byte) (json.RawMessage, error) {
		var in In
		if err := codec.Unmarshal(orEmpty(params), &in); err != nil {
			return nil, invalidParams(err)
		}
		out, err := handler(ctx, call, in)
		if err != nil {
			return nil, err
		}
		return codec.Marshal(&out)
	}})
	return nil
}

// AddNotification registers a handler of the client's notifications of a name that the
// specification does not have; it replaces one of the same name. It is called in the order
// in which they come from one connection, and must not block. Params that do not fit In
// are dropped. Clients without a session (2026-07-28) have nobody to notify: theirs are
// accepted, and dropped. AddNotification panics for a name that the specification has, and
// for a nil handler.
func AddNotification[In any](s *Server, name string, handler func(p *Peer, in In)) {
	must(TryAddNotification(s, name, handler))
}

// TryAddNotification is AddNotification for notifications that are not known when the
// program is written.
func TryAddNotification[In any](s *Server, name string, handler func(p *Peer, in In)) error {
	if err := own(name); err != nil {
		return fmt.Errorf("troupe: %w", err)
	}
	if handler == nil {
		return fmt.Errorf("troupe: notification %q: %w", name, errNoHandler)
	}
	s.notifications.Store(name, func(p *Peer, params []byte) {
		var in In
		if codec.Unmarshal(orEmpty(params), &in) == nil {
			handler(p, in)
		}
	})
	return nil
}

// own says why the name of a method may not be a program's own.
func own(name string) error {
	if _, taken := mcp.LookupMethod(name); taken || name == "" || strings.HasPrefix(name, "rpc.") {
		return fmt.Errorf("method %q: it is empty, or the specification has it", name)
	}
	return nil
}

// method finds a method of the program's own.
func (s *Server) method(name []byte) (*method, bool) {
	m, ok := s.methods.Load(string(name))
	if !ok {
		return nil, false
	}
	return m.(*method), true
}

// callMethod answers a request of such a method.
func (s *service) callMethod(ctx context.Context, call *Call, h *method, dst []byte) ([]byte, *mcp.Error) {
	m := call.msg
	result, err := h.run(ctx, call, m.Params)
	if err == nil {
		dst, err = s.appendResult(dst, call, result)
	}
	if err != nil {
		return nil, s.failure(call, string(m.Method), err)
	}
	return dst, nil
}

// Notify sends a notification of a name that the specification does not have, with
// params that encode as a JSON object, on the call's stream. An error means that it was
// not sent: the name is the specification's, params do not encode, or the call has ended.
func (c *Call) Notify(ctx context.Context, method string, params any) error {
	raw, err := ownParams(method, params)
	if err != nil {
		return err
	}
	return c.c.Notify(ctx, method, raw)
}

// Notify is Call.Notify outside of a call, on the session's standalone stream. It fails
// with ErrNoStream when the client has never opened one, and for a client without a
// session (2026-07-28); while its connection is away the notification waits for its
// return.
func (p *Peer) Notify(ctx context.Context, method string, params any) error {
	raw, err := ownParams(method, params)
	if err != nil {
		return err
	}
	return p.p.Notify(ctx, method, raw)
}

func ownParams(method string, params any) ([]byte, error) {
	if err := own(method); err != nil {
		return nil, fmt.Errorf("troupe: notify: %w", err)
	}
	raw, err := codec.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("troupe: notify %s: %w", method, err)
	}
	if !isObject(raw) {
		return nil, fmt.Errorf("troupe: notify %s: params are no object", method)
	}
	return raw, nil
}
