package refusal

import (
	"time"

	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/mcp"
)

// table has all rows in the order of their declaration.
var table []*Refusal

func add(r Refusal) *Refusal {
	table = append(table, &r)
	return &r
}

// The faults of an HTTP request.
var (
	Method      = add(Refusal{Status: 405, Code: mcp.CodeInvalidRequest, Label: "method", Text: "Method not allowed", When: "the endpoint has no such HTTP method; `Allow` lists those that it has"})
	Host        = add(Refusal{Status: 403, Code: mcp.CodeInvalidRequest, Label: "host", Text: "Host not allowed: --allow-host and Options.HTTP.AllowHosts allow it", When: "the `Host` header names another host than this one"})
	Origin      = add(Refusal{Status: 403, Code: mcp.CodeInvalidRequest, Label: "origin", Text: "Origin not allowed: --allow-origin and Options.HTTP.AllowOrigins allow it", When: "a web page of another origin calls"})
	Auth        = add(Refusal{Status: 401, Code: mcp.CodeInvalidRequest, Label: "auth", Text: "Unauthorized", When: "an error of `Options.Authenticate`; an `AuthError` says another status"})
	Scope       = add(Refusal{Status: 403, Code: mcp.CodeInvalidRequest, Label: "scope", Text: "the access token lacks a scope", When: "`data` has the scopes to ask for ([auth.md](auth.md#scopes))"})
	SessionID   = add(Refusal{Status: 400, Code: mcp.CodeInvalidRequest, Label: "session-id", Text: "Invalid Mcp-Session-Id header", When: "the header cannot be the id of a session"})
	Query       = add(Refusal{Status: 400, Code: mcp.CodeInvalidRequest, Label: "session-id", Text: "The query must hold one valid sessionId", When: "the same, over HTTP+SSE"})
	ContentType = add(Refusal{Status: 415, Code: mcp.CodeInvalidRequest, Label: "content-type", Text: "Content-Type must be application/json in UTF-8", When: "the body is of another type"})
	Encoding    = add(Refusal{Status: 415, Code: mcp.CodeInvalidRequest, Label: "content-encoding", Text: "Content-Encoding is not supported", When: "the body is compressed"})
	AcceptPost  = add(Refusal{Status: 406, Code: mcp.CodeInvalidRequest, Label: "accept", Text: "Accept must admit application/json and text/event-stream", When: "the `Accept` header of a POST does not"})
	AcceptGet   = add(Refusal{Status: 406, Code: mcp.CodeInvalidRequest, Label: "accept", Text: "Accept must admit text/event-stream", When: "the `Accept` header of a GET does not"})
	Empty       = add(Refusal{Status: 400, Code: mcp.CodeParseError, Label: "empty", Text: "Request body is empty", When: "a POST has no body"})
	SlowBody    = add(Refusal{Status: 408, Code: mcp.CodeInvalidRequest, Label: "body-timeout", Text: "Request body took too long", HangUp: true, When: "`Limits.BodyTimeout`"})
	Trickle     = add(Refusal{Status: 408, Code: mcp.CodeInvalidRequest, Label: "body-rate", Text: "Request body came too slowly", HangUp: true, When: "`Limits.BodyRate`"})
	Body        = add(Refusal{Status: 400, Code: mcp.CodeParseError, Label: "body", Text: "Request body could not be read", HangUp: true, When: "the connection breaks, or the body is not valid HTTP"})
	EventID     = add(Refusal{Status: 400, Code: mcp.CodeBadEventID, Label: "event-id", Text: mcp.NewError(mcp.CodeBadEventID, "").Message, When: "`Last-Event-ID` is malformed, unknown, of another stream or principal, or too old"})
	Memory      = add(Refusal{Status: 503, Code: mcp.CodeInternalError, Label: "memory", Text: limits.MaxMemory.Text, After: time.Second, HangUp: true, When: "what all clients have the node hold leaves no room"})
	Turn        = add(Refusal{Status: 503, Code: mcp.CodeInternalError, Label: "turn", Text: "this node is busy with large requests", After: time.Second, When: "a body of more than 64 KiB has waited 5 s for its turn to be scanned"})
	MemoryShare = add(Refusal{Status: 429, Code: mcp.CodeInvalidRequest, Label: "memory-share", Text: limits.MemoryShare.Text, After: time.Second, HangUp: true, When: "what this client has the node hold leaves no room"})
	Closing     = add(Refusal{Status: 503, Code: mcp.CodeInternalError, Label: "closing", Text: "Server is shutting down", After: time.Second, When: "the process has begun to end"})
)

