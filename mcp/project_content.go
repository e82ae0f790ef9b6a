package mcp

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"slices"
)

// For returns the result for a client of the revision. It is x itself when nothing has to
// change. Structured content that the revision does not know becomes a text block, unless
// one holds it already.
func (x *CallToolResult) For(r Revision) *CallToolResult {
	if x == nil || r.Stateless() {
		return x
	}
	content, structured := structuredFor(x.Content.For(r), x.StructuredContent, r)
	if same(content, x.Content) && len(structured) == len(x.StructuredContent) && x.ResultType == "" {
		return x
	}
	return &CallToolResult{Content: content, StructuredContent: structured, IsError: x.IsError, Meta: x.Meta}
}

// structuredFor returns the blocks and the structured content of a result for a peer of
// the revision.
func structuredFor(c Contents, structured json.RawMessage, r Revision) (Contents, json.RawMessage) {
	if len(structured) == 0 || r.Has(FeatureStructuredValues) {
		return c, structured
	}
	if at := skipSpace(structured, 0); r.Has(FeatureStructuredOutput) && at < len(structured) && structured[at] == '{' {
		return c, structured
	}
	if !isNull(structured) && !holds(c, structured) {
		c = append(slices.Clip(c), Text(string(structured)))
	}
	return c, nil
}

// For returns the result for a client of the revision. It is x itself when nothing has to
// change.
func (x *GetPromptResult) For(r Revision) *GetPromptResult {
	if x == nil || r.Stateless() || r == Revision20251125 && x.ResultType == "" {
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
	return &GetPromptResult{Description: x.Description, Messages: messages, Meta: x.Meta}
}

// For returns the result for a client of the revision.
func (x ReadResourceResult) For(r Revision) ReadResourceResult {
	if !r.Stateless() {
		x.ResultType, x.Cacheable = "", Cacheable{}
	}
	if r.Has(FeatureTitles) {
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

// For returns the blocks for a peer of the revision. It returns c itself when nothing has
// to change, and otherwise a copy in which only the changed blocks are new. A block that
// the revision does not know becomes one that it knows: audio becomes an embedded
// resource, a resource link becomes text. Blocks of an unknown type, and those of
// sampling, pass as they are.
func (c Contents) For(r Revision) Contents {
	if r.Has(FeatureIcons) { // the newest feature of blocks
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
func blockFor(block Content, r Revision) (_ Content, changed bool) {
	plain := !r.Has(FeatureTitles) // no _meta, no lastModified
	switch b := block.(type) {
	case *TextContent:
		if b != nil && plain && newer(b.Meta, b.Annotations) {
			c := *b
			c.Meta, c.Annotations = nil, b.Annotations.forRevision(r)
			return &c, true
		}
	case *ImageContent:
		if b != nil && plain && newer(b.Meta, b.Annotations) {
			c := *b
			c.Meta, c.Annotations = nil, b.Annotations.forRevision(r)
			return &c, true
		}
	case *AudioContent:
		switch {
		case b == nil:
		case !r.Has(FeatureAudio):
			return &EmbeddedResource{Type: typeResource, Annotations: b.Annotations.forRevision(r),
				Resource: ResourceContents{URI: contentURI(b.Data), MIMEType: b.MIMEType, Blob: &b.Data}}, true
		case plain && newer(b.Meta, b.Annotations):
			c := *b
			c.Meta, c.Annotations = nil, b.Annotations.forRevision(r)
			return &c, true
		}
	case *ResourceLink:
		switch {
		case b == nil:
		case !r.Has(FeatureResourceLinks):
			return &TextContent{Type: typeText, Text: linkText(&b.Resource), Annotations: b.Annotations.forRevision(r)}, true
		case len(b.Icons) > 0 && !r.Has(FeatureIcons):
			return &ResourceLink{Type: b.Type, Resource: b.Resource.For(r)}, true
		}
	case *EmbeddedResource:
		if b != nil && plain && (newer(b.Meta, b.Annotations) || len(b.Resource.Meta) > 0) {
			c := *b
			c.Meta, c.Annotations, c.Resource.Meta = nil, b.Annotations.forRevision(r), nil
			return &c, true
		}
	}
	return block, false
}

// newer reports whether m or a has anything that came with [FeatureTitles].
func newer(m Meta, a *Annotations) bool { return len(m) > 0 || a != nil && a.LastModified != "" }

// linkText describes a resource link in words.
func linkText(x *Resource) string {
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

// contentURI names data by its hash (RFC 6920): an embedded resource needs a URI, and
// sound that a tool made has none.
func contentURI(data Base64) string {
	raw, err := data.Bytes()
	if err != nil {
		raw = []byte(data) // not ours to repair; any name will do
	}
	sum := sha256.Sum256(raw)
	return "ni:///sha-256;" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// holds reports whether a text block is the same JSON value.
func holds(c Contents, value []byte) bool {
	want, ok := exact(value)
	for _, block := range c {
		if t, text := block.(*TextContent); ok && text && t != nil {
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
