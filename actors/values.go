package actors

import (
	"context"
	"errors"

	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/session"
)

// ErrSessionFull reports that a session keeps as many values as it may, or as large ones:
// the new one was not stored.
var ErrSessionFull = errors.New("the session keeps as many values as it may")

// Value is what SetValue has stored under a key, nil if there is nothing. It must not be
// changed. An error is that of the store, or says that the session has ended.
func (p *Peer) Value(ctx context.Context, key string) ([]byte, error) {
	s, err := p.actor(ctx)
	if err != nil {
		return nil, err
	}
	if s.ended.Load() {
		return nil, s.svc.ended()
	}
	return s.view.Load().rec.Values[key], nil
}

// SetValue stores a value, which is JSON and the node's from now on, with the session's
// record; nil removes it. When it returns nil the value survives a crash, unless the session
// lives on a connection.
func (p *Peer) SetValue(ctx context.Context, key string, value []byte) error {
	room := session.Room{Values: limits.Values.Value(), Bytes: limits.ValueBytes.Value()}
	var full error
	err := p.change(ctx, func(r *session.Record) (changed bool) {
		changed, full = r.SetValue(key, value, room)
		return changed
	})
	if full != nil {
		return ErrSessionFull
	}
	return err
}
