package protocol

import (
	"fmt"
	"slices"

	"github.com/troupe-run/troupe/mcp"
)

func inexpressible(what string, r mcp.Revision) error {
	return fmt.Errorf("mcp: %s to a client of %s: %w", what, r, mcp.ErrInexpressible)
}

// SamplingFor returns the params for a client of the revision. If the revision knows only one block
// per message, a message of several blocks becomes several messages of its role, and one without a
// block is dropped. Tools, and blocks that sampling does not have in that revision, are
// [mcp.ErrInexpressible]. Content that [CheckContents] refuses is an error, too.
func SamplingFor(p mcp.CreateMessageParams, r mcp.Revision) (mcp.CreateMessageParams, error) {
	for i, m := range p.Messages {
		if err := CheckContents(m.Content.Blocks); err != nil {
			return mcp.CreateMessageParams{}, fmt.Errorf("mcp: sampling message %d: %w", i, err)
		}
	}
	if Has(r, FeatureSamplingTools) {
		return samplingWithTools(p, r), nil
	}
	if len(p.Tools) > 0 || p.ToolChoice != nil {
		return mcp.CreateMessageParams{}, inexpressible("sampling with tools", r)
	}
	p.Task = nil
	messages := make([]mcp.SamplingMessage, 0, len(p.Messages))
	for _, m := range p.Messages {
		for _, block := range m.Content.Blocks {
			switch b := block.(type) {
			case *mcp.ToolUseContent, *mcp.ToolResultContent:
				return mcp.CreateMessageParams{}, inexpressible(mcp.ContentType(block)+" content in sampling", r)
			case *mcp.AudioContent:
				if !Has(r, FeatureAudio) {
					return mcp.CreateMessageParams{}, inexpressible("audio content in sampling", r)
				}
				block, _ = blockFor(b, r)
			default:
				block, _ = blockFor(block, r)
			}
			messages = append(messages, mcp.SamplingMessage{Role: m.Role, Content: mcp.Blocks(block)})
		}
	}
	p.Messages = messages
	return p, nil
}

// samplingWithTools projects to the revisions whose sampling has tools. Since 2026-07-28 a question
// is no request, and has no `_meta` of its own.
func samplingWithTools(p mcp.CreateMessageParams, r mcp.Revision) mcp.CreateMessageParams {
	if r.Stateless() {
		p.Task, p.Meta = nil, nil
	}
	for i := range p.Tools {
		if i == 0 {
			p.Tools = slices.Clone(p.Tools)
		}
		p.Tools[i] = ToolFor(p.Tools[i], r)
	}
	messages := p.Messages
	for i, m := range p.Messages {
		blocks := m.Content.Blocks
		for k, block := range m.Content.Blocks {
			b, ok := block.(*mcp.ToolResultContent)
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

// FormQuestionFor returns the form for a client of the revision: see [FormSchemaFor]. Before
// 2025-06-18 there are no forms: [mcp.ErrInexpressible].
func FormQuestionFor(e mcp.ElicitForm, r mcp.Revision) (mcp.ElicitForm, error) {
	switch {
	case r.Stateless():
		e.Task, e.Meta = nil, nil
		return e, nil
	case Has(r, FeatureURLElicitation):
		return e, nil
	case !Has(r, FeatureElicitation):
		return mcp.ElicitForm{}, inexpressible("elicitation", r)
	}
	form, err := mcp.ParseFormSchema(e.RequestedSchema)
	if err != nil {
		return mcp.ElicitForm{}, err
	}
	if form, err = FormSchemaFor(form, r); err != nil {
		return mcp.ElicitForm{}, err
	}
	if e.RequestedSchema, err = form.Raw(); err != nil {
		return mcp.ElicitForm{}, err
	}
	e.Mode, e.Task = "", nil
	return e, nil
}

// URLQuestionFor returns the question for a client of the revision, or [mcp.ErrInexpressible]
// before 2025-11-25.
func URLQuestionFor(e mcp.ElicitURL, r mcp.Revision) (mcp.ElicitURL, error) {
	if !Has(r, FeatureURLElicitation) {
		return mcp.ElicitURL{}, inexpressible("elicitation by URL", r)
	}
	if r.Stateless() {
		e.ElicitationID, e.Task, e.Meta = "", nil, nil
	}
	return e, nil
}

// FormSchemaFor returns the form for a client of the revision. In 2025-06-18 only a boolean has a
// default, a choice with titles is a [mcp.LegacyEnumSchema], and a choice of several values is
// [mcp.ErrInexpressible]. Fields of no known form pass as they are.
func FormSchemaFor(f mcp.FormSchema, r mcp.Revision) (mcp.FormSchema, error) {
	switch {
	case Has(r, FeatureURLElicitation):
		return f, nil
	case !Has(r, FeatureElicitation):
		return mcp.FormSchema{}, inexpressible("elicitation", r)
	}
	f.Schema = ""
	f.Properties = slices.Clone(f.Properties)
	for i, p := range f.Properties {
		switch s := p.Schema.(type) {
		case *mcp.StringSchema:
			c := *s
			c.Default = nil
			p.Schema = &c
		case *mcp.NumberSchema:
			c := *s
			c.Default = nil
			p.Schema = &c
		case *mcp.EnumSchema:
			c := *s
			c.Default = nil
			p.Schema = &c
		case *mcp.LegacyEnumSchema:
			c := *s
			c.Default = nil
			p.Schema = &c
		case *mcp.TitledEnumSchema:
			c := mcp.LegacyEnumSchema{Type: s.Type, Title: s.Title, Description: s.Description}
			for _, o := range s.OneOf {
				c.Enum, c.EnumNames = append(c.Enum, o.Const), append(c.EnumNames, o.Title)
			}
			p.Schema = &c
		case *mcp.MultiEnumSchema, *mcp.TitledMultiEnumSchema:
			return mcp.FormSchema{}, inexpressible(fmt.Sprintf("a choice of several values (field %q)", p.Name), r)
		}
		f.Properties[i] = p
	}
	return f, nil
}
