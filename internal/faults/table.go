package faults

import (
	"time"

	"github.com/troupe-run/troupe/mcp"
)

// A Fault is one row.
type Fault struct {
	// Code and Text are those of the JSON-RPC error. The caller of TellMore appends details,
	// such as the revision of a session.
	Code int
	Text string
	// Status is that of the HTTP response. A single request of a session gets 200 instead if it
	// may come back, or for DuplicateID and LongToken.
	Status int
	// After is when the client may send the same request again; 0 if that would change nothing.
	After time.Duration
	// Label is that of the counter troupe.http.refused; empty if the request has reached a
	// server.
	Label string
	// HangUp closes the connection, because its next bytes are not the start of a request.
	HangUp bool
	// When says when the fault occurs, for the document.
	When string
}

// table has all rows in the order of their declaration.
var table []*Fault

// All returns the rows in their order. The slice is the caller's.
func All() []*Fault { return append([]*Fault(nil), table...) }

func add(f Fault) *Fault {
	table = append(table, &f)
	return &f
}

// A Conn takes the error.
type Conn interface {
	Reject(status, code int, message string, data, id []byte, retryAfter time.Duration)
}

// Tell refuses the request with the id.
func (f *Fault) Tell(c Conn, id []byte) { f.TellMore(c, "", id) }

// TellMore is Tell with more appended to the text.
func (f *Fault) TellMore(c Conn, more string, id []byte) {
	c.Reject(f.Status, f.Code, f.Text+more, nil, id, f.After)
}

// Error is the fault as an error of package mcp.
func (f *Fault) Error() *mcp.Error { return mcp.NewError(f.Code, f.Text) }

// The faults of an HTTP request.
var (
	Method      = add(Fault{Status: 405, Code: mcp.CodeInvalidRequest, Label: "method", Text: "Method not allowed", When: "the endpoint has no such HTTP method; `Allow` lists those that it has"})
	Host        = add(Fault{Status: 403, Code: mcp.CodeInvalidRequest, Label: "host", Text: "Host not allowed: --allow-host and Options.HTTP.AllowHosts allow it", When: "the `Host` header names another host than this one"})
	Origin      = add(Fault{Status: 403, Code: mcp.CodeInvalidRequest, Label: "origin", Text: "Origin not allowed: --allow-origin and Options.HTTP.AllowOrigins allow it", When: "a web page of another origin calls"})
	Auth        = add(Fault{Status: 401, Code: mcp.CodeInvalidRequest, Label: "auth", Text: "Unauthorized", When: "`Options.Authenticate` returns an error; an `AuthError` says another status"})
	Scope       = add(Fault{Status: 403, Code: mcp.CodeInvalidRequest, Label: "scope", Text: "the access token lacks a scope", When: "the server, or what the request is for, needs a scope that its caller has not; `data` has the scopes to ask for: see [auth.md](auth.md#scopes)"})
	SessionID   = add(Fault{Status: 400, Code: mcp.CodeInvalidRequest, Label: "session-id", Text: "Invalid Mcp-Session-Id header", When: "the header cannot be the id of a session"})
	Query       = add(Fault{Status: 400, Code: mcp.CodeInvalidRequest, Label: "session-id", Text: "The query must hold one valid sessionId", When: "the same, over HTTP+SSE"})
	ContentType = add(Fault{Status: 415, Code: mcp.CodeInvalidRequest, Label: "content-type", Text: "Content-Type must be application/json in UTF-8", When: "the body is of another type"})
	Encoding    = add(Fault{Status: 415, Code: mcp.CodeInvalidRequest, Label: "content-encoding", Text: "Content-Encoding is not supported", When: "the body is compressed"})
	AcceptPost  = add(Fault{Status: 406, Code: mcp.CodeInvalidRequest, Label: "accept", Text: "Accept must admit application/json and text/event-stream", When: "the `Accept` header of a POST does not"})
	AcceptGet   = add(Fault{Status: 406, Code: mcp.CodeInvalidRequest, Label: "accept", Text: "Accept must admit text/event-stream", When: "the `Accept` header of a GET does not"})
	Empty       = add(Fault{Status: 400, Code: mcp.CodeParseError, Label: "empty", Text: "Request body is empty", When: "a POST has no body"})
	SlowBody    = add(Fault{Status: 408, Code: mcp.CodeInvalidRequest, Label: "body-timeout", Text: "Request body took too long", HangUp: true, When: "the body has not come within `Options.Limits.BodyTimeout`"})
	Trickle     = add(Fault{Status: 408, Code: mcp.CodeInvalidRequest, Label: "body-rate", Text: "Request body came too slowly", HangUp: true, When: "after 10 s less of the body has come than `Options.Limits.BodyRate` for each second"})
	Body        = add(Fault{Status: 400, Code: mcp.CodeParseError, Label: "body", Text: "Request body could not be read", HangUp: true, When: "the connection breaks, or the body is not valid HTTP"})
	EventID     = add(Fault{Status: 400, Code: mcp.CodeBadEventID, Label: "event-id", Text: mcp.NewError(mcp.CodeBadEventID, "").Message, When: "`Last-Event-ID` is malformed, unknown, of another stream or principal, or too old"})
	Memory      = add(Fault{Status: 503, Code: mcp.CodeInternalError, Label: "memory", Text: "this node has no memory for the request: --max-memory", After: time.Second, HangUp: true, When: "what all clients together have the node hold in memory leaves no room"})
	Turn        = add(Fault{Status: 503, Code: mcp.CodeInternalError, Label: "turn", Text: "this node is busy with large requests", After: time.Second, When: "a body of more than 64 KiB has waited 5 s for its turn to be scanned"})
	MemoryShare = add(Fault{Status: 429, Code: mcp.CodeInvalidRequest, Label: "memory-share", Text: "this client has its share of the node's memory: --max-memory", After: time.Second, HangUp: true, When: "requests, unread responses and parked calls of this client leave it no room"})
	Closing     = add(Fault{Status: 503, Code: mcp.CodeInternalError, Label: "closing", Text: "Server is shutting down", After: time.Second, When: "the process has begun to end"})
)

