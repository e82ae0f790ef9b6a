package troupe

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// What a client asks for by the URI of a resource.

func (s *service) readResource(ctx context.Context, call *Call, m *codec.Message, dst []byte) ([]byte, *mcp.Error) {
	uri, bad := s.resourceURI(m)
	if bad != nil {
		return nil, bad
	}
	handler, vars := s.srv.reader(call.view(), uri)
	if handler == nil {
		return nil, notFound(uri)
	}
	contents, err := handler(ctx, call, uri, vars)
	if errors.Is(err, ErrNotFound) {
		return nil, notFound(uri)
	}
	if err != nil {
		return s.unfinished(dst, call, "resources/read", err)
	}
	return s.encode(dst, call, m, s.readCache(call, m), mcp.ReadResourceResult{Contents: contents}.For(call.revision()))
}

func (s *service) resourceURI(m *codec.Message) (string, *mcp.Error) {
	uri, ok := codec.Str(m.URI)
	if !ok || !absolute(uri) {
		return "", mcp.NewError(mcp.CodeInvalidParams, "uri must be an absolute URI")
	}
	if s.tooLong(uri) {
		return "", mcp.NewError(mcp.CodeInvalidParams, fmt.Sprintf("uri is longer than %d bytes", s.limits.MaxURI))
	}
	return uri, nil
}

// tooLong reports whether uri is longer than Limits.MaxURI, and counts it if so.
func (s *service) tooLong(uri string) bool {
	if len(uri) <= s.limits.MaxURI {
		return false
	}
	s.rt.longURI.Add(1)
	return true
}

// absolute reports whether uri begins with a scheme (RFC 3986, section 3.1).
func absolute(uri string) bool {
	for i, c := range []byte(uri) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		case i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'):
		default:
			return i > 0 && c == ':'
		}
	}
	return false
}

func notFound(uri string) *mcp.Error {
	return mcp.NewError(mcp.CodeResourceNotFound, "resource not found").WithData(mcp.ResourceNotFoundData{URI: uri})
}

// follows reports whether who sees v may hear of updates of a resource: of any there may
// be, unless it may not see them all.
func (s *service) follows(v *view, uri string) bool {
	if v == nil {
		return true
	}
	h, _ := s.srv.reader(v, uri)
	return h != nil
}

func (s *service) subscribe(ctx context.Context, call *Call, m *codec.Message, dst []byte) ([]byte, *mcp.Error) {
	uri, bad := s.resourceURI(m)
	if bad != nil {
		return nil, bad
	}
	var err error
	if string(m.Method) == mcp.MethodResourcesUnsubscribe {
		err = call.peer.p.Unsubscribe(ctx, uri)
	} else {
		if !s.follows(call.view(), uri) {
			return nil, notFound(uri)
		}
		if s.srv.opts.Subscribe != nil {
			if err := s.srv.opts.Subscribe(ctx, call, uri); err != nil {
				return nil, s.failure(call, "resources/subscribe", err)
			}
		}
		if err = call.peer.p.Subscribe(ctx, uri); errors.Is(err, actors.ErrTooManySubscriptions) {
			return nil, mcp.NewError(mcp.CodeInvalidRequest, "the session subscribes to as many resources as it may")
		}
	}
	if err != nil {
		return nil, s.internal(string(m.Method), err)
	}
	return append(dst, '{', '}'), nil
}
