package troupe

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/mcp"
)

// ServerOptions are the settings of a server. The zero value is good.
type ServerOptions struct {
	// ID names the server in the store: [a-z0-9-], 1 to 32 characters, the same
	// on every node. Sessions belong to it. Two servers of one Runtime must differ.
	// Empty makes an id of the path of Mount: "main" for /mcp and on stdio, "weather" for
	// /weather and /weather/mcp, and a name with a hash for longer paths. A server whose
	// path may change and that is to keep its sessions needs an ID.
	ID string
	// Instructions tell a model how to use the server.
	Instructions string
	// PageSize is the number of items in one page of a list. 0 means 100.
	PageSize int
	// Complete answers completion/complete; nil declares no completions.
	Complete func(ctx context.Context, call *Call, p mcp.CompleteParams) (mcp.Completion, error)
	// Subscribe is asked before a client subscribes to a resource; an error
	// refuses it. nil allows every URI.
	Subscribe func(ctx context.Context, call *Call, uri string) error
	// SubResources has an update of a resource told also to those who subscribed to
	// one that it lies below, under its own URI: that of file:///a/b to those of
	// file:///a and file:///a/. Clients must expect that, but not all
	// do.
	SubResources bool
	// Limits are the server's own; its zero fields stand for the Runtime's.
	Limits Limits
	// ListCache is how long clients since 2026-07-28 may keep the lists and what
	// server/discover says, ReadCache that for the contents of resources, unless their
	// handler says otherwise with Call.SetCache.
	ListCache, ReadCache Cache
	// RootsChanged is told that a client's roots have changed. It must not block.
	RootsChanged func(p *Peer)
	// Visible reports whether a caller may see an item of the server. What a caller may
	// not see is unknown to it: it is in no list and on no page, calling, reading,
	// completing or subscribing to it fails as for one that is not there, and its coming
	// and going is not announced. A resource that is hidden is not read through a
	// template that matches its URI, either. Resources that are in no list, nor matched by a
	// template, cannot be subscribed to then. It is asked again for each update of a
	// resource that goes out to a subscriber.
	//
	// p is of the request at hand. Of announcements and updates outside of requests it is
	// who made the session's newest one on this node, and has no Token. It is the zero
	// Principal over stdio, and in a session that another process began until it has had a
	// request here. Visible must be quick, and several run at once; an item for which it
	// panics is hidden, and the panic is counted, and logged once a minute. See [Server.FilterChanged] for
	// when it begins to answer otherwise. nil shows everything to everybody.
	Visible func(p Principal, item Item) bool
	// SessionBegan is told of a session that initialize has just begun, before the
	// client is; it holds that answer up, and ctx ends when the store has been waited
	// for long enough. Requests without a session (2026-07-28) have none that begins.
	SessionBegan func(ctx context.Context, p *Peer)
	// SessionEnded is told on a goroutine of its own that a session has ended, and how, not
	// before SessionBegan has returned.
	// It is told of a session once at most, and not of every one: a process that is
	// killed tells nothing, and its sessions go on in the next one, without another
	// SessionBegan; a session that expires while it is in no process's memory, which it
	// leaves after a minute without use, ends without a word. What has to be cleaned up
	// needs a time of its own to expire. Runtime.Close does not wait for it. p still
	// knows what the session was.
	SessionEnded func(p *Peer, how SessionEnd)
	// MethodMiddleware wraps the handlers of requests, inside of that of Options. The
	// first one is outermost: it sees a request first and its result last.
	MethodMiddleware []MethodMiddleware
	// Experimental are capabilities that the specification does not have, by their
	// names; Extensions are those of its extensions, by their identifiers. Each value
	// is a JSON object; nil stands for an empty one.
	Experimental, Extensions map[string]mcp.Object
}

// Server is one MCP server: its tools, prompts and resources. It does nothing
// until a Runtime mounts it.
type Server struct {
	impl      mcp.Implementation
	opts      ServerOptions
	head      resultHead
	tools     *catalogue[*tool]
	prompts   *catalogue[*prompt]
	resources *catalogue[*resource]
	templates *catalogue[*template]
	// The program's own methods and notifications, by name: *method, and
	// func(*Peer, []byte).
	methods, notifications sync.Map
	mount                  mountPoint
}

var serverID = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// NewServer returns a server. It panics when opts.ID is not valid, or what the server
// declares cannot be encoded. A nil opts stands for the zero value.
func NewServer(impl mcp.Implementation, opts *ServerOptions) *Server {
	s, err := TryNewServer(impl, opts)
	must(err)
	return s
}