// The faults of a message, on every transport.
var (
	TooLarge   = add(Fault{Status: 413, Code: mcp.CodeInvalidRequest, Label: "too-large", Text: "the message is too large", HangUp: true, When: "a body, or a line of stdio, has more than `Options.Limits.MaxBody` bytes"})
	OneMessage = add(Fault{Status: 400, Code: mcp.CodeInvalidRequest, Label: "message", Text: "send one request or notification at a time", When: "a message of 2026-07-28 is a batch or a response"})
	Version    = add(Fault{Status: 400, Code: mcp.CodeUnsupportedVersion, Label: "version", Text: mcp.NewError(mcp.CodeUnsupportedVersion, "").Message, When: "the revision is unknown or not served; `data` lists those that are"})
	// LegacyVersion is Version as revisions before 2026-07-28 have it. A client takes the newer code for a server that speaks that revision.
	LegacyVersion = add(Fault{Status: 400, Code: mcp.CodeInvalidParams, Label: "version", Text: "MCP-Protocol-Version is not supported", When: "the same, where the server does not speak 2026-07-28"})

	NoRevision     = add(Fault{Status: 400, Code: mcp.CodeInvalidParams, Label: "meta", Text: "_meta must name the protocol version: " + mcp.MetaProtocolVersion, When: "a request of 2026-07-28 does not name one"})
	NoCapabilities = add(Fault{Status: 400, Code: mcp.CodeInvalidParams, Label: "meta", Text: "_meta must have the client's capabilities: " + mcp.MetaClientCapabilities, When: "a request of 2026-07-28 has none, or they are not an object"})
	ClientInfo     = add(Fault{Status: 400, Code: mcp.CodeInvalidParams, Label: "meta", Text: "_meta has a client info that is no object: " + mcp.MetaClientInfo, When: "a request of 2026-07-28 has such a client info"})
	RevisionHeader = add(Fault{Status: 400, Code: mcp.CodeHeaderMismatch, Label: "header-mismatch", Text: "Header mismatch: MCP-Protocol-Version is not the version in params._meta", When: "the header is missing or differs (2026-07-28)"})
	MethodHeader   = add(Fault{Status: 400, Code: mcp.CodeHeaderMismatch, Label: "header-mismatch", Text: "Header mismatch: Mcp-Method is not the method", When: "the header is missing or differs (2026-07-28)"})
	NameHeader     = add(Fault{Status: 400, Code: mcp.CodeHeaderMismatch, Label: "header-mismatch", Text: "Header mismatch: Mcp-Name is not what params names", When: "the header is missing or differs (2026-07-28)"})

	DuplicateID = add(Fault{Status: 400, Code: mcp.CodeInvalidRequest, Text: "the id is in use by a request in flight", When: "a request has the id of one that has not been answered"})
	LongToken   = add(Fault{Status: 400, Code: mcp.CodeInvalidRequest, Text: "the id or the progress token is too long", When: "one of them has more than 2 KiB"})
	State       = add(Fault{Status: 200, Code: mcp.CodeInvalidParams, Text: "the requestState is not valid for this request", When: "it is malformed, too old, of another request or principal, or has been used; one text for all"})
	ManyAnswers = add(Fault{Status: 200, Code: mcp.CodeInvalidParams, Text: "inputResponses has too many members", When: "a request is sent again with more than 128 of them"})
	Responses   = add(Fault{Status: 200, Code: mcp.CodeInvalidParams, Text: "inputResponses must be an object", When: "a request is sent again with something else"})
)

