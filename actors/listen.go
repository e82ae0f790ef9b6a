package actors

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/troupe-run/troupe/actors/internal/subscription"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/mcp"
)

// listenActor is one subscriptions/listen stream (2026-07-28, basic/patterns/subscriptions). It
// ends with its connection, and its notifications are not stored.
type listenActor struct {
	kernel.Actor
	listeners    *listeners
	svc          *Service
	sess         *sessionActor // whose connection it shares; nil over HTTP
	key          SessionKey    // by which the resources' subscriptions know it
	to           audience
	id           []byte // of the request, raw
	filter       Listening
	from         *quota.Account
	acked        bool
	early        [][]byte           // notifications that came before the acknowledgement was sent
	missed       bool               // a notification could not be sent, and resync makes it good
	others       context.CancelFunc // ends what the filter's Others sends; nil if there is nothing
	repeatOthers func()
	held         quota.Holding
	holder       any       // who has its connection
	until        time.Time // when it may not be served any more
}

// What a listener is told that ends because its client may not listen any more, by the draft of
// authorization lifetimes for subscription streams.
const (
	tokenExpired = "token_expiry"
	// TokenRevoked says that another token of the same kind would not help.
	TokenRevoked = "revoked"
	// TokenInsufficient says that more is needed than the token has. A request with it is told
	// what.
	TokenInsufficient = "insufficient_authorization"
)

type (
	// acknowledge opens the stream for notifications.
	acknowledge struct{}
	// hear brings a listener a notification.
	hear struct{ data []byte }
	// listChanged reports that a list has changed. The listener's filter decides whether to
	// pass it on, unless it has to be told again.
	listChanged struct {
		method   string
		repeated bool
	}
	// review ends a listener if nothing of what it follows is for its client any more.
	review struct{}
	// endListen ends a listener. With a reason, the server ends it.
	endListen struct{ reason string }
	// caughtUp reports that the client has read, after something was missed.
	caughtUp struct{}
	// repeatMissed reports that news from other nodes were lost.
	repeatMissed struct{}
)

// listeners are the listeners of a node, by keys like those of sessions.
type listeners struct {
	*kernel.Directory[SessionKey, *listenActor]
	*site
	subs    *subscription.Table
	talking *liveStreams
}

// listenPrefix begins the ids of listeners; no session's id begins with it.
const listenPrefix = "~"

// audience is where a listener sends its messages.
type audience interface {
	// beginResponse begins the response to l's request; false reports that the client is gone.
	// bindListener makes the end of the connection end l, once l can be found.
	beginResponse(l *listenActor) bool
	bindListener(l *listenActor)
	sendData(data []byte)
	// isFull reports whether too much is unread to send more; awaitRoom waits until it is not. An
	// error of awaitRoom means that it stays full.
	isFull() bool
	awaitRoom(ctx context.Context) error
	finishResponse()
	cutConnection()
}

// httpAudience is the audience of a request that has an HTTP exchange to itself.
type httpAudience struct {
	conn   Conn
	stream *liveStream
}

func (a *httpAudience) beginResponse(l *listenActor) bool {
	if !a.conn.Open() {
		return false
	}
	a.stream = l.listeners.talking.addStream(a.conn, l.svc.Limits.KeepAlive)
	return true
}

func (a *httpAudience) bindListener(l *listenActor) { a.conn.Gone(func() { _ = l.Post(endListen{}) }) }

func (a *httpAudience) sendData(data []byte) {
	a.conn.Event("", 0, data)
	a.conn.Flush()
	a.stream.noteWritten()
}

func (*httpAudience) isFull() bool                    { return false }
func (*httpAudience) awaitRoom(context.Context) error { return nil }
func (a *httpAudience) finishResponse()               { a.conn.Finish() }
func (a *httpAudience) cutConnection()                { a.conn.Cut() }

var _ subscription.Subscriber = (*listenActor)(nil)

// Server is the id of the listener's service.
func (l *listenActor) Server() string        { return l.key.Server }
func (l *listenActor) Push(data []byte) bool { return l.Post(hear{data}) == nil }

func (l *listenActor) Wants(uri string) bool {
	_, found := slices.BinarySearch(l.filter.URIs, uri)
	return found && !l.Stopped()
}

func (l *listenActor) Hears(uri string) bool { return l.filter.Hears == nil || l.filter.Hears(uri) }

