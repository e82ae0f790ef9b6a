package actors

import (
	"context"
	"strings"

	"github.com/troupe-run/troupe/actors/internal/relay"
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/store"
)

// proxy is a request that this node has taken and whose call waits on another one. Its goroutine does with the
// client's exchange what the call there does with its own.
type proxy struct {
	*relay.Near
	to     store.Address
	id     relay.ID
	held   quota.Holding
	conn   Exchange
	sess   *sessionActor // on whose connection it came; nil over HTTP
	name   []byte        // the request's id, raw
	cancel context.CancelCauseFunc
	going  context.Context // done when the client need not be waited for any more
	stream *liveStream     // nil until the response is a stream
}

// forwardOutcome is what became of a request that was forwarded to another node.
type forwardOutcome uint8

const (
	forwardServed  forwardOutcome = iota // it has its response, or its client is gone
	forwardMissing                       // that node does not have its call, and never will
	forwardSilent                        // that node may have it
)

// proxyCall does what the call does, until the exchange is over.
func (x *proxy) proxyCall(ctx context.Context, a *statelessRequest) {
	d := &a.n.relays
	for {
		m, err := x.Next(ctx)
		switch {
		case ctx.Err() != nil:
			d.sendGone(x.to, x.id, false)
			return
		case err != nil:
			d.broken.Add(1)
			d.sendGone(x.to, x.id, true)
			x.breakOff(a)
			return
		case x.applyMessage(a, &m):
			return
		}
		x.Done(&m)
	}
}

// breakOff ends the client's exchange, so that it sends the request again.
func (x *proxy) breakOff(a *statelessRequest) {
	if x.stream != nil {
		x.conn.Cut()
		return
	}
	refusal.Unavailable.Tell(x.conn, a.m.ID)
}

// applyMessage does one thing to the client's exchange. It reports whether that ends it.
func (x *proxy) applyMessage(a *statelessRequest, m *relay.Message) (over bool) {
	switch m.Kind {
	case relay.Open:
		if x.conn.Open() && x.sess == nil { // a connection that carries others is kept open as such
			x.stream = a.n.talking.addStream(x.conn, a.svc.Limits.KeepAlive)
		}
	case relay.Event:
		x.conn.Event("", 0, m.Data)
		x.conn.Flush()
		x.stream.noteWritten()
		_ = x.conn.Room(x.going) // an error means that the client is gone, or that it reads too slowly
	case relay.Finish:
		x.conn.Finish()
		return true
	case relay.Answer:
		x.conn.Answer(m.Status, m.Data)
		return true
	case relay.Reject:
		var no refusal.Refusal
		if codec.Unmarshal(m.Data, &no) != nil {
			x.breakOff(a)
			return true
		}
		x.conn.Reject(&no)
		return true
	case relay.Cut:
		x.breakOff(a)
		return true
	}
	return false
}

// Carried is a principal that has a form for the node to which a message of its session is forwarded. Other principals go there
// as JSON. Nothing of it is stored, and nobody outside of the fleet can read it.
type Carried interface{ Carry() ([]byte, error) }

// additionalData binds a principal to the message that it came with.
func (h *forwardHead) additionalData() []byte {
	return []byte("message\x00" + h.Tenant + "\x00" + h.Server + "\x00" + h.Session)
}

// nameSessionAt names the session of a connection of a node.
func nameSessionAt(a store.Address, id string) string { return a.Node + "." + a.Boot + "." + id }

// sessionAt returns the node and the id that the name of a session consists of. ok is false for what cannot be a name.
func sessionAt(name string) (at store.Address, id string, ok bool) {
	parts := strings.Split(name, ".")
	if len(parts) != 3 || !isName(parts[0]) || !isName(parts[1]) || !stream.ValidID(parts[2]) {
		return at, "", false
	}
	return store.Address{Node: parts[0], Boot: parts[1]}, parts[2], true
}

// isName reports whether s can be the name of a node, or of a boot.
func isName(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return len(s) > 0 && len(s) <= 32
}

// letterConn is the exchange of a message that another node has taken: its response is the reply to the letter.
type letterConn struct {
	l      *store.Letter
	status byte // for pushes
}

var _ Conn = (*letterConn)(nil)

func (p *letterConn) Reject(no *refusal.Refusal) {
	data, err := codec.Marshal(no)
	if err != nil { // never: it is plain data
		replyTo(p.l, tryAgain, nil)
		return
	}
	replyTo(p.l, done, append([]byte{isSettled}, data...))
}

func (p *letterConn) Accepted() {
	p.status = done
	p.Reject(&refusal.Refusal{Status: 202}) // without a code it is none
}

// The others are not used: responses go out on the session's connection.

func (*letterConn) SetSession(string)          {}
func (*letterConn) Answer(int, []byte) bool    { return false }
func (*letterConn) Open() bool                 { return false }
func (*letterConn) Event(string, int, []byte)  {}
func (*letterConn) Comment()                   {}
func (*letterConn) Flush()                     {}
func (*letterConn) Finish()                    {}
func (*letterConn) Cut()                       {}
func (*letterConn) Room(context.Context) error { return nil }
func (*letterConn) Gone(func())                {}
