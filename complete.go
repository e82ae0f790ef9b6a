package troupe

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// resultHead is how the results of a server begin for clients since 2026-07-28: what
// they are, and who made them. Older ones have neither.
type resultHead struct {
	start []byte // {"resultType":"complete"
	meta  []byte // "_meta":{…} of a handler that gave none
	info  mcp.Implementation
}

func newResultHead(info mcp.Implementation) resultHead {
	meta, err := codec.AppendMarshal([]byte(`"_meta":`), mcp.Meta(nil).WithServerInfo(info))
	if err != nil {
		panic("troupe: implementation: " + err.Error()) // strings always encode
	}
	return resultHead{[]byte(`{"resultType":"complete"`), meta, info}
}

// begin appends the beginning of a result up to the first of its own members, which
// follows a comma. own is the `_meta` of a handler, cache is nil for results that
// nobody keeps.
func (h *resultHead) begin(dst []byte, own mcp.Meta, cache *Cache) ([]byte, error) {
	dst = append(dst, h.start...)
	if cache != nil {
		dst = cache.appendMembers(append(dst, ','))
	}
	dst = append(dst, ',')
	if len(own) == 0 {
		return append(dst, h.meta...), nil
	}
	if own = bytes.TrimSpace(own); !codec.Valid(own) || !isObject(own) {
		return nil, fmt.Errorf("%w: its _meta is no object", errBadResult)
	}
	dst = append(dst, `"_meta":`...)
	return codec.AppendCompact(dst, own.WithServerInfo(h.info)), nil
}

// append appends a whole result. v encodes as an object without a type, `_meta` and
// what says how long it may be kept.
func (h *resultHead) append(dst []byte, own mcp.Meta, cache *Cache, v any) ([]byte, error) {
	dst, err := h.begin(dst, own, cache)
	if err != nil {
		return nil, err
	}
	at := len(dst)
	if dst, err = codec.AppendMarshal(dst, v); err != nil {
		return nil, err
	}
	if len(dst) == at+len("{}") {
		return append(dst[:at], '}'), nil
	}
	dst[at] = ',' // where the object of v begins
	return dst, nil
}

// unfinished is what the client gets of a handler's error where it may be asked for
// more.
func (s *service) unfinished(dst []byte, call *Call, what string, err error) ([]byte, *mcp.Error) {
	if wire, ok := errors.AsType[*mcp.Error](err); ok && wire != nil {
		return s.wireResult(dst, call, wire)
	}
	if refusal := undeclared(err); refusal != nil {
		return nil, refusal
	}
	return nil, s.internal(what, err)
}

// wireResult is what the client gets of a handler's wire error. One that makes the
// user open URLs first is a result since 2026-07-28, which asks for that: the client
// sends the request again afterwards, as it did before.
func (s *service) wireResult(dst []byte, call *Call, e *mcp.Error) ([]byte, *mcp.Error) {
	r := call.revision()
	e = wireError(call, e)
	if !r.Stateless() || e.Code != mcp.CodeURLElicitationRequired {
		return nil, e
	}
	var urls mcp.URLElicitationRequired
	if err := codec.Unmarshal(e.Data, &urls); err != nil || len(urls.Elicitations) == 0 {
		return nil, e
	}
	questions := make(mcp.InputRequests, len(urls.Elicitations))
	for i, u := range urls.Elicitations {
		key := u.ElicitationID
		if _, taken := questions[key]; taken || key == "" {
			key = "url-" + strconv.Itoa(i+1)
		}
		asked, err := u.For(r)
		if err != nil {
			return nil, s.internal("elicitation", err)
		}
		params, err := codec.Marshal(asked)
		if err != nil {
			return nil, s.internal("elicitation", err)
		}
		questions[key] = mcp.InputRequest{Method: mcp.MethodElicitationCreate, Params: params}
	}
	out, err := s.srv.head.inputRequired(dst, questions, "")
	if err != nil {
		return nil, s.internal("elicitation", err)
	}
	return out, nil
}

// inputRequired appends the result that asks the client, who comes back with state.
func (h *resultHead) inputRequired(dst []byte, questions mcp.InputRequests, state string) ([]byte, error) {
	result := mcp.InputRequired(questions, state)
	result.Meta = result.Meta.WithServerInfo(h.info)
	return codec.AppendMarshal(dst, result)
}

// appendToolResult appends what a tool returned, as the client of the call may see it.
func (c *Call) appendToolResult(dst []byte, x *mcp.CallToolResult) ([]byte, error) {
	r := c.revision()
	if x = x.For(r); !r.Stateless() {
		return codec.AppendMarshal(dst, x)
	}
	own := x.Meta
	if own != nil || x.ResultType != "" {
		bare := *x
		bare.Meta, bare.ResultType = nil, ""
		x = &bare
	}
	return c.svc.srv.head.append(dst, own, nil, x)
}

// appendPrompt is appendToolResult for a prompt.
func (c *Call) appendPrompt(dst []byte, x *mcp.GetPromptResult) ([]byte, error) {
	r := c.revision()
	if x = x.For(r); !r.Stateless() {
		return codec.AppendMarshal(dst, x)
	}
	bare := *x
	bare.Meta, bare.ResultType = nil, ""
	return c.svc.srv.head.append(dst, x.Meta, nil, &bare)
}
