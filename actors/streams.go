package actors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/record"
	"github.com/troupe-run/troupe/internal/stream"
)

// streams are the streams that a node writes now, by their keys, and the way to those that
// others write or nobody does.
type streams struct {
	*kernel.Directory[StreamKey, *streamActor]
	node *Node
}

// find returns the writer of a stream, taking the stream over when its writer is
// gone. A stream that has ended has no writer: w is nil then.
func (d *streams) find(ctx context.Context, svc *Service, s *sessionActor, key StreamKey) (w *streamActor, rec record.Stream, err error) {
	if w, ok := d.Get(key); ok {
		if <-w.ready; !w.Stopped() {
			return w, w.rec, nil
		}
		d.Drop(key, w)
	}
	w, err = d.Obtain(key, func() (*streamActor, error) {
		w, r, err := d.takeOver(ctx, svc, s, key)
		rec = r
		if err == nil && w == nil {
			err = errEnded
		}
		return w, err
	})
	if errors.Is(err, errEnded) {
		if rec.Version == 0 { // another resume found it out
			if rec, _, err = d.readWriter(ctx, key); err != nil {
				return nil, rec, err
			}
		}
		return nil, rec, nil
	}
	if err != nil {
		return nil, rec, err
	}
	if w.svc.life.over.Load() {
		w.retire()
	}
	if svc.life.over.Load() {
		return nil, rec, ErrRetired
	}
	if err := d.survives(ctx, s, w); err != nil {
		return nil, rec, err
	}
	if w.Stopped() { // it ended before the directory had it
		d.Drop(key, w)
		return nil, w.rec, nil
	}
	return w, w.rec, nil
}

// errEnded stands for a stream whose last append is in the log.
var errEnded = errors.New("actors: the stream has ended")

// writerOf is find for a stream of the session s by its id. It fails with ErrNoStream when
// there is no such stream, or it has ended.
func (d *streams) writerOf(ctx context.Context, svc *Service, s *sessionActor, id string) (*streamActor, error) {
	w, _, err := d.find(ctx, svc, s, StreamKey{s.key, id})
	if errors.Is(err, errBadEvent) || (err == nil && w == nil) {
		return nil, ErrNoStream
	}
	return w, err
}

// readWriter reads the writer record of a stream, with its revision. It fails with
// errBadEvent when there is none.
func (d *streams) readWriter(ctx context.Context, key StreamKey) (rec record.Stream, rev uint64, err error) {
	data, rev, err := d.node.store.Writer(ctx, key.path())
	if errors.Is(err, ErrNotFound) {
		return rec, 0, errBadEvent
	}
	if err != nil {
		return rec, 0, fmt.Errorf("actors: read writer record: %w", err)
	}
	if err := codec.Unmarshal(data, &rec); err != nil {
		return rec, 0, fmt.Errorf("actors: read writer record: %w", err)
	}
	if rec.Version > record.Version {
		return rec, 0, fmt.Errorf("actors: writer record of version %d, of a newer release; this one reads %d", rec.Version, record.Version)
	}
	return rec, rev, nil
}

// build makes the actor of a stream, which start starts. conn is its live connection, nil
// for none.
func (d *streams) build(svc *Service, sess *sessionActor, id string, rec record.Stream, conn Conn) *streamActor {
	n := d.node
	s := &streamActor{node: n, svc: svc, sess: sess, key: StreamKey{sess.key, id}, rec: rec, live: rec, m: stream.New(svc.Limits.Stream), written: n.clock.ahead(), ready: make(chan struct{})}
	s.path = s.key.path()
	if conn != nil {
		s.att = sess.newAttachment(svc, s.key, &rec, conn, stream.Position{Stream: id})
		s.att.live = true
	}
	return s
}

// endOf ends the streams that are written here of a session that is gone.
func (d *streams) endOf(key SessionKey) {
	d.Each(func(st *streamActor) {
		if st.key.Session == key {
			st.endStream()
		}
	})
}

// forget takes a stream's record out of the store; its events expire.
func (d *streams) forget(path string) {
	n := d.node
	ctx, cancel := context.WithTimeout(n.base, 30*time.Second)
	defer cancel()
	if err := n.store.EndStream(ctx, path); err != nil && !errors.Is(err, ErrNotFound) {
		n.log.Debug("events left to expire", "stream", path, "error", err)
	}
}
