package troupe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/hosted"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
)

// Peer is the client of a session or of a stateless request. It may be used from any
// goroutine, and kept after the call.
type Peer struct{ p *actors.Peer }

// Session returns the session's id. Ids are secrets of their clients: do not log
// them where others read.
func (p *Peer) Session() string { return p.p.Session() }

// Revision returns the protocol revision that the client and the server use.
func (p *Peer) Revision() string { return p.p.Revision().String() }

// Client returns the client's name, version and title, as the client gave them. A session
// does not keep the rest of its clientInfo, nor a title for which 8 KiB leave no room. For a
// stateless client it is all that the request says.
func (p *Peer) Client() mcp.Implementation {
	var i mcp.Implementation
	_ = codec.Unmarshal(p.p.Client(), &i) // initialize has decoded it once
	return i
}

// Capabilities returns the capabilities that the client declared, as far as its revision
// has them. A session keeps those that a revision defines, and Experimental, Extensions and
// Extra as far as 8 KiB have room for them.
func (p *Peer) Capabilities() mcp.ClientCapabilities {
	var c mcp.ClientCapabilities
	_ = codec.Unmarshal(p.p.Capabilities(), &c) // initialize has decoded it once
	return protocol.ClientCapabilitiesFor(c, p.p.Revision())
}

// Ping asks the client, on its standalone stream, whether it is there. It fails with
// ErrNoAnswer if the client does not answer within 30 s, or within Options.Limits.MaxAsk
// if that is less. It fails with mcp.ErrInexpressible for a stateless client (2026-07-28).
func (p *Peer) Ping(ctx context.Context) error {
	if err := checkPingable(p.p.Revision()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, pingWait, ErrNoAnswer)
	defer cancel()
	a, err := p.p.Ask(ctx, actors.Question{Key: "ping", Method: mcp.MethodPing, Sending: p.sendingOf(ctx, mcp.MethodPing)})
	if err != nil {
		return forHandler(err)
	}
	if a.Err != nil {
		return a.Err
	}
	return nil
}

// questionObserver observes questions: see observe.Observer.
type questionObserver interface {
	Asking(ctx context.Context, p *actors.Peer, via actors.Via, method string) func([]byte) ([]byte, func(*actors.Answer))
}

// sendingOf is what observes a question outside of a call: see observe.Observer.
func (p *Peer) sendingOf(ctx context.Context, method string) func([]byte) ([]byte, func(*actors.Answer)) {
	return p.p.Handler().(questionObserver).Asking(ctx, p.p, actors.ViaOf(p.p), method)
}

// Roots asks for the client's roots outside of a call: see the function Roots. Unless
// the session has kept them, it sends the question on the standalone stream. It fails
// with ErrNoStream when there is no such stream, and as Call.Ask does.
func (p *Peer) Roots(ctx context.Context) ([]mcp.Root, error) {
	const key = "roots"
	q, caps := Roots(key), p.Capabilities()
	if lackingOf(q.needs, &caps) != 0 {
		return nil, fmt.Errorf("troupe: question %q: %w: %s", key, ErrUndeclared, q.needs)
	}
	a, err := p.p.Ask(ctx, actors.Question{Key: key, Method: q.method, Keep: q.keepsAnswer(&caps), Sending: p.sendingOf(ctx, q.method)})
	if err != nil {
		return nil, forHandler(err)
	}
	return Answers{map[string]hosted.Outcome{key: {Answer: a}}}.Roots(key)
}

// Log sends a log message that belongs to no call, on the session's standalone
// stream. It fails with ErrNoStream when the client has never opened one, and for a
// stateless client (2026-07-28), whose messages belong to its calls. While the client's
// connection is away, the message waits for its return. Log returns nil for a message
// that the client's level leaves out. The rest is as for Call.Log.
func (p *Peer) Log(ctx context.Context, level mcp.LoggingLevel, logger string, data any) error {
	if p.p.Revision().Stateless() {
		return ErrNoStream
	}
	if !wantsLevel(p.p, level) || !p.p.AdmitLog(p.pushMissed) {
		return nil
	}
	if n := p.p.Missed(); n > 0 && wantsLevel(p.p, mcp.LevelWarning) {
		if err := p.p.Notify(ctx, mcp.NotifyMessage, missedParams(n)); err != nil {
			return forHandler(err)
		}
	}
	params, send, err := p.p.Handler().(logEncoder).logParams(level, logger, data)
	if !send {
		return err
	}
	return forHandler(p.p.Notify(ctx, mcp.NotifyMessage, params))
}

// pushMissed sends the client the number of dropped messages once there is room again, if
// no other message has done so.
func (p *Peer) pushMissed() {
	if n := p.p.Missed(); n > 0 && wantsLevel(p.p, mcp.LevelWarning) {
		p.p.Push(mcp.NotifyMessage, missedParams(n))
	}
}

