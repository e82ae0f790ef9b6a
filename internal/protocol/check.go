package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/troupe-run/troupe/mcp"
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

// CheckContents returns an error that names the first block that no peer could read, whatever its
// revision: one that is nil, an embedded resource without text or blob, or raw bytes that are not
// the JSON that they stand for. A server does not send a result with such a block.
func CheckContents(c mcp.Contents) error {
	for i, block := range c {
		if err := checkContent(block); err != nil {
			return fmt.Errorf("content %d: %w", i, err)
		}
	}
	return nil
}

// CheckResourceContents is [CheckContents] for the contents of a resource.
func CheckResourceContents(x *mcp.ResourceContents) error {
	if x.Text == nil && x.Blob == nil {
		return errNoText
	}
	return CheckMeta(x.Meta)
}

// CheckPromptMessage is [CheckContents] for the message of a prompt, which also needs a role.
func CheckPromptMessage(m *mcp.PromptMessage) error {
	if m.Role != mcp.RoleUser && m.Role != mcp.RoleAssistant {
		return errRole
	}
	return checkContent(m.Content)
}

// CheckMeta returns an error unless all values of m are JSON; an empty one is null.
func CheckMeta(m mcp.Meta) error {
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
	return opensObject(data) && json.Valid(data)
}

// opensObject reports whether data begins as a JSON object does, after white space.
func opensObject(data []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte{'{'})
}

func checkContent(block mcp.Content) error {
	switch b := block.(type) {
	case nil:
		return errNil
	case *mcp.TextContent:
		if b != nil {
			return CheckMeta(b.Meta)
		}
	case *mcp.ImageContent:
		if b != nil {
			return CheckMeta(b.Meta)
		}
	case *mcp.AudioContent:
		if b != nil {
			return CheckMeta(b.Meta)
		}
	case *mcp.ResourceLink:
		if b != nil {
			return CheckMeta(b.Meta)
		}
	case *mcp.EmbeddedResource:
		if b != nil {
			return errors.Join(CheckResourceContents(&b.Resource), CheckMeta(b.Meta))
		}
	case *mcp.ToolUseContent:
		switch {
		case b == nil:
		case len(b.Input) > 0 && !isObject(b.Input):
			return errInput
		default:
			return CheckMeta(b.Meta)
		}
	case *mcp.ToolResultContent:
		switch {
		case b == nil:
		case b.StructuredContent != nil && !json.Valid(b.StructuredContent):
			return errStructured
		default:
			return errors.Join(CheckContents(b.Content), CheckMeta(b.Meta))
		}
	case *mcp.UnknownContent:
		if b != nil {
			return checkUnknown(b)
		}
	default: // a block of the program's own type, which embeds one of these
		return nil
	}
	return fmt.Errorf("%w: %T", errNil, block)
}

func checkUnknown(c *mcp.UnknownContent) error {
	if len(c.Raw) == 0 && c.Type != "" {
		return nil
	}
	if !isObject(c.Raw) {
		return errNoBlock
	}
	if kind, ok := mcp.Object(c.Raw).Get("type"); !ok || kind[0] != '"' {
		return errNoBlock
	}
	return nil
}
