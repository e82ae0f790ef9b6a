package actors

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// Handler is a mounted server as the actors see it. The actors decide who runs it and where
// its response goes; the Handler decides what the response is. Its methods may be called
// from any goroutine.
type Handler interface {
	// Initialize settles a session: it returns the revision to speak, and the result.
	Initialize(ctx context.Context, params []byte) (Settled, []byte, *mcp.Error)
	// Serve appends the result of c to dst. It runs on the goroutine that read
	// the request; ctx ends when the client cancels or the node gives up.
	Serve(ctx context.Context, c *Call, dst []byte) ([]byte, *mcp.Error)
	// Observe is told of a message that is no call, before anything is done about it: initialize, a
	// notification, a ping that needs no handler, or the beginning of a listener. p is its session, nil if
	// there is none yet. end, which may be nil, is called when it is done, with the revision that is spoken
	// and the error of the response.
	Observe(p *Peer, from Origin, m *codec.Message) (end func(mcp.Revision, *mcp.Error))
	// Notified gets a client's notification; params are valid only until it returns.
	Notified(p *Peer, method string, params []byte)
	// Safe reports whether a call may be run again after its node was lost.
	Safe(method, name []byte) bool
	// Listening decides which part of a listener's filter is honoured (2026-07-28). c
	// cannot send.
	Listening(ctx context.Context, c *Call) (Listening, *mcp.Error)
	// MayAsk reports whether a call may ask its client for input.
	MayAsk(method, name []byte) bool
	// Opened is called when a client has begun to listen to its standalone stream; gap
	// means that the client may have missed notifications before.
	Opened(p *Peer, gap bool)
}

// Settled is what initialize settles for a session.
type Settled struct {
	Revision     string
	Client       []byte // what is kept of clientInfo, raw
	Capabilities []byte // what is kept of them, raw
	Announced    string // digest of the catalogues as the client will see them
}

// Service is one mounted server as the actors see it. Make it with NewService; its fields
// must not change after the first request.
type Service struct {
	Terms
	Handler Handler
	// Began, if not nil, is called when initialize has begun a session, before the client
	// has its response. Ended, if not nil, is called once on a goroutine of its own when a
	// session that has begun is gone for good, as far as this node learns of it, and not
	// before Began has returned.
	Began func(ctx context.Context, p *Peer)
	Ended func(p *Peer, how Ending)
	// Over, if not nil, is called on one node when a session has ended by its client, by an operator, or
	// with its connection, with how it came and how long it lasted. Nobody sees when a session expires.
	Over func(p *Peer, via Via, lasted time.Duration)
	// Hears reports whether a session may learn of an update of a resource; it is asked for
	// each update. Other actors call it in their turns, several at once: it must be quick
	// and not panic. If nil, the session learns of all resources that it has subscribed to,
	// and of those below.
	Hears func(p *Peer, uri string) bool
}

// serviceOf is the service that has the terms t.
func serviceOf(t *Terms) *Service { return t.service.(*Service) }

// NewService returns a service that may be served until Node.Unmount. Zero limits take
// their defaults.
func NewService(id string, h Handler, l Limits) *Service {
	s := &Service{Terms: Terms{ID: id, Limits: l.Defaults(), life: lifetime{done: make(chan struct{})}}, Handler: h}
	s.service = s
	return s
}

// runsAgain reports whether a call may run again for a client that comes back for it.
func (svc *Service) runsAgain(method, name []byte) bool {
	return svc.Handler.Safe(method, name) || svc.Resumes != nil && svc.Resumes(method, name)
}

// mayRerun reports whether another process can run a call again. size is that of the message,
// or batch, that it came in and that is stored for that.
func (svc *Service) mayRerun(m *codec.Message, size int) bool {
	return svc.runsAgain(m.Method, m.Name) && svc.storesMessage(m, size)
}

// observed is Handler.Observe. The function that it returns is never nil.
func (svc *Service) observed(p *Peer, in *Input, m *codec.Message) func(mcp.Revision, *mcp.Error) {
	end := svc.Handler.Observe(p, in.origin(), m)
	if end == nil {
		end = func(mcp.Revision, *mcp.Error) {}
	}
	return end
}

// Listening is the part of a listener's filter that the server honours.
type Listening struct {
	Tools, Prompts, Resources bool     // changes of the lists
	URIs                      []string // resources whose updates the listener gets, which owns the slice
	Accepted                  []byte   // the acknowledged filter, raw
	// Changed reports whether a list has changed for this listener since the last call;
	// method is that of the list's notification. It is called in the listener's turn. If
	// nil, every change counts.
	Changed func(method string) bool
	// Hears reports whether the listener may learn of an update of a resource; it is asked
	// for each update. Other actors call it in their turns, several at once: it must be
	// quick and not panic. If nil, the listener learns of URIs and of resources below them.
	Hears func(uri string) bool
	// Uncovered returns why nothing of the filter is for the client any more, one of TokenRevoked
	// and TokenInsufficient, and "" if something is. It is called in the listener's turn, like
	// Hears, when that may have changed. If nil, there is always something.
	Uncovered func() (reason string)
	// Others begins to send what else the client asked for, with send, which does not wait, until
	// ctx ends. If nil, there is nothing else. again is called when some of it was lost on the way.
	Others func(ctx context.Context, send func(method string, params []byte)) (again func())
}

// answerPing answers a ping that needs no handler. p is its session, nil if there is none.
func answerPing(svc *Service, p *Peer, in *Input, to answerer, m *codec.Message) {
	observed := svc.observed(p, in, m)
	to.Answer(200, codec.AppendResult(nil, m.ID, []byte("{}")))
	r := mcp.Revision(0)
	if p != nil {
		r = p.Revision()
	}
	observed(r, nil)
}

// refusedBy reports whether the end of the node refuses a request. stored is the size of the
// message if another process would need it to run the request again.
func (svc *Service) refusedBy(d *draining, principal any, m *codec.Message, stored int) bool {
	return d.over.Load() || d.sparing.Load() && (d.alone || !svc.mayRerun(m, stored)) && (svc.Known == nil || svc.Known(principal, m.Method, m.Name))
}

// Ending is how a session ended.
type Ending uint8

// The ways in which sessions end.
const (
	Deleted      Ending = iota // by its client
	Expired                    // by its own clock
	Disconnected               // with its connection: a bound session
)