func (l *listenActor) Receive(m any) {
	switch m := m.(type) {
	case acknowledge:
		l.acked = true
		l.to.sendData(l.newNotification(mcp.NotifySubscriptionsAcknowledged, append(append([]byte(`"notifications":`), l.filter.Accepted...), '}')))
		for _, data := range l.early {
			l.sendNotification(data)
		}
		l.early = nil
		if l.filter.Others != nil {
			var ctx context.Context
			ctx, l.others = context.WithCancel(l.listeners.base)
			l.repeatOthers = l.filter.Others(ctx, func(method string, params []byte) { _ = l.Post(hear{codec.AppendNotification(nil, method, params)}) })
		}
	case hear:
		if l.acked {
			l.sendNotification(m.data)
		} else {
			l.early = append(l.early, m.data)
		}
	case listChanged:
		if f := l.filter.Changed; f == nil || f(m.method) || m.repeated {
			l.Receive(hear{codec.AppendNotification(nil, m.method, nil)})
		}
	case caughtUp:
		l.missed = false
		l.resyncClient()
		if l.repeatOthers != nil {
			l.repeatOthers()
		}
	case repeatMissed:
		if l.acked { // what comes later, it gets
			l.resyncClient()
		}
	case review:
		if reason := l.filter.Uncovered(); reason != "" {
			l.end(reason)
		}
	case endListen:
		l.end(m.reason)
	}
}

// Failed ends the listener: its notifications are not stored, so one that a panic lost cannot
// be made good.
func (l *listenActor) Failed(m any, _ bool) {
	ended := false
	if _, ends := m.(endListen); !ends {
		l.Contain(func() { l.end("internal error"); ended = true })
	}
	if !ended {
		l.Contain(l.to.cutConnection)
	}
}

// newNotification makes a notification whose params are the subscription's id and rest, which ends
// the object.
func (l *listenActor) newNotification(method string, rest []byte) []byte {
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

// sendNotification passes a notification on, with the subscription's id in its `_meta`.
func (l *listenActor) sendNotification(data []byte) {
	if momentPassed(l.until, time.Now()) {
		return // the heart ends it
	}
	if l.to.isFull() {
		if !l.missed {
			l.missed = true
			go func() {
				if l.to.awaitRoom(l.listeners.base) == nil {
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
	l.to.sendData(b)
}

// resyncClient repeats every notification that the client may have missed, which is legal, but for
// what Others sends.
func (l *listenActor) resyncClient() {
	for _, method := range []string{mcp.NotifyToolsListChanged, mcp.NotifyPromptsListChanged, mcp.NotifyResourcesListChanged} {
		if l.filter.wantsMethod(method) {
			l.sendNotification(codec.AppendNotification(nil, method, nil))
		}
	}
	for _, uri := range l.filter.URIs {
		if l.Hears(uri) {
			l.sendNotification(subscription.EncodeUpdate(uri))
		}
	}
}

// end ends the listener. A reason is the server's, and the client gets it before the
// response.
func (l *listenActor) end(reason string) {
	l.listeners.Drop(l.key, l)
	l.Stop()
	l.held.Free()
	l.from.Held[heldStreams].Add(-1)
	if l.others != nil {
		l.others()
	}
	for _, uri := range l.filter.URIs {
		l.listeners.subs.Follow(l, uri)
	}
	if reason != "" {
		rest := append([]byte(`"requestId":`), l.id...)
		rest = append(rest, `,"reason":`...)
		rest = append(codec.AppendString(rest, reason), '}')
		l.to.sendData(l.newNotification(mcp.NotifyCancelled, rest))
		done := l.appendMeta([]byte(`{"resultType":"complete","_meta":`))
		if own := l.svc.ResultMeta; len(own) > len("{}") {
			done = append(append(done[:len(done)-1], ','), own[1:]...)
		}
		l.to.sendData(codec.AppendResult(nil, l.id, append(done, '}')))
	}
	l.to.finishResponse()
}

func (l *listenActor) reviewFilter() {
	if l.filter.Uncovered != nil {
		_ = l.Post(review{})
	}
}

// endListeners ends the listeners for which which returns true.
func (d *listeners) endListeners(reason string, which func(*listenActor) bool) {
	d.Each(func(l *listenActor) {
		if which(l) {
			_ = l.Post(endListen{reason})
		}
	})
}

// hasListener reports whether a session has a listener whose request had the id.
func (d *listeners) hasListener(s *sessionActor, id []byte) (found bool) {
	d.Each(func(l *listenActor) { found = found || l.sess == s && bytes.Equal(l.id, id) })
	return found
}

// memorySize is what a listener with this filter holds in memory.
func (l *Listening) memorySize() int64 {
	n := int64(listenerBytes + len(l.Accepted))
	for _, uri := range l.URIs {
		n += uriBytes + int64(len(uri))
	}
	return n
}

// wantsMethod reports whether the client has asked for the notification.
func (l *Listening) wantsMethod(method string) bool {
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
