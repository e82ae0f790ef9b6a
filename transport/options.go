package transport

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
)

// Dispatcher is what the transport needs from the runtime, one per mounted server. Its methods run on the goroutine
// that read the request, or on one of their own if the connection cannot be taken over. When a method returns, the
// request's bytes are reused, and an exchange that was neither answered nor opened is answered with 500.
type Dispatcher interface {
	// Post handles one POST. Its body has been read, and x.Msg holds what codec.Scan found in it: a single message or a
	// batch. The response may still be an open stream when Post returns.
	Post(x *Exchange)

	// Get opens or resumes a stream.
	Get(x *Exchange)

	// Delete ends a session.
	Delete(x *Exchange)
}

// Connector is a Dispatcher that also serves sessions that live on one connection: those of the HTTP+SSE transport.
type Connector interface {
	Dispatcher

	// Connect begins a session whose messages to the client all go out on x. It calls x.SetSession with the session's
	// id and then x.Open, or refuses with x.Reject. The session ends with the connection, see Exchange.Gone.
	Connect(x *Exchange)

	// Message takes one message, or a batch, that a client sent for the session x.SessionID. Message must check that
	// this session exists and belongs to the caller. It ends with x.Accepted or x.Reject; responses to the message go
	// out on the session's connection.
	Message(x *Exchange)
}

// Observer gets what the transport does of its own accord. Its methods must not block. Reasons are short constants that
// can be metric labels.
type Observer interface {
	// Rejected is called for each request that does not reach the dispatcher.
	Rejected(status int, reason string)

	// Cut is called for each stream that does not end by Finish.
	Cut(reason string)
}

// Options configure a Handler. The zero value is useful.
type Options struct {
	// MaxBody is the largest body of a POST in bytes. 0 means 4 MiB.
	MaxBody int64 `option:"Limits.MaxBody"`

	// Limits bound nesting and batches, see codec.Limits.
	Limits codec.Limits

	// AllowOrigins lists the origins, such as "https://app.example.com", whose pages may call from a browser. Origins of
	// the same host and port are always allowed and, on a loopback listener, those of a loopback host. "*" allows every
	// origin except "null".
	AllowOrigins []string

	// AllowHosts lists the host names, with or without a port, that the Host header may hold. "*" allows every host.
	// Beside the list, localhost, 127.0.0.1 and [::1] are always allowed and, on a listener beyond loopback, every IP
	// address. Any other name may have been made to stand for this server's address by the page that calls. On a UNIX
	// socket an empty list allows every host, and another list only what it holds.
	AllowHosts []string

	// PublicPath is what proxies cut off the paths that clients use, such as "/tools", escaped and without a slash at its end.
	// The address in the first event of HTTP+SSE begins with it. Empty means that they cut off nothing.
	PublicPath string

	// Authenticate returns the principal of a request. Nil lets every request in, with a nil principal. An error is
	// answered with 401, or is a [*refusal.Refusal] that says how; its own text is not sent to the client.
	Authenticate func(*http.Request) (any, error)

	// BodyTimeout is how long the body of a POST may take to arrive. 0 means 30 s.
	BodyTimeout time.Duration `option:"Limits.BodyTimeout"`

	// BodyRate is how many bytes of a body must come per second, on average once it has taken 10 s. 0 means 1 KiB, a negative
	// number no bound.
	BodyRate float64 `option:"Limits.BodyRate"`

	// WriteTimeout is how long one write may wait for a peer that does not read. 0 means 30 s.
	WriteTimeout time.Duration `option:"Limits.WriteTimeout"`

	// MaxQueued is how many bytes may be queued for one connection. 0 means 1 MiB. An event that does not fit cuts the
	// connection, unless less than half is queued: then it is taken, so that a large event can be sent at all. An event of
	// more than half of MaxQueued counts only when WriteTimeout is over, unless four times MaxQueued is queued.
	MaxQueued int `option:"Limits.MaxQueued"`

	// Revisions are the supported revisions that have sessions, as values of MCP-Protocol-Version. A request that names a
	// session may have any revision that has sessions, since the dispatcher knows in which one the session began. If there are
	// none, a request that names no session must be stateless, or initialize, which the dispatcher refuses.
	Revisions []string

	// Stateless are the supported revisions whose requests belong to no session, from 2026-07-28 on. Empty refuses such
	// requests like those of any other revision that is not supported, and with an error that those revisions do not have.
	Stateless []string

	// Leaving reports whether the server is about to end. Responses then say that their connection is closed after them,
	// so that clients make new ones. Nil means never.
	Leaving func() bool

	// Accounts counts the bytes that requests and their responses hold, on the account that Account returns for a principal
	// at an address, which is "host:port" as in http.Request.RemoteAddr. A request counts on the account of a nil principal
	// from its beginning, and on that of its own once it is authenticated. Account may return another account later, once
	// Accounts has dropped the first. Nil counts nothing.
	Accounts *quota.Accounts
	Account  func(principal any, address string) *quota.Account

	// Owe charges an account for the bytes and the JSON values of a body whose message is refused, and Debt says for how long the account
	// owes for such bodies: until then its bodies, but for the smallest, are refused before they are scanned. Nil charges nothing.
	Owe  func(a *quota.Account, size, values int)
	Debt func(a *quota.Account) time.Duration

	// Log gets what an operator should see. Nil discards it.
	Log *slog.Logger

	// Observer gets refusals and cuts. It may be nil.
	Observer Observer
}

// withDefaults returns o with its defaults, and with host names and origins in lower case.
func (o Options) withDefaults() Options {
	limits.FillDefaults(&o)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.AllowOrigins = inLowerCase(o.AllowOrigins)
	o.AllowHosts = inLowerCase(o.AllowHosts)
	o.Revisions = append([]string(nil), o.Revisions...)
	o.Stateless = append([]string(nil), o.Stateless...)
	return o
}

func inLowerCase(in []string) []string {
	out := make([]string, 0, len(in))
	for _, s := range in {
		out = append(out, strings.TrimSuffix(strings.ToLower(strings.TrimSpace(s)), "/"))
	}
	return out
}

// Configure sets the limits of s for the time before a Handler sees a request: how long a header may take, how large it
// may be, how long an idle connection is kept, and how much a connection of HTTP/2 may bring at a time. It does not change fields that are set. It leaves WriteTimeout and
// ReadTimeout alone, since both would end long calls; the Handler limits bodies and writes itself.
func Configure(s *http.Server) {
	if s.ReadHeaderTimeout == 0 {
		s.ReadHeaderTimeout = limits.HeaderTimeout.Value()
	}
	if s.IdleTimeout == 0 {
		s.IdleTimeout = 2 * time.Minute
	}
	if s.MaxHeaderBytes == 0 {
		s.MaxHeaderBytes = limits.MaxHeader.Value()
	}
	if s.HTTP2 == nil {
		window := limits.HTTP2Window.Value()
		s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: limits.HTTP2Streams.Value(), MaxReceiveBufferPerConnection: window, MaxReceiveBufferPerStream: window}
	}
}
