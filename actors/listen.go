package actors

import (
	"bytes"
	"context"
	"slices"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/session"
	"github.com/troupe-run/troupe/mcp"
)

// Listening is what a client gets to hear of those things that it has asked for.
type Listening struct {
	Tools, Prompts, Resources bool     // changes of the lists
	URIs                      []string // resources whose updates it gets
	Accepted                  []byte   // the filter as it is acknowledged, raw
}

// wants reports whether a notification is one that the client has asked for.
func (l *Listening) wants(method string) bool {
	switch method {
	case mcp.NotifyToolsListChanged:
		return l.Tools
	case mcp.NotifyPromptsListChanged:
		return l.Prompts
	case mcp.NotifyResourcesListChanged:
		return l.Resources
	}
	return true
}

// listenActor is one subscriptions/listen stream (2026-07-28,
// basic/patterns/subscriptions). It ends with its connection, and what it is told
// is stored nowhere.
type listenActor struct {
	kernel.Actor
	node   *Node
	svc    *Service
	sess   *sessionActor // on a connection that carries others, else nil
	key    SessionKey    // by which the resources' subscriptions know it
	conn   Conn
	id     []byte // raw, of the request
	filter Listening
	from   *quota.Account
	stream *aloneStream
	acked  bool
	early  [][]byte // what came before the acknowledgement was sent
	missed bool     // something could not be sent, and is made good
}

type (
	// acknowledge opens the stream for notifications.
	acknowledge struct{}
	// hear tells a listener something.
	hear struct{ data []byte }
	// endListen ends a listener: by the server's will if it has a reason.
	endListen struct{ reason string }
	// caughtUp says that the client has read, after something was missed.
	caughtUp struct{}
)

// listenPrefix begins the ids of listeners, which no session's can.
const listenPrefix = "~"

// listenAlone begins a listener. s is the session of its connection where that
// carries others, else nil.
func (n *Node) listenAlone(svc *Service, s *sessionActor, in *Input, principal any, m *codec.Message) {
	if s != nil {
		var no error
		switch {
		case tooLong(m):
			no = errLongToken
		case s.listening(m.ID):
			no = session.ErrDuplicate
		}
		if no != nil {
			n.refusals.refused(linkReply{s.link.conn}, no, m.ID)
			return
		}
	}
	peer := &Peer{node: n, svc: svc, key: SessionKey{Tenant: in.Tenant, Server: svc.ID, ID: listenPrefix + n.newID()}, meta: bytes.Clone(m.Meta)}
	ctx, cancel := context.WithTimeout(n.base, svc.Limits.StoreWait)
	defer cancel()
	filter, rerr := svc.Handler.Listening(ctx, &Call{ctx: ctx, node: n, svc: svc, peer: peer, msg: m, principal: principal, trace: in.Trace, attempt: 1})
	if rerr != nil {
		status := 200
		if info, ok := mcp.LookupError(rerr.Code); ok {
			status = info.ModernStatus
		}
		n.reply(s, in.Conn, status, codec.AppendError(nil, m.ID, rerr.Code, rerr.Message, compact(rerr.Data)))
		return
	}
	if s != nil {
		in.Conn = linkReply{s.link.conn} // for a refusal
	}
	from, ok := n.accounts.admitListener(in, m.ID)
	if !ok {
		return
	}
	if s != nil {
		in.Conn = s.link.conn
	}
	l := &listenActor{node: n, svc: svc, sess: s, key: peer.key, conn: in.Conn, id: bytes.Clone(m.ID), filter: filter, from: from}
	n.k.Start(&l.Actor, KindSubscription, "", l)
	if s == nil && !in.Conn.Open() {
		_ = l.Post(endListen{})
		return
	}
	if s == nil {
		l.stream = n.talking.add(in.Conn, svc.Limits.KeepAlive)
	}
	// Whatever changes from here on is told, so that nothing is lost between the
	// acknowledgement and the first change.
	n.listens.Put(l.key, l)
	for _, uri := range filter.URIs {
		n.follow(l, uri)
	}
	_ = l.Post(acknowledge{})
	if s == nil {
		in.Conn.Gone(func() { _ = l.Post(endListen{}) }) // only now: it ends what is there
	}
	switch { // since before it could be found
	case n.draining.Load() || svc.life.over.Load():
		_ = l.Post(endListen{reason: "the server is shutting down"})
	case s != nil && s.Stopped():
		_ = l.Post(endListen{})
	}
}

func (l *listenActor) sessionKey() SessionKey { return l.key }

func (l *listenActor) wants(uri string) bool {
	return slices.Contains(l.filter.URIs, uri) && !l.Stopped()
}

