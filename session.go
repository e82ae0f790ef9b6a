package troupe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
)

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

func (v *seenValues) seenValue(key string) (raw []byte, seen bool) {
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
	seen, read := s.seen.seenValue(key)
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