// The faults of a message, on every transport.
var (
	TooLarge   = add(Refusal{Status: 413, Code: mcp.CodeInvalidRequest, Label: "too-large", Text: "the message is too large", HangUp: true, When: "`Limits.MaxBody`, also of a line of stdio; the text ends with it"})
	OneMessage = add(Refusal{Status: 400, Code: mcp.CodeInvalidRequest, Label: "message", Text: "send one request or notification at a time", When: "a message of 2026-07-28 is a batch or a response"})
	Version    = add(Refusal{Status: 400, Code: mcp.CodeUnsupportedVersion, Label: "version", Text: mcp.NewError(mcp.CodeUnsupportedVersion, "").Message, When: "the revision is unknown or not served; `data` lists those that are"})
	// LegacyVersion is Version as revisions before 2026-07-28 have it. A client takes the newer code for a server that speaks that revision.
	LegacyVersion = add(Refusal{Status: 400, Code: mcp.CodeInvalidParams, Label: "version", Text: "MCP-Protocol-Version is not supported", When: "the same, where the server does not speak 2026-07-28"})

	NoRevision     = add(Refusal{Status: 400, Code: mcp.CodeInvalidParams, Label: "meta", Text: "_meta must name the protocol version: " + mcp.MetaProtocolVersion, When: "a request of 2026-07-28 does not name one"})
	NoCapabilities = add(Refusal{Status: 400, Code: mcp.CodeInvalidParams, Label: "meta", Text: "_meta must have the client's capabilities: " + mcp.MetaClientCapabilities, When: "as before, or they are not an object"})
	ClientInfo     = add(Refusal{Status: 400, Code: mcp.CodeInvalidParams, Label: "meta", Text: "_meta has a client info that is no object: " + mcp.MetaClientInfo, When: "as before"})
	RevisionHeader = add(Refusal{Status: 400, Code: mcp.CodeHeaderMismatch, Label: "header-mismatch", Text: "Header mismatch: MCP-Protocol-Version is not the version in params._meta", When: "it is missing or differs (2026-07-28)"})
	MethodHeader   = add(Refusal{Status: 400, Code: mcp.CodeHeaderMismatch, Label: "header-mismatch", Text: "Header mismatch: Mcp-Method is not the method", When: "it is missing or differs (2026-07-28)"})
	NameHeader     = add(Refusal{Status: 400, Code: mcp.CodeHeaderMismatch, Label: "header-mismatch", Text: "Header mismatch: Mcp-Name is not what params names", When: "it is missing or differs (2026-07-28)"})

	DuplicateID = add(Refusal{Status: 400, Code: mcp.CodeInvalidRequest, Text: "the id is in use by a request in flight", When: "a request has the id of one that has not been answered"})
	LongToken   = add(Refusal{Status: 400, Code: mcp.CodeInvalidRequest, Text: "the id or the progress token is too long", When: "one of them has more than 2 KiB"})
	State       = add(Refusal{Status: 200, Code: mcp.CodeInvalidParams, Text: "the requestState is not valid for this request", When: "it is malformed, too old, of another request or principal, or has been used; one text for all"})
	ManyAnswers = add(Refusal{Status: 200, Code: mcp.CodeInvalidParams, Text: "inputResponses has too many members", When: "a request is sent again with more than 128 of them"})
	Responses   = add(Refusal{Status: 200, Code: mcp.CodeInvalidParams, Text: "inputResponses must be an object", When: "a request is sent again with something else"})
)

// The faults of a message in its session.
var (
	NoSession         = add(Refusal{Status: 400, Code: mcp.CodeInvalidRequest, Text: "the Mcp-Session-Id header is missing: initialize first", When: "a request of a revision with sessions names none"})
	UnknownSession    = add(Refusal{Status: 404, Code: mcp.CodeInvalidRequest, Text: "unknown session: initialize anew", When: "it was never there, is another principal's, was deleted or has expired"})
	UnknownConnection = add(Refusal{Status: 404, Code: mcp.CodeInvalidRequest, Text: "unknown session: connect anew", When: "the same, over HTTP+SSE, whose sessions are connections"})
	SessionEnded      = add(Refusal{Status: 404, Code: mcp.CodeInvalidRequest, Text: "the session has ended", When: "the session was deleted while the request waited"})
	SessionRevision   = add(Refusal{Status: 400, Code: mcp.CodeInvalidRequest, Text: "MCP-Protocol-Version is not the session's, ", When: "another was agreed on, with which the text ends"})
	SessionAgain      = add(Refusal{Status: 400, Code: mcp.CodeInvalidRequest, Text: "initialize begins a session: send it without Mcp-Session-Id", When: "initialize names a session"})
	NotInitialized    = add(Refusal{Status: 200, Code: mcp.CodeInvalidRequest, Text: "initialize first", When: "another request comes first on a connection that is its session"})
	Initialized       = add(Refusal{Status: 200, Code: mcp.CodeInvalidRequest, Text: "the session is initialized already", When: "initialize comes again"})
)

// The faults of the server.
var (
	// Unavailable has the text of a full store: its clients need not know which it is.
	Unavailable = add(Refusal{Status: 503, Code: mcp.CodeInternalError, Label: "unavailable", Text: limits.MaxStore.Text, After: time.Second, When: "the store does not answer, or the process ends"})
	Lost        = add(Refusal{Status: 200, Code: mcp.CodeCallLost, Text: mcp.NewError(mcp.CodeCallLost, "").Message, When: "the call may not run again"})
	CalledOff   = add(Refusal{Status: 200, Code: mcp.CodeCallLost, Text: "an operator has ended this call; whether it took effect is unknown", When: "`troupe calls cancel`, and whatever else an operator ends that has calls"})
	Internal    = add(Refusal{Status: 500, Code: mcp.CodeInternalError, Text: mcp.NewError(mcp.CodeInternalError, "").Message, When: "something panicked; whether the call took effect is unknown"})
)