// TryNewServer is NewServer for servers that are not known when the program is written:
// what is wrong with one is an error.
func TryNewServer(impl mcp.Implementation, opts *ServerOptions) (*Server, error) {
	s := &Server{impl: impl, head: newResultHead(impl)}
	if opts != nil {
		s.opts = *opts
	}
	s.opts.MethodMiddleware = slices.Clone(s.opts.MethodMiddleware)
	s.opts.Experimental, s.opts.Extensions = maps.Clone(s.opts.Experimental), maps.Clone(s.opts.Extensions)
	if s.opts.ID != "" && !serverID.MatchString(s.opts.ID) {
		return nil, fmt.Errorf("troupe: server id %q: want 1 to 32 of a-z, 0-9 and -", s.opts.ID)
	}
	for _, all := range []map[string]mcp.Object{s.opts.Experimental, s.opts.Extensions} {
		for name, o := range all {
			if len(o) > 0 && (!codec.Valid(o) || !isObject(bytes.TrimSpace(o))) {
				return nil, fmt.Errorf("troupe: server %q: capabilities: %q is no JSON object", impl.Name, name)
			}
		}
	}
	if _, err := codec.Marshal(s.capabilities()); err != nil {
		return nil, fmt.Errorf("troupe: server %q: capabilities: %w", impl.Name, err)
	}
	if s.opts.PageSize <= 0 {
		s.opts.PageSize = 100
	}
	s.tools = newCatalogue(func(t *tool) any { return t.wire() }, func(t *tool, r mcp.Revision) any { return t.wire().For(r) })
	s.prompts = newCatalogue(func(p *prompt) any { return p.wire() }, func(p *prompt, r mcp.Revision) any { return p.wire().For(r) })
	s.resources = newCatalogue(func(x *resource) any { return x.Resource }, func(x *resource, r mcp.Revision) any { return x.Resource.For(r) })
	s.templates = newCatalogue(func(t *template) any { return t.ResourceTemplate }, func(t *template, r mcp.Revision) any { return t.ResourceTemplate.For(r) })
	s.tools.changed = func() { s.mount.changed(0) }
	s.prompts.changed = func() { s.mount.changed(1) }
	resources := func() { s.mount.changed(2) }
	s.resources.changed, s.templates.changed = resources, resources
	return s, nil
}

// capabilities are what the server declares.
func (s *Server) capabilities() mcp.ServerCapabilities {
	var c mcp.ServerCapabilities
	c.Logging = mcp.Declared()
	c.Tools = &mcp.ListChanged{ListChanged: true}
	c.Prompts = &mcp.ListChanged{ListChanged: true}
	c.Resources = &mcp.ResourcesCapability{ListChanged: true, Subscribe: true}
	if s.opts.Complete != nil {
		c.Completions = mcp.Declared()
	}
	c.Experimental, c.Extensions = s.opts.Experimental, s.opts.Extensions
	return c
}

// changeDelay gathers changes of a catalogue into one notification.
const changeDelay = 50 * time.Millisecond

// checkName refuses a name of a tool or a prompt under which some client could not ask
// for it: a client since 2026-07-28 repeats it in the header Mcp-Name, in base64 where it
// is not plain.
func checkName(kind, name string) error {
	most := limits.Name.Value()
	switch {
	case name == "":
		return fmt.Errorf("troupe: a %s needs a name", kind)
	case !utf8.ValidString(name):
		return fmt.Errorf("troupe: the name %q of a %s is not UTF-8", name, kind)
	case len(name) > most:
		return fmt.Errorf("troupe: the name %q of a %s has %d bytes: at most %d fit a header of every client", shown(name), kind, len(name), most)
	}
	return nil
}

// SessionEnd says how a session has ended.
type SessionEnd uint8

// The ways in which a session ends.
const (
	// SessionDeleted is by the client's DELETE.
	SessionDeleted SessionEnd = iota
	// SessionExpired is by SessionIdle or SessionMax.
	SessionExpired
	// SessionDisconnected is by the end of the connection that the session lives on
	// (HTTP+SSE, stdio).
	SessionDisconnected
)

// String names the end for logs.
func (e SessionEnd) String() string {
	return [...]string{"deleted", "expired", "disconnected"}[min(e, SessionDisconnected)]
}