// Notify is Call.Notify outside of a call, on the session's standalone stream. It fails
// with ErrNoStream when the client has never opened one, and for a stateless client
// (2026-07-28). While the client's connection is away, the notification waits for its
// return.
func (p *Peer) Notify(ctx context.Context, method string, params any) error {
	raw, err := ownParams(method, params)
	if err != nil {
		return err
	}
	return forHandler(p.p.Notify(ctx, method, raw))
}

// Values returns the values of the session. Each call returns other SessionValues, which have read nothing yet: see Set.
func (p *Peer) Values() SessionValues { return SessionValues{p.p, new(seenValues)} }

// pingWait is how long a client has to answer a ping; no person has to answer it.
var pingWait = limits.Ping.Value()

// checkPingable says why a client cannot be pinged.
func checkPingable(r mcp.Revision) error {
	if ping, _ := protocol.LookupMethod(mcp.MethodPing); ping.Allowed(protocol.ToClient, r) {
		return nil
	}
	return fmt.Errorf("troupe: ping a client of %s: %w", r, mcp.ErrInexpressible)
}

// checkOwnName says why a program may not use the name for a method of its own.
func checkOwnName(name string) error {
	if _, taken := protocol.LookupMethod(name); taken || name == "" || strings.HasPrefix(name, "rpc.") {
		return fmt.Errorf("method %q: the name is empty, begins with rpc., or is one of the specification", name)
	}
	return nil
}

func ownParams(method string, params any) ([]byte, error) {
	if err := checkOwnName(method); err != nil {
		return nil, fmt.Errorf("troupe: notify: %w", err)
	}
	raw, err := codec.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("troupe: notify %s: %w", method, err)
	}
	if !isObject(raw) {
		return nil, fmt.Errorf("troupe: notify %s: params are no object", method)
	}
	return raw, nil
}

// refuseLacking refuses a client that lacks a capability which a handler needs.
func refuseLacking(needs mcp.Capability, p *Peer) *mcp.Error {
	if needs == 0 {
		return nil
	}
	caps := p.Capabilities()
	lacking := lackingOf(needs, &caps)
	if lacking == 0 {
		return nil
	}
	return lackingError(lacking, p.p.Revision())
}

// LogMessage is a log message on its way to a client.
type LogMessage struct {
	Server string // the server's id, see ServerOptions.ID
	Level  mcp.LoggingLevel
	Logger string
	Data   any // the data of Log
}

// logEncoder encodes a log message for its client: a mounted server.
type logEncoder interface {
	logParams(level mcp.LoggingLevel, logger string, data any) (params []byte, send bool, err error)
}

// defaultLevel is the level of a session whose client has not set one.
const defaultLevel = mcp.LevelInfo

// ownLogger is the logger of messages that the Runtime itself sends.
const ownLogger = "troupe"

// wantsLevel reports whether the client wants messages of a level.
func wantsLevel(p *actors.Peer, level mcp.LoggingLevel) bool {
	least := mcp.LoggingLevel(p.Level())
	if least == "" {
		if p.Revision().Stateless() { // it asks for log messages with each request
			return false
		}
		least = defaultLevel
	}
	return level.Severity() >= least.Severity()
}

func missedParams(n int64) []byte {
	return fmt.Appendf(nil, `{"level":"warning","logger":"`+ownLogger+`","data":"%d log messages were dropped: there were too many"}`, n)
}

var sessionEnds = map[actors.Ending]SessionEnd{actors.Deleted: SessionDeleted, actors.Expired: SessionExpired, actors.Disconnected: SessionDisconnected}

// ErrNoSession reports a stateless client (2026-07-28), which has no session: nothing was
// stored. Keep such values in a store of your own by [Call.Principal], or let the tool
// return an id that the client sends with later calls.
var ErrNoSession = errors.New("troupe: the client has no session")

// ErrSessionFull reports that a session has its most values, 64, or 32 KiB of them: the new
// value was not stored.
var ErrSessionFull = actors.ErrSessionFull

// ErrValueChanged reports that another call has set the value since Get returned it: the new value was not stored. UpdateValue
// builds on the other call's value instead.
var ErrValueChanged = errors.New("another call has set the value since this one read it")

// SessionValues are values that the handlers of a session share: small things, such as the
// choices that the client has made. They are stored with the session's record and end with
// the session; a stored value survives a crash, and the next Get finds it on any node. A session
// that is bound to a connection (HTTP+SSE, stdio) keeps them in memory, as it ends with the process.
//
// Get them with [Call.Session] or [Peer.Values]. Their methods may be called from any
// goroutine. They fail with ErrNoSession for a client without a session, with
// ErrSessionEnded once the session is gone, and with ErrUnavailable while the store is away: then nothing is known of
// whether a value was stored. Where several nodes share the store, each Get asks it, which takes a round trip.
type SessionValues struct {
	p    *actors.Peer
	seen *seenValues
}

