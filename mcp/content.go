package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// Content is one content block: [*TextContent], [*ImageContent], [*AudioContent],
// [*ResourceLink], [*EmbeddedResource], [*ToolUseContent], [*ToolResultContent] or
// [*UnknownContent]. Make blocks with the functions [Text], [Image], [Audio], [Link],
// [Embed], [ToolUse] and [ToolResult]: they set the type member. A composite literal
// leaves it empty; [Contents.Typed] then sets it.
type Content interface{ contentType() string }

// The values of the type member.
const (
	typeText         = "text"
	typeImage        = "image"
	typeAudio        = "audio"
	typeResourceLink = "resource_link"
	typeResource     = "resource"
	typeToolUse      = "tool_use"
	typeToolResult   = "tool_result"
)

// TextContent is text.
type TextContent struct {
	Type        string       `json:"type"`
	Text        string       `json:"text"`
	Annotations *Annotations `json:"annotations,omitempty"`
	Meta        Meta         `json:"_meta,omitempty"`
}

// ImageContent is an image.
type ImageContent struct {
	Type        string       `json:"type"`
	Data        Base64       `json:"data"`
	MIMEType    string       `json:"mimeType"`
	Annotations *Annotations `json:"annotations,omitempty"`
	Meta        Meta         `json:"_meta,omitempty"`
}

// AudioContent is sound (since 2025-03-26).
type AudioContent struct {
	Type        string       `json:"type"`
	Data        Base64       `json:"data"`
	MIMEType    string       `json:"mimeType"`
	Annotations *Annotations `json:"annotations,omitempty"`
	Meta        Meta         `json:"_meta,omitempty"`
}

// ResourceLink points to a resource, which need not be in any list (since
// 2025-06-18).
type ResourceLink struct {
	Type string `json:"type"`
	Resource
}

// EmbeddedResource carries the contents of a resource.
type EmbeddedResource struct {
	Type        string           `json:"type"`
	Resource    ResourceContents `json:"resource"`
	Annotations *Annotations     `json:"annotations,omitempty"`
	Meta        Meta             `json:"_meta,omitempty"`
}

// ToolUseContent is a model's wish to call a tool, in sampling only.
type ToolUseContent struct {
	Type  string `json:"type"`
	ID    string `json:"id"`
	Name  string `json:"name"`
	Input Object `json:"input"`
	Meta  Meta   `json:"_meta,omitempty"`
}

// ToolResultContent answers a [ToolUseContent] with the same id, in sampling only.
// A tool_use or tool_result inside it is not legal and decodes as
// [*UnknownContent], which also bounds the depth.
type ToolResultContent struct {
	Type              string          `json:"type"`
	ToolUseID         string          `json:"toolUseId"`
	Content           Contents        `json:"content"`
	StructuredContent json.RawMessage `json:"structuredContent,omitempty"`
	IsError           bool            `json:"isError,omitempty"`
	Meta              Meta            `json:"_meta,omitempty"`
}

// UnknownContent is a block of a type that this package does not know. It is encoded with
// the bytes that were decoded.
type UnknownContent struct {
	Type string
	Raw  json.RawMessage
}

func (*TextContent) contentType() string       { return typeText }
func (*ImageContent) contentType() string      { return typeImage }
func (*AudioContent) contentType() string      { return typeAudio }
func (*ResourceLink) contentType() string      { return typeResourceLink }
func (*EmbeddedResource) contentType() string  { return typeResource }
func (*ToolUseContent) contentType() string    { return typeToolUse }
func (*ToolResultContent) contentType() string { return typeToolResult }
func (c *UnknownContent) contentType() string  { return c.Type }

// ContentType returns the value of a block's type member.
func ContentType(c Content) string { return c.contentType() }

// Text returns a text block.
func Text(s string) *TextContent { return &TextContent{Type: typeText, Text: s} }

// Image returns an image block with the data in base64.
func Image(data []byte, mimeType string) *ImageContent {
	return &ImageContent{Type: typeImage, Data: EncodeBase64(data), MIMEType: mimeType}
}

// Audio returns an audio block with the data in base64.
func Audio(data []byte, mimeType string) *AudioContent {
	return &AudioContent{Type: typeAudio, Data: EncodeBase64(data), MIMEType: mimeType}
}

// Link returns a block that points to the resource.
func Link(r Resource) *ResourceLink { return &ResourceLink{Type: typeResourceLink, Resource: r} }

// Embed returns a block that carries the contents of a resource; make them with
// [TextResource] or [BlobResource].
func Embed(contents ResourceContents) *EmbeddedResource {
	return &EmbeddedResource{Type: typeResource, Resource: contents}
}

// ToolUse returns a tool_use block. A nil input is the empty object.
func ToolUse(id, name string, input Object) *ToolUseContent {
	return &ToolUseContent{Type: typeToolUse, ID: id, Name: name, Input: input}
}

// ToolResult returns a tool_result block.
func ToolResult(toolUseID string, content ...Content) *ToolResultContent {
	return &ToolResultContent{Type: typeToolResult, ToolUseID: toolUseID, Content: content}
}

// MarshalJSON returns the bytes that were decoded.
func (c *UnknownContent) MarshalJSON() ([]byte, error) {
	if len(c.Raw) == 0 {
		return encode(struct {
			Type string `json:"type"`
		}{c.Type})
	}
	return c.Raw, nil
}

// UnmarshalJSON keeps the bytes of the block.
func (c *UnknownContent) UnmarshalJSON(data []byte) error {
	raw, err := decodeObjectBytes(data)
	if err != nil {
		return err
	}
	kind, err := contentTypeOf(raw)
	if err != nil {
		return err
	}
	*c = UnknownContent{Type: kind, Raw: raw}
	return nil
}