func (l *listenActor) Receive(m any) {
	switch m := m.(type) {
	case acknowledge:
		l.acked = true
		l.send(l.note(mcp.NotifySubscriptionsAcknowledged, append(append([]byte(`"notifications":`), l.filter.Accepted...), '}')))
		for _, data := range l.early {
			l.tell(data)
		}
		l.early = nil
	case hear:
		if l.acked {
			l.tell(m.data)
		} else {
			l.early = append(l.early, m.data)
		}
	case caughtUp:
		l.missed = false
		l.makeGood()
	case endListen:
		l.end(m.reason)
	}
}

// failed ends the listener: what it is told is stored nowhere, so that what a panic has
// lost of that cannot be made good.
func (l *listenActor) Failed(m any, _ bool) {
	told := false
	if _, ends := m.(endListen); !ends {
		l.Contain(func() { l.end("internal error"); told = true })
	}
	if !told && l.sess == nil {
		l.Contain(l.conn.Cut)
	}
}

// note is a notification whose params are the subscription's id and rest, which
// ends the object.
func (l *listenActor) note(method string, rest []byte) []byte {
	params := append([]byte(nil), `{"_meta":`...)
	params = l.appendMeta(params)
	params = append(params, ',')
	return codec.AppendNotification(nil, method, append(params, rest...))
}

func (l *listenActor) appendMeta(b []byte) []byte {
	b = append(b, `{"`+mcp.MetaSubscriptionID+`":`...)
	b = append(b, l.id...)
	return append(b, '}')
}

// tell passes a notification on, with the subscription's id in its `_meta`.
func (l *listenActor) tell(data []byte) {
	if l.sess != nil && l.sess.link.full() {
		if !l.missed {
			l.missed = true
			go func() {
				if l.conn.Room(l.node.base) == nil {
					_ = l.Post(caughtUp{})
				}
			}()
		}
		return
	}
	const params = `"params":{`
	b := make([]byte, 0, len(data)+96)
	if i := bytes.Index(data, []byte(params)); i >= 0 {
		i += len(params)
		b = append(b, data[:i]...)
		b = append(b, `"_meta":`...)
		b = l.appendMeta(b)
		if data[i] != '}' {
			b = append(b, ',')
		}
		b = append(b, data[i:]...)
	} else {
		b = append(b, data[:len(data)-1]...)
		b = append(b, `,"params":{"_meta":`...)
		b = append(l.appendMeta(b), '}', '}')
	}
	l.send(b)
}

func (l *listenActor) send(data []byte) {
	l.conn.Event("", 0, data)
	l.conn.Flush()
	l.stream.touch()
}

// makeGood repeats all that the client may have missed, which is legal.
func (l *listenActor) makeGood() {
	for _, method := range []string{mcp.NotifyToolsListChanged, mcp.NotifyPromptsListChanged, mcp.NotifyResourcesListChanged} {
		if l.filter.wants(method) {
			l.tell(codec.AppendNotification(nil, method, nil))
		}
	}
	for _, uri := range l.filter.URIs {
		l.tell(updateOf(uri))
	}
}

// end ends the listener. A reason is the server's, and is told before the response.
func (l *listenActor) end(reason string) {
	l.node.listens.Drop(l.key, l)
	l.Stop()
	l.from.Held[heldStreams].Add(-1)
	for _, uri := range l.filter.URIs {
		l.node.follow(l, uri)
	}
	if reason != "" {
		rest := append([]byte(`"requestId":`), l.id...)
		rest = append(rest, `,"reason":`...)
		rest = append(codec.AppendString(rest, reason), '}')
		l.send(l.note(mcp.NotifyCancelled, rest))
		done := l.appendMeta([]byte(`{"resultType":"complete","_meta":`))
		if own := l.svc.ResultMeta; len(own) > len("{}") {
			done = append(append(done[:len(done)-1], ','), own[1:]...)
		}
		l.send(codec.AppendResult(nil, l.id, append(done, '}')))
	}
	if l.sess == nil {
		l.conn.Finish()
	}
}

// ListChanged tells all listeners of a service which lists have changed: methods are
// those of the notifications.
func (n *Node) ListChanged(svc *Service, methods ...string) {
	n.listens.Each(func(l *listenActor) {
		if l.svc != svc {
			return
		}
		for _, method := range methods {
			if l.filter.wants(method) {
				_ = l.Post(hear{codec.AppendNotification(nil, method, nil)})
			}
		}
	})
}

// endListeners ends those of a session, or all of a service, or all there are, as
// which says.
func (n *Node) endListeners(reason string, which func(*listenActor) bool) {
	n.listens.Each(func(l *listenActor) {
		if which(l) {
			_ = l.Post(endListen{reason})
		}
	})
}

// listening reports that a session has a listener whose request had the id.
func (s *sessionActor) listening(id []byte) (found bool) {
	s.node.listens.Each(func(l *listenActor) { found = found || l.sess == s && bytes.Equal(l.id, id) })
	return found
}
