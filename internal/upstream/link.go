package upstream

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/troupe-run/troupe/mcp"
)

// A Link carries whole messages to and from one backend. [Lines], [HTTP] and [SSE] are links. A Conn uses a link alone:
// nobody else may call its methods.
type Link interface {
	// Open makes the connection, as far as the link has one, and from then on gives what comes to in.
	// ctx bounds the opening alone. The error is a *Failure.
	Open(ctx context.Context, in Inbox) error
	// Send hands a message over, and may be called from several goroutines. After nil an answer to a
	// request comes through the Inbox, or has come. After an error, a *Failure, none will come, and
	// its Outcome says whether any byte may have been read by the backend.
	//
	// A link whose requests have response streams of their own returns when that of the request has
	// ended. When ctx ends, it closes that.
	Send(ctx context.Context, m Outgoing) error
	// Close ends the connection and waits until the link's goroutines have ended. With keep the
	// backend's session stays, for another process to go on with; without, it ends as far as the
	// link can say so within ctx.
	Close(ctx context.Context, keep bool)
	// HasOneEra reports whether the link as a whole belongs to one era: a process, or a connection.
	HasOneEra() bool
	// ClosesStream reports whether the end of the context of Send tells a modern backend that a
	// request is given up.
	ClosesStream() bool
}

// An Outgoing is a message to the backend.
type Outgoing struct {
	Body   []byte // JSON-RPC; nobody changes it any more
	ID     int64  // of a request; 0 for a notification or an answer
	Method string // "" for an answer
	Name   string // of the item that the request is about, for the header Mcp-Name; "" for none

	Header http.Header // more headers, for links that have headers
	// Revision is the revision that both sides speak, 0 as long as they have none.
	Revision mcp.Revision
	// Mark takes what the link needs to know of a request, nil for other messages, to say at its end whether it was handed over.
	Mark *atomic.Uint64
}

// An Inbox takes what comes over a link. Its methods may be called from several goroutines; messages
// of one channel or stream must come from one.
type Inbox interface {
	// Receive takes a message, whose bytes belong to the Inbox from then on. on is the id of the
	// request on whose response stream it came, 0 for a channel that all share. It reports whether
	// the request on needs nothing more from its stream.
	Receive(message []byte, on int64) (answered bool)
	// Passed notes the id of an event on the response stream of a request, or on the standalone
	// stream if on is 0: the stream can be taken up again after it.
	Passed(on int64, event string)
	// Ended says that no request can be sent any more. Only the first call counts.
	Ended(f *Failure)
}

// A resumer is a link whose streams another process can take up.
type resumer interface {
	// Session returns the id of the backend's session, "" if it has none.
	Session() string
	// adopt makes the link go on with a session, and with its standalone stream after an event.
	adopt(session, event string)
	// rejoin is Send for a request that was handed over by another process: it takes up its response
	// stream after an event.
	rejoin(ctx context.Context, m Outgoing, event string) error
}

// A listener is a link that can read a standalone stream, which [Options].Standalone asks for.
type listener interface {
	// listen begins to read the stream. begun is closed once the backend has begun it, or has refused to.
	listen(revision mcp.Revision) (begun <-chan struct{})
}

// A marker is a link that takes messages before it hands them over. After the link's end it says whether a request was
// not handed over after all.
type marker interface {
	unsent(mark uint64) bool
}