// The faults of a message in its session.
var (
	NoSession         = add(Fault{Status: 400, Code: mcp.CodeInvalidRequest, Text: "the Mcp-Session-Id header is missing: initialize first", When: "a request of a revision with sessions names none"})
	UnknownSession    = add(Fault{Status: 404, Code: mcp.CodeInvalidRequest, Text: "unknown session: initialize anew", When: "the session was never there, is another principal's, was deleted or has expired"})
	UnknownConnection = add(Fault{Status: 404, Code: mcp.CodeInvalidRequest, Text: "unknown session: connect anew", When: "the same, over HTTP+SSE, whose sessions are connections"})
	SessionEnded      = add(Fault{Status: 404, Code: mcp.CodeInvalidRequest, Text: "the session has ended", When: "the session was deleted while the request waited"})
	SessionRevision   = add(Fault{Status: 400, Code: mcp.CodeInvalidRequest, Text: "MCP-Protocol-Version is not the session's, ", When: "the header names another revision than was agreed on; the text ends with that"})
	SessionAgain      = add(Fault{Status: 400, Code: mcp.CodeInvalidRequest, Text: "initialize begins a session: send it without Mcp-Session-Id", When: "initialize names a session"})
	NotInitialized    = add(Fault{Status: 200, Code: mcp.CodeInvalidRequest, Text: "initialize first", When: "another request comes first on a connection that is its session"})
	Initialized       = add(Fault{Status: 200, Code: mcp.CodeInvalidRequest, Text: "the session is initialized already", When: "initialize comes again"})
)

// The faults of the server.
var (
	Unavailable = add(Fault{Status: 503, Code: mcp.CodeInternalError, Text: "temporarily unavailable: try again shortly", After: time.Second, When: "the store does not answer, or the process ends"})
	Lost        = add(Fault{Status: 200, Code: mcp.CodeCallLost, Text: mcp.NewError(mcp.CodeCallLost, "").Message, When: "the process that ran the call is gone, and the call may not run again"})
	Internal    = add(Fault{Status: 500, Code: mcp.CodeInternalError, Text: mcp.NewError(mcp.CodeInternalError, "").Message, When: "something panicked; whether the call took effect is unknown"})
)
