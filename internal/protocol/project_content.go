package protocol

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/troupe-run/troupe/mcp"
)

// CallResultFor returns the result for a client of the revision. It is x itself when nothing has to
// change. Structured content that the revision does not know becomes a text block, unless one holds
// it already.
func CallResultFor(x *mcp.CallToolResult, r mcp.Revision) *mcp.CallToolResult {
	if x == nil || r.Stateless() {
		return x
	}
	content, structured := structuredFor(ContentsFor(x.Content, r), x.StructuredContent, r)
	if same(content, x.Content) && len(structured) == len(x.StructuredContent) && x.ResultType == "" {
		return x
	}
	return &mcp.CallToolResult{Content: content, StructuredContent: structured, IsError: x.IsError, Meta: x.Meta}
}

// structuredFor returns the blocks and the structured content of a result for a peer of the
// revision.
func structuredFor(c mcp.Contents, structured json.RawMessage, r mcp.Revision) (mcp.Contents, json.RawMessage) {
	if len(structured) == 0 || Has(r, FeatureStructuredValues) {
		return c, structured
	}
	if Has(r, FeatureStructuredOutput) && opensObject(structured) {
		return c, structured
	}
	if string(bytes.TrimSpace(structured)) != "null" && !holds(c, structured) {
		c = append(slices.Clip(c), mcp.Text(string(structured)))
	}
	return c, nil
}

// PromptResultFor returns the result for a client of the revision. It is x itself when nothing has
// to change.
func PromptResultFor(x *mcp.GetPromptResult, r mcp.Revision) *mcp.GetPromptResult {
	if x == nil || r.Stateless() || r == mcp.Revision20251125 && x.ResultType == "" {
		return x
	}
	messages := x.Messages
	for i, m := range x.Messages {
		block, changed := blockFor(m.Content, r)
		if !changed {
			continue
		}
		if same(messages, x.Messages) {
			messages = slices.Clone(messages)
		}
		messages[i].Content = block
	}
	if same(messages, x.Messages) && x.ResultType == "" {
		return x
	}
	return &mcp.GetPromptResult{Description: x.Description, Messages: messages, Meta: x.Meta}
}

// ReadResultFor returns the result for a client of the revision.
func ReadResultFor(x mcp.ReadResourceResult, r mcp.Revision) mcp.ReadResourceResult {
	if !r.Stateless() {
		x.ResultType, x.Cacheable = "", mcp.Cacheable{}
	}
	if Has(r, FeatureTitles) {
		return x
	}
	contents := x.Contents
	for i := range x.Contents {
		if len(x.Contents[i].Meta) == 0 {
			continue
		}
		if same(contents, x.Contents) {
			contents = slices.Clone(contents)
		}
		contents[i].Meta = nil
	}
	x.Contents = contents
	return x
}

// ContentsFor returns the blocks for a peer of the revision. It returns c itself when nothing has
// to change, and otherwise a copy in which only the changed blocks are new. A block that the
// revision does not know becomes one that it knows: audio becomes an embedded resource, a resource
// link becomes text. Blocks of an unknown type, and those of sampling, pass as they are.
func ContentsFor(c mcp.Contents, r mcp.Revision) mcp.Contents {
	if Has(r, FeatureIcons) { // the newest feature of blocks
		return c
	}
	out := c
	for i, block := range c {
		b, changed := blockFor(block, r)
		if !changed {
			continue
		}
		if same(out, c) {
			out = slices.Clone(c)
		}
		out[i] = b
	}
	return out
}

// blockFor returns the block for a peer of the revision, and whether it is another one.
func blockFor(block mcp.Content, r mcp.Revision) (_ mcp.Content, changed bool) {
	plain := !Has(r, FeatureTitles) // no _meta, no lastModified
	switch b := block.(type) {
	case *mcp.TextContent:
		if b != nil && plain && newer(b.Meta, b.Annotations) {
			c := *b
			c.Meta, c.Annotations = nil, annotationsFor(b.Annotations, r)
			return &c, true
		}
	case *mcp.ImageContent:
		if b != nil && plain && newer(b.Meta, b.Annotations) {
			c := *b
			c.Meta, c.Annotations = nil, annotationsFor(b.Annotations, r)
			return &c, true
		}
	case *mcp.AudioContent:
		switch {
		case b == nil:
		case !Has(r, FeatureAudio):
			return &mcp.EmbeddedResource{Type: "resource", Annotations: annotationsFor(b.Annotations, r),
				Resource: mcp.ResourceContents{URI: contentURI(b.Data), MIMEType: b.MIMEType, Blob: &b.Data}}, true
		case plain && newer(b.Meta, b.Annotations):
			c := *b
			c.Meta, c.Annotations = nil, annotationsFor(b.Annotations, r)
			return &c, true
		}
	case *mcp.ResourceLink:
		switch {
		case b == nil:
		case !Has(r, FeatureResourceLinks):
			return &mcp.TextContent{Type: "text", Text: linkText(&b.Resource), Annotations: annotationsFor(b.Annotations, r)}, true
		case len(b.Icons) > 0 && !Has(r, FeatureIcons):
			return &mcp.ResourceLink{Type: b.Type, Resource: ResourceFor(b.Resource, r)}, true
		}
	case *mcp.EmbeddedResource:
		if b != nil && plain && (newer(b.Meta, b.Annotations) || len(b.Resource.Meta) > 0) {
			c := *b
			c.Meta, c.Annotations, c.Resource.Meta = nil, annotationsFor(b.Annotations, r), nil
			return &c, true
		}
	}
	return block, false
}

// newer reports whether m or a has anything that came with [FeatureTitles].
func newer(m mcp.Meta, a *mcp.Annotations) bool {
	return len(m) > 0 || a != nil && a.LastModified != ""
}

// linkText describes a resource link in words.
func linkText(x *mcp.Resource) string {
	label := x.Title
	if label == "" {
		label = x.Name
	}
	s := x.URI
	if label != "" {
		s = label + ": " + s
	}
	if x.Description != "" {
		s += "\n" + x.Description
	}
	return s
}

// contentURI names data by its hash (RFC 6920): an embedded resource needs a URI, and sound that a
// tool made has none.
func contentURI(data mcp.Base64) string {
	raw, err := data.Bytes()
	if err != nil {
		raw = []byte(data) // not ours to repair; any name will do
	}
	sum := sha256.Sum256(raw)
	return "ni:///sha-256;" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// holds reports whether a text block is the same JSON value.
func holds(c mcp.Contents, value []byte) bool {
	want, ok := exact(value)
	for _, block := range c {
		if t, text := block.(*mcp.TextContent); ok && text && t != nil {
			if got, ok := exact([]byte(t.Text)); ok && reflect.DeepEqual(got, want) {
				return true
			}
		}
	}
	return false
}

// exact decodes one JSON value and keeps its numbers as they are written.
func exact(data []byte) (v any, ok bool) {
	if !json.Valid(data) {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return v, d.Decode(&v) == nil
}

// same reports whether two slices are the same one.
func same[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
