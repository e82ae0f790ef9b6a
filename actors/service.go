package actors

import (
	"context"

	"github.com/troupe-run/troupe/mcp"
)

// Handler is what a mounted server does with requests. The actors decide who
// runs it and where its answer goes; it decides what the answer is.
type Handler interface {
	// Initialize settles a session: it returns the revision to speak, and the
	// result.
	Initialize(ctx context.Context, params []byte) (Settled, []byte, *mcp.Error)
	// Serve appends the result of c to dst. It runs on the goroutine that read
	// the request; ctx ends when the client cancels or the node gives up.
	Serve(ctx context.Context, c *Call, dst []byte) ([]byte, *mcp.Error)
	// Notified is told of a client's notification; params are valid only until
	// it returns.
	Notified(p *Peer, method string, params []byte)
	// Safe reports whether a call may be run again after its node was lost.
	Safe(method, name []byte) bool
	// Listening decides what of a listener's filter is honoured (2026-07-28).
	// Nothing can be sent by c.
	Listening(ctx context.Context, c *Call) (Listening, *mcp.Error)
	// MayAsk reports whether a call may ask its client for input.
	MayAsk(method, name []byte) bool
	// Opened is told that a client has begun to listen to its standalone stream;
	// gap means that it may have missed something before.
	Opened(p *Peer, gap bool)
	// Closed is told that a session was deleted or has left this node.
	Closed(p *Peer)
}

// Settled is what initialize settles for a session.
type Settled struct {
	Revision     string
	Client       []byte // clientInfo, raw
	Capabilities []byte // raw
	Told         string // digest of the catalogues as the client will see them
}

// Service is one mounted server as the actors see it. Make it with NewService;
// its fields are not changed afterwards.
type Service struct {
	ID      string
	Handler Handler
	Limits  Limits
	// ResultMeta is the raw `_meta` of results that the actors make, since
	// 2026-07-28; nil is none.
	ResultMeta []byte
	// Began is called when initialize has begun a session, before its client knows. Ended
	// is called once, on a goroutine of its own, when a session that has begun is gone for
	// good, as far as this node learns of it. Nil is nobody.
	Began func(ctx context.Context, p *Peer)
	Ended func(p *Peer, how Ending)
	life  lifetime
}

// Ending is how a session has ended.
type Ending uint8

// The ways in which sessions end.
const (
	Deleted      Ending = iota // by its client
	Expired                    // by its own clock
	Disconnected               // with the connection that it lives on
)

// began tells who wants to know that a session has begun.
func (svc *Service) began(ctx context.Context, p *Peer) {
	if svc.Began != nil {
		svc.Began(ctx, p)
	}
}

// NewService returns a service that may be served until Node.Retire. Limits that
// are zero take their defaults.
func NewService(id string, h Handler, l Limits) *Service {
	return &Service{ID: id, Handler: h, Limits: l.Defaults(), life: lifetime{done: make(chan struct{})}}
}

// Input is one HTTP request as the actors see it.
type Input struct {
	Tenant      string // of the authenticated principal
	Address     string // of the client, where the tenant is nobody in particular; "" else
	Session     string // Mcp-Session-Id or the name that Connect gave, "" if absent
	Version     string // MCP-Protocol-Version, "" if absent
	LastEventID string
	Trace       Trace
	Conn        Conn
	Principal   any // what Peer.Owner is to return from now on; nil changes nothing

	// Stateless says that the request is one without a session (2026-07-28): Session and
	// LastEventID mean nothing. Over HTTP it has Exchange, which is Conn then.
	Stateless bool
	Exchange  Exchange

	// Patient says of a connection that carries a whole session that its client
	// waits when it has as many requests in flight as it may, and is refused only
	// after Limits.StoreWait.
	Patient bool
}

// Trace is the W3C trace context of a request, "" where absent.
type Trace struct{ Parent, State string }
