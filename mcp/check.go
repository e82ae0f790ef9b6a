package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
)

// The faults of content that no peer could read.
var (
	errNil        = errors.New("it is nil")
	errNoText     = errors.New("it has neither text nor a blob")
	errMeta       = errors.New("its _meta has a value that is no JSON")
	errInput      = errors.New("its input is no object")
	errStructured = errors.New("its structured content is no JSON")
	errNoBlock    = errors.New("it is no object with a type")
	errRole       = errors.New("its role is neither user nor assistant")
)

// Check returns an error that names the first block that no peer could read, whatever its
// revision: one that is nil, an embedded resource without text or blob, or raw bytes that are
// not the JSON that they stand for. A server does not send a result with such a block.
func (c Contents) Check() error {
	for i, block := range c {
		if err := checkContent(block); err != nil {
			return fmt.Errorf("content %d: %w", i, err)
		}
	}
	return nil
}

// Check is [Contents.Check] for the contents of a resource.
func (x *ResourceContents) Check() error {
	if x.Text == nil && x.Blob == nil {
		return errNoText
	}
	return x.Meta.Check()
}

// Check is [Contents.Check] for the message of a prompt, which also needs a role.
func (m *PromptMessage) Check() error {
	if m.Role != RoleUser && m.Role != RoleAssistant {
		return errRole
	}
	return checkContent(m.Content)
}

// Check returns an error unless all values of m are JSON; an empty one is null.
func (m Meta) Check() error {
	if len(m) == 0 { // as of most results: to range over none costs more than this
		return nil
	}
	for _, value := range m {
		if len(value) > 0 && !json.Valid(value) {
			return errMeta
		}
	}
	return nil
}

// isObject reports whether data is a JSON object.
func isObject(data []byte) bool {
	at := skipSpace(data, 0)
	return at < len(data) && data[at] == '{' && json.Valid(data)
}

func checkContent(block Content) error {
	switch b := block.(type) {
	case nil:
		return errNil
	case *TextContent:
		if b != nil {
			return b.Meta.Check()
		}
	case *ImageContent:
		if b != nil {
			return b.Meta.Check()
		}
	case *AudioContent:
		if b != nil {
			return b.Meta.Check()
		}
	case *ResourceLink:
		if b != nil {
			return b.Meta.Check()
		}
	case *EmbeddedResource:
		if b != nil {
			return errors.Join(b.Resource.Check(), b.Meta.Check())
		}
	case *ToolUseContent:
		switch {
		case b == nil:
		case len(b.Input) > 0 && !isObject(b.Input):
			return errInput
		default:
			return b.Meta.Check()
		}
	case *ToolResultContent:
		switch {
		case b == nil:
		case b.StructuredContent != nil && !json.Valid(b.StructuredContent):
			return errStructured
		default:
			return errors.Join(b.Content.Check(), b.Meta.Check())
		}
	case *UnknownContent:
		if b != nil {
			return b.check()
		}
	default: // a block of the program's own type, which embeds one of these
		return nil
	}
	return fmt.Errorf("%w: %T", errNil, block)
}

func (c *UnknownContent) check() error {
	if len(c.Raw) == 0 && c.Type != "" {
		return nil
	}
	if !isObject(c.Raw) {
		return errNoBlock
	}
	if _, err := contentTypeOf(c.Raw); err != nil {
		return errNoBlock
	}
	return nil
}