// seenValues are the values, as JSON, that Get has returned and that Set has stored, by key; nil is none. Set compares them.
type seenValues struct {
	mu  sync.Mutex // guards all
	all map[string][]byte
}

func (v *seenValues) valueOf(key string) (raw []byte, seen bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	raw, seen = v.all[key]
	return raw, seen
}

func (v *seenValues) noteValue(key string, raw []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.all == nil {
		v.all = make(map[string][]byte)
	}
	v.all[key] = raw
}

// Get decodes the value of a key into the variable that into points to. It reports whether
// there is such a value.
func (s SessionValues) Get(ctx context.Context, key string, into any) (found bool, err error) {
	if s.p.Revision().Stateless() {
		return false, ErrNoSession
	}
	raw, err := s.p.Value(ctx, key)
	if err != nil {
		return false, forHandler(err)
	}
	if s.seen.noteValue(key, raw); raw == nil {
		return false, nil
	}
	if err := codec.Unmarshal(raw, into); err != nil {
		return false, wrongValue(key, err)
	}
	return true, nil
}

// Set stores a value, which must encode as JSON, under a key, and waits for the store. A key that was read with Get before, or set, of the same
// call, or the same SessionValues of a Peer, must still have that value: otherwise Set fails with ErrValueChanged. Else, of two calls that set one
// key at the same time, the later one counts. After ErrUnavailable the value may have been stored; Get says so. A call that runs again after a crash sets the value again.
func (s SessionValues) Set(ctx context.Context, key string, value any) error {
	raw, err := codec.Marshal(value)
	if err != nil {
		return wrongValue(key, err)
	}
	return s.storeValue(ctx, key, raw)
}

// Delete removes the value of a key, if there is one, as Set does.
func (s SessionValues) Delete(ctx context.Context, key string) error {
	return s.storeValue(ctx, key, nil)
}

// storeValue stores a value as JSON, or nil.
func (s SessionValues) storeValue(ctx context.Context, key string, raw []byte) error {
	seen, read := s.seen.valueOf(key)
	return s.editValue(ctx, key, func(old []byte) ([]byte, error) {
		if read && !bytes.Equal(old, seen) {
			return nil, ErrValueChanged
		}
		return raw, nil
	})
}

// editValue stores what f makes of the value of a key.
func (s SessionValues) editValue(ctx context.Context, key string, f func(old []byte) ([]byte, error)) error {
	if s.p.Revision().Stateless() {
		return ErrNoSession
	}
	var now []byte
	err := s.p.UpdateValue(ctx, key, func(old []byte) (_ []byte, err error) {
		now, err = f(old)
		return now, err
	})
	if err == nil {
		s.seen.noteValue(key, now)
	}
	return forHandler(err)
}

func wrongValue(key string, err error) error {
	return fmt.Errorf("troupe: value %q of the session: %w", key, err)
}

// UpdateValue stores what change makes of the value of a key, which is the zero value of T if there is none, and returns that. Of calls that
// update one key at the same time, on any nodes, each builds on what another one has stored: change is called again with that, and also
// before its error is returned, or where it changes nothing, as what this process knew may be old; so it should do nothing else. Its error is returned, and nothing is stored then. The errors are otherwise those of [SessionValues.Set]. A call that
// runs again after a crash updates the value again.
func UpdateValue[T any](ctx context.Context, s SessionValues, key string, change func(old T) (T, error)) (T, error) {
	var now, none T
	err := s.editValue(ctx, key, func(raw []byte) (next []byte, err error) {
		var old T
		if raw != nil {
			if err := codec.Unmarshal(raw, &old); err != nil {
				return nil, wrongValue(key, err)
			}
		}
		if now, err = change(old); err != nil {
			return nil, err
		}
		if next, err = codec.Marshal(now); err != nil {
			return nil, wrongValue(key, err)
		}
		return next, nil
	})
	if err != nil {
		return none, err
	}
	return now, nil
}

// SessionEnd says how a session has ended.
type SessionEnd uint8

// The ways in which a session ends.
const (
	// SessionDeleted: the client sent a DELETE.
	SessionDeleted SessionEnd = iota
	// SessionExpired: SessionIdle or SessionMax was over.
	SessionExpired
	// SessionDisconnected: the connection that the session is bound to ended (HTTP+SSE,
	// stdio).
	SessionDisconnected
)

// String names the end for logs.
func (e SessionEnd) String() string {
	return [...]string{"deleted", "expired", "disconnected"}[min(e, SessionDisconnected)]
}
