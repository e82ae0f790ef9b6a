package mcp

import (
	"errors"
	"fmt"
	"slices"
)

// ErrInexpressible is wrapped by the errors for questions that the client's revision has
// no form for. They were not converted, and must not be sent.
var ErrInexpressible = errors.New("the client's revision cannot express this")

func inexpressible(what string, r Revision) error {
	return fmt.Errorf("mcp: %s to a client of %s: %w", what, r, ErrInexpressible)
}

// For returns the params for a client of the revision. If the revision knows only one
// block per message, a message of several blocks becomes several messages of its role,
// and one without a block is dropped. Tools, and blocks that sampling does not have in
// that revision, are [ErrInexpressible]. Content that [Contents.Check] refuses is an error, too.
func (p CreateMessageParams) For(r Revision) (CreateMessageParams, error) {
	for i, m := range p.Messages {
		if err := m.Content.Blocks.Check(); err != nil {
			return CreateMessageParams{}, fmt.Errorf("mcp: sampling message %d: %w", i, err)
		}
	}
	if r.Has(FeatureSamplingTools) {
		return p.withTools(r), nil
	}
	if len(p.Tools) > 0 || p.ToolChoice != nil {
		return CreateMessageParams{}, inexpressible("sampling with tools", r)
	}
	p.Task = nil
	messages := make([]SamplingMessage, 0, len(p.Messages))
	for _, m := range p.Messages {
		for _, block := range m.Content.Blocks {
			switch b := block.(type) {
			case *ToolUseContent, *ToolResultContent:
				return CreateMessageParams{}, inexpressible(block.contentType()+" content in sampling", r)
			case *AudioContent:
				if !r.Has(FeatureAudio) {
					return CreateMessageParams{}, inexpressible("audio content in sampling", r)
				}
				block, _ = blockFor(b, r)
			default:
				block, _ = blockFor(block, r)
			}
			messages = append(messages, SamplingMessage{Role: m.Role, Content: Blocks(block)})
		}
	}
	p.Messages = messages
	return p, nil
}

// withTools projects to the revisions whose sampling has tools. Since 2026-07-28 a
// question is no request, and has no `_meta` of its own.
func (p CreateMessageParams) withTools(r Revision) CreateMessageParams {
	if r.Stateless() {
		p.Task, p.Meta = nil, nil
	}
	for i := range p.Tools {
		if i == 0 {
			p.Tools = slices.Clone(p.Tools)
		}
		p.Tools[i] = p.Tools[i].For(r)
	}
	messages := p.Messages
	for i, m := range p.Messages {
		blocks := m.Content.Blocks
		for k, block := range m.Content.Blocks {
			b, ok := block.(*ToolResultContent)
			if !ok || b == nil {
				continue
			}
			content, structured := structuredFor(b.Content, b.StructuredContent, r)
			if len(structured) == len(b.StructuredContent) {
				continue
			}
			if same(blocks, m.Content.Blocks) {
				blocks = slices.Clone(blocks)
			}
			c := *b
			c.Content, c.StructuredContent = content, structured
			blocks[k] = &c
		}
		if same(blocks, m.Content.Blocks) {
			continue
		}
		if same(messages, p.Messages) {
			messages = slices.Clone(messages)
		}
		messages[i].Content.Blocks = blocks
	}
	p.Messages = messages
	return p
}

// For returns the form for a client of the revision: see [FormSchema.For]. Before
// 2025-06-18 there are no forms: [ErrInexpressible].
func (e ElicitForm) For(r Revision) (ElicitForm, error) {
	switch {
	case r.Stateless():
		e.Task, e.Meta = nil, nil
		return e, nil
	case r.Has(FeatureURLElicitation):
		return e, nil
	case !r.Has(FeatureElicitation):
		return ElicitForm{}, inexpressible("elicitation", r)
	}
	form, err := ParseFormSchema(e.RequestedSchema)
	if err != nil {
		return ElicitForm{}, err
	}
	if form, err = form.For(r); err != nil {
		return ElicitForm{}, err
	}
	if e.RequestedSchema, err = form.Raw(); err != nil {
		return ElicitForm{}, err
	}
	e.Mode, e.Task = "", nil
	return e, nil
}

// For returns the question for a client of the revision, or [ErrInexpressible] before
// 2025-11-25.
func (e ElicitURL) For(r Revision) (ElicitURL, error) {
	if !r.Has(FeatureURLElicitation) {
		return ElicitURL{}, inexpressible("elicitation by URL", r)
	}
	if r.Stateless() {
		e.ElicitationID, e.Task, e.Meta = "", nil, nil
	}
	return e, nil
}

// For returns the form for a client of the revision. In 2025-06-18 only a boolean has a
// default, a choice with titles is a [LegacyEnumSchema], and a choice of several values
// is [ErrInexpressible]. Fields of no known form pass as they are.
func (f FormSchema) For(r Revision) (FormSchema, error) {
	switch {
	case r.Has(FeatureURLElicitation):
		return f, nil
	case !r.Has(FeatureElicitation):
		return FormSchema{}, inexpressible("elicitation", r)
	}
	f.Schema = ""
	f.Properties = slices.Clone(f.Properties)
	for i, p := range f.Properties {
		switch s := p.Schema.(type) {
		case *StringSchema:
			c := *s
			c.Default = nil
			p.Schema = &c
		case *NumberSchema:
			c := *s
			c.Default = nil
			p.Schema = &c
		case *EnumSchema:
			c := *s
			c.Default = nil
			p.Schema = &c
		case *LegacyEnumSchema:
			c := *s
			c.Default = nil
			p.Schema = &c
		case *TitledEnumSchema:
			c := LegacyEnumSchema{Type: s.Type, Title: s.Title, Description: s.Description}
			for _, o := range s.OneOf {
				c.Enum, c.EnumNames = append(c.Enum, o.Const), append(c.EnumNames, o.Title)
			}
			p.Schema = &c
		case *MultiEnumSchema, *TitledMultiEnumSchema:
			return FormSchema{}, inexpressible(fmt.Sprintf("a choice of several values (field %q)", p.Name), r)
		}
		f.Properties[i] = p
	}
	return f, nil
}
