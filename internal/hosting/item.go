package hosting

import (
	"net/http"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/backend/listing"
	"github.com/troupe-run/troupe/internal/toolschema"
	"github.com/troupe-run/troupe/internal/upstream"
	"github.com/troupe-run/troupe/mcp"
)

// An Item is a tool, a prompt, a resource or a template of a backend.
type Item struct {
	*listing.Item
	Of      listing.Of
	backend *mounted
	in      *reading // nil for an item of a backend of which nothing is known
}

// TaskSupport says whether clients of 2025-11-25 may, or must, ask for a task of a tool's call.
func (i *Item) TaskSupport() mcp.TaskSupport {
	if i.Of != listing.Tools || i.listed() == nil {
		return mcp.TaskForbidden
	}
	return supportIn(i.Raw)
}

// Safe reports whether a call of a tool may run once more.
func (i *Item) Safe() bool {
	if i.in != nil && i.listed() != nil {
		return i.in.safe[i.Item]
	}
	return i.backend.isSafeTool(i.Own, i.listed())
}

// Annotations are those of a tool, nil if it has none.
func (i *Item) Annotations() *mcp.ToolAnnotations {
	raw := codec.Optional(i.Raw, "annotations")
	if i.Of != listing.Tools || raw == nil {
		return nil
	}
	a := new(mcp.ToolAnnotations)
	if codec.Unmarshal(raw, a) != nil {
		return nil
	}
	return a
}

// Meta is the `_meta` of the item, nil if it has none.
func (i *Item) Meta() (m mcp.Meta) {
	if raw := codec.Optional(i.Raw, "_meta"); raw != nil {
		_ = codec.Unmarshal(raw, &m) // what cannot be read is none
	}
	return m
}

// Backend is the name of its backend, as the configuration has it.
func (i *Item) Backend() string { return i.backend.Name }

// BackendKey is the key of its backend.
func (i *Item) BackendKey() string { return i.backend.Key }

// KeepsCalls reports whether calls of it go on when this process ends.
func (i *Item) KeepsCalls() bool { return i.backend.Kept }

// listed is the item if its backend lists it, nil if nothing is known of it.
func (i *Item) listed() *listing.Item {
	if i.Raw == nil {
		return nil
	}
	return i.Item
}

// revision is that of the backend, 0 if it is not known.
func (i *Item) revision() mcp.Revision {
	if i.in == nil {
		return 0
	}
	return i.in.settled.Revision
}

// CheckHeaders compares the headers of a call of a tool with the arguments that they repeat, as [toolschema.Headers.Check] does. A tool whose annotations break the rules has none: over
// HTTP a backend of 2026-07-28 has no such tool, and to others the annotations mean nothing.
func (i *Item) CheckHeaders(sent http.Header, arguments []byte) error {
	if i.listed() == nil {
		return nil
	}
	params, err := upstream.HeaderParams(codec.Field(i.Raw, "inputSchema"))
	if err != nil || params == nil {
		return nil
	}
	var headers toolschema.Headers
	for _, p := range params {
		headers = headers.With(p.Header, p.Path)
	}
	return headers.Check(sent, arguments)
}

// NeededScopes are the scopes that the item needs, beside those of the server.
func (i *Item) NeededScopes() []string { return i.backend.addNeeds(nil, i.Of, i.Own) }

// OfSession reports whether the item's backend has an instance for each session.
func (i *Item) OfSession() bool { return i.backend.ofSession() }

// tellsUpdates reports whether the backend of an item says when resources change, as far as is known.
func (i *Item) tellsUpdates() bool {
	return i.in == nil || codec.Optional(codec.Optional(i.in.settled.Capabilities, "resources"), "subscribe") != nil
}