// Contents is a list of content blocks. Nil encodes as an empty list under codec.
// Decoding also accepts a single block, which sampling allows, and null, which
// some servers write for an empty list.
type Contents []Content

// UnmarshalJSON decodes each block by its type member.
func (c *Contents) UnmarshalJSON(data []byte) error {
	if !json.Valid(data) {
		return fmt.Errorf("mcp: decode content: %w: not JSON", ErrMalformed)
	}
	if isNull(data) {
		*c = nil
		return nil
	}
	blocks, _, err := decodeContents(data, true)
	if err != nil {
		return err
	}
	*c = blocks
	return nil
}

// Typed returns the blocks with every type member set. It returns c itself when none is
// missing. Otherwise it returns a copy in which only the incomplete blocks are new: it
// does not write to the blocks of c, since other goroutines may share them.
func (c Contents) Typed() Contents {
	out := c
	for i, block := range c {
		typed, missing := withType(block)
		if !missing {
			continue
		}
		if len(out) > 0 && &out[0] == &c[0] {
			out = append(Contents(nil), c...)
		}
		out[i] = typed
	}
	return out
}

// Typed is [Contents.Typed] for the messages of a prompt. It returns x itself when no type is
// missing.
func (x *GetPromptResult) Typed() *GetPromptResult {
	out := x
	for i, m := range x.Messages {
		block, missing := withType(m.Content)
		if !missing {
			continue
		}
		if out == x {
			copied := *x
			copied.Messages = slices.Clone(x.Messages)
			out = &copied
		}
		out.Messages[i].Content = block
	}
	return out
}

// withType returns a copy of a block with its type, if that is missing. A block of a program's own type, which may be of one that cannot
// be compared, has what it embeds.
func withType(block Content) (typed Content, missing bool) {
	switch b := block.(type) {
	case *TextContent:
		if b != nil && b.Type == "" {
			copied := *b
			copied.Type = typeText
			return &copied, true
		}
	case *ImageContent:
		if b != nil && b.Type == "" {
			copied := *b
			copied.Type = typeImage
			return &copied, true
		}
	case *AudioContent:
		if b != nil && b.Type == "" {
			copied := *b
			copied.Type = typeAudio
			return &copied, true
		}
	case *ResourceLink:
		if b != nil && b.Type == "" {
			copied := *b
			copied.Type = typeResourceLink
			return &copied, true
		}
	case *EmbeddedResource:
		if b != nil && b.Type == "" {
			copied := *b
			copied.Type = typeResource
			return &copied, true
		}
	case *ToolUseContent:
		if b != nil && b.Type == "" {
			copied := *b
			copied.Type = typeToolUse
			return &copied, true
		}
	case *ToolResultContent:
		if b != nil {
			inner := b.Content.Typed()
			if inner == nil {
				inner = Contents{} // every encoder writes it as a list
			}
			if b.Type == "" || b.Content == nil || len(inner) > 0 && &inner[0] != &b.Content[0] {
				copied := *b
				copied.Type, copied.Content = typeToolResult, inner
				return &copied, true
			}
		}
	}
	return block, false
}

// decodeContents decodes a list of blocks or a single block. list says which it was.
func decodeContents(data []byte, tools bool) (blocks Contents, list bool, err error) {
	data = bytes.TrimSpace(data)
	raw, list := elements(data)
	if !list {
		raw = [][]byte{data}
	}
	blocks = make(Contents, len(raw))
	for i, e := range raw {
		if blocks[i], err = decodeContent(e, tools); err != nil {
			return nil, list, err
		}
	}
	return blocks, list, nil
}

func decodeContent(data []byte, tools bool) (Content, error) {
	kind, err := contentTypeOf(data)
	if err != nil {
		return nil, err
	}
	var block Content
	switch {
	case kind == typeText:
		block = new(TextContent)
	case kind == typeImage:
		block = new(ImageContent)
	case kind == typeAudio:
		block = new(AudioContent)
	case kind == typeResourceLink:
		block = new(ResourceLink)
	case kind == typeResource:
		block = new(EmbeddedResource)
	case kind == typeToolUse && tools:
		block = new(ToolUseContent)
	case kind == typeToolResult && tools:
		block = new(ToolResultContent)
	default:
		return &UnknownContent{Type: kind, Raw: bytes.Clone(data)}, nil
	}
	if u, ok := block.(json.Unmarshaler); ok {
		err = u.UnmarshalJSON(data)
	} else {
		err = decodeStruct(data, block, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("mcp: decode %s content: %w", kind, err)
	}
	return block, nil
}

func contentTypeOf(data []byte) (string, error) {
	raw, ok := member(data, "type")
	if !ok || raw[0] != '"' {
		return "", fmt.Errorf("mcp: decode content: %w: a block without a type", ErrMalformed)
	}
	var kind string
	if err := json.Unmarshal(raw, &kind); err != nil {
		return "", fmt.Errorf("mcp: decode content type: %w: %w", ErrMalformed, err)
	}
	return kind, nil
}

type plainToolResult ToolResultContent

// UnmarshalJSON decodes the block; blocks inside it may not be tool blocks.
func (c *ToolResultContent) UnmarshalJSON(data []byte) error {
	if !json.Valid(data) {
		return fmt.Errorf("mcp: decode content: %w: not JSON", ErrMalformed)
	}
	var wire struct {
		plainToolResult
		Content json.RawMessage `json:"content"`
	}
	if err := decodeStruct(data, &wire, nil); err != nil {
		return err
	}
	out := ToolResultContent(wire.plainToolResult)
	if len(wire.Content) > 0 && !isNull(wire.Content) {
		blocks, _, err := decodeContents(wire.Content, false)
		if err != nil {
			return err
		}
		out.Content = blocks
	}
	*c = out
	return nil
}
