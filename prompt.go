package troupe

import (
	"context"
	"fmt"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
)

// Prompt describes a prompt. Name and Description should be set.
type Prompt struct {
	Name        string
	Title       string
	Description string
	Arguments   []mcp.PromptArgument
	Icons       []mcp.Icon
	Meta        mcp.Meta
	Needs       mcp.Capability // see [Tool]
	Scopes      []string       // see [Tool]
}

// PromptHandler makes a prompt from its arguments. Missing required arguments
// are refused before it runs; one that is null counts as missing.
type PromptHandler func(ctx context.Context, call *Call, args map[string]string) (*mcp.GetPromptResult, error)

type prompt struct {
	Prompt
	handler PromptHandler
	needs   []string // scopes, with those of the server
}

func (p *prompt) wire() mcp.Prompt {
	return mcp.Prompt{Name: p.Name, Title: p.Title, Description: p.Description, Arguments: p.Arguments, Icons: p.Icons, Meta: p.Meta}
}

func (p *prompt) item() Item { return Item{Kind: ItemPrompt, Name: p.Name, Meta: p.Meta} }

// AddPrompt registers a prompt; it replaces one of the same name, as [AddTool] does. It panics when the prompt
// lacks a handler, has a name or a scope that AddTool would refuse, has a capability in Needs that no
// question needs, or cannot be encoded.
func AddPrompt(s *Server, p Prompt, handler PromptHandler) { must(s.addPrompt(p, handler, true)) }

// TryAddPrompt is AddPrompt with an error in place of a panic, as [TryAddTool] is [AddTool].
func TryAddPrompt(s *Server, p Prompt, handler PromptHandler) error {
	return s.addPrompt(p, handler, false)
}

// servicePrompts is what a service does with its prompts, and with the completion of arguments.
type servicePrompts struct {
	*service
}

func (s *servicePrompts) getPrompt(ctx context.Context, call *Call, m *codec.Message, dst []byte) ([]byte, *mcp.Error) {
	var params struct {
		Name      string             `json:"name"`
		Arguments map[string]*string `json:"arguments"`
	}
	if err := call.decodeParams(ctx, m.Params, &params); err != nil {
		return nil, err
	}
	if params.Name == "" {
		return nil, mcp.NewError(mcp.CodeInvalidParams, "prompts/get needs the name of a prompt")
	}
	p, ok := call.visiblePrompt(params.Name)
	if !ok {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "Unknown prompt: %s", protocol.Shown(params.Name))
	}
	if err := call.requireScopes(p.needs); err != nil {
		return nil, err
	}
	args := make(map[string]string, len(params.Arguments))
	for name, value := range params.Arguments {
		if value != nil { // null counts as absent
			args[name] = *value
		}
	}
	for _, a := range p.Arguments {
		if _, ok := args[a.Name]; a.Required && !ok {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "missing argument: %s", a.Name)
		}
	}
	if err := refuseLacking(p.Needs, &call.peer); err != nil {
		return nil, err
	}
	result, err := p.handler(ctx, call, args)
	if err == nil {
		err = checkPrompt(result)
	}
	if err != nil {
		return s.respondHandlerError(dst, call, "prompts/get "+p.Name, err)
	}
	out, err := s.appendPrompt(dst, call, result.Typed())
	if err != nil {
		return nil, s.internalError(string(m.Method), err)
	}
	return out, nil
}

// checkPrompt returns an error for a prompt that no client could read.
func checkPrompt(r *mcp.GetPromptResult) error {
	if r == nil {
		return errNoResult
	}
	for i := range r.Messages {
		if err := protocol.CheckPromptMessage(&r.Messages[i]); err != nil {
			return fmt.Errorf("%w: message %d: %w", errBadResult, i, err)
		}
	}
	if err := protocol.CheckMeta(r.Meta); err != nil {
		return fmt.Errorf("%w: %w", errBadResult, err)
	}
	return nil
}

// completeArgument answers completion/complete, for the arguments of a prompt or of a resource template.
func (s *servicePrompts) completeArgument(ctx context.Context, call *Call, m *codec.Message, dst []byte) ([]byte, *mcp.Error) {
	if s.srv.opts.Complete == nil {
		return nil, mcp.NewError(mcp.CodeMethodNotFound, "the server has no completions")
	}
	var p mcp.CompleteParams
	if err := call.decodeParams(ctx, m.Params, &p); err != nil {
		return nil, err
	}
	switch {
	case p.Argument.Name == "":
		return nil, mcp.NewError(mcp.CodeInvalidParams, "completion needs the name of an argument")
	case p.Ref.Type == mcp.RefPrompt:
		if _, ok := call.visiblePrompt(p.Ref.Name); !ok {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "Unknown prompt: %s", protocol.Shown(p.Ref.Name))
		}
	case p.Ref.Type == mcp.RefResource:
		if t, ok := s.srv.templates.Get(p.Ref.URI); !ok || !call.callerView().seesItem(t.item()) {
			if _, ok := s.srv.findReader(call.callerView(), p.Ref.URI); !ok {
				return nil, mcp.Errorf(mcp.CodeInvalidParams, "Unknown resource: %s", protocol.Shown(p.Ref.URI))
			}
		}
	default:
		return nil, mcp.NewError(mcp.CodeInvalidParams, "ref must be of type ref/prompt or ref/resource")
	}
	if refused := call.requireScopes(s.scopes.completionNeeds(call.callerView(), p.Ref.Type, p.Ref.Name, p.Ref.URI)); refused != nil {
		return nil, refused
	}
	got, err := s.srv.opts.Complete(ctx, call, p)
	if err != nil {
		return nil, s.handlerError(&call.peer, "completion/complete", err)
	}
	if len(got.Values) > mcp.MaxCompletionValues {
		more := true
		if got.Total == nil {
			total := int64(len(got.Values))
			got.Total = &total
		}
		got.Values, got.HasMore = got.Values[:mcp.MaxCompletionValues], &more
	}
	return s.encodeResult(dst, call, m, nil, protocol.CompleteResult{Completion: got})
}

// appendPrompt appends a prompt, as the client of the call may see it.
func (s *servicePrompts) appendPrompt(dst []byte, c *Call, x *mcp.GetPromptResult) ([]byte, error) {
	r := c.revision()
	if x = protocol.PromptResultFor(x, r); !r.Stateless() {
		return codec.AppendMarshal(dst, x)
	}
	own, err := rawMeta(x.Meta)
	if err != nil {
		return nil, err
	}
	bare := *x
	bare.Meta, bare.ResultType = nil, ""
	return s.srv.head.appendResult(dst, own, nil, &bare)
}
