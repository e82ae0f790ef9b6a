package troupe

import (
	"context"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

func (s *service) complete(ctx context.Context, call *Call, m *codec.Message, dst []byte) ([]byte, *mcp.Error) {
	if s.srv.opts.Complete == nil {
		return nil, mcp.NewError(mcp.CodeMethodNotFound, "the server has no completions")
	}
	var p mcp.CompleteParams
	if err := call.decode(ctx, m.Params, &p); err != nil {
		return nil, err
	}
	switch {
	case p.Argument.Name == "":
		return nil, mcp.NewError(mcp.CodeInvalidParams, "completion needs the name of an argument")
	case p.Ref.Type == mcp.RefPrompt:
		if _, ok := call.prompt(p.Ref.Name); !ok {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "Unknown prompt: %s", shown(p.Ref.Name))
		}
	case p.Ref.Type == mcp.RefResource:
		if t, ok := s.srv.templates.get(p.Ref.URI); !ok || !call.view().sees(t.item()) {
			if h, _ := s.srv.reader(call.view(), p.Ref.URI); h == nil {
				return nil, mcp.Errorf(mcp.CodeInvalidParams, "Unknown resource: %s", shown(p.Ref.URI))
			}
		}
	default:
		return nil, mcp.NewError(mcp.CodeInvalidParams, "ref must be of type ref/prompt or ref/resource")
	}
	got, err := s.srv.opts.Complete(ctx, call, p)
	if err != nil {
		return nil, s.failure(call, "completion/complete", err)
	}
	if len(got.Values) > mcp.MaxCompletionValues {
		more := true
		if got.Total == nil {
			total := int64(len(got.Values))
			got.Total = &total
		}
		got.Values, got.HasMore = got.Values[:mcp.MaxCompletionValues], &more
	}
	return s.encode(dst, call, m, nil, mcp.CompleteResult{Completion: got})
}
