package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors/internal/attachment"
	"github.com/troupe-run/troupe/actors/internal/record"
	"github.com/troupe-run/troupe/actors/internal/session"
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/actors/internal/subscription"
	"github.com/troupe-run/troupe/actors/internal/takeover"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/store"
)

// streams finds the streams that this node writes, by key, and reads the records of others.
type streams struct {
	*kernel.Directory[StreamKey, *streamActor]
	*site
	sessions    sessionRecords
	attachments attachment.Set[StreamKey]
	appends     atomic.Int64  // to the log
	listened    atomic.Uint64 // standalone streams begun
}

// sessionRecords reads the records of sessions.
type sessionRecords interface {
	readRecord(ctx context.Context, key SessionKey) (session.Record, uint64, error)
}

// streamSession is a session as its streams see it.
type streamSession interface {
	payer
	// hasEnded reports whether the session's record is gone.
	hasEnded() bool
	// Post takes [pinSession].
	Post(m any) error
}

// buildStream makes the actor of a stream; start starts it. conn is its live connection, nil
// for none.
func (d *streams) buildStream(svc *Terms, sess streamSession, of SessionKey, subscribed []string, id string, rec record.Stream, conn Conn) *streamActor {
	s := &streamActor{streams: d, svc: svc, sess: sess, key: StreamKey{of, id}, m: stream.New(svc.Limits.Stream), ready: make(chan struct{}),
		recordState: recordState{rec: rec, live: rec, life: takeover.NewLifetime(d.clock.aheadBy())}}
	s.path = s.key.streamPath()
	if conn != nil {
		s.att = d.newAttachment(svc, sess, subscribed, s.key, &rec, conn, stream.Position{Stream: id}, 1, 0, true, nil)
		s.conn = conn
	}
	return s
}

// ownRevision returns the revision of a stream's writer record if it is that of this boot and
// epoch. ErrNotFound reports that it is gone: it may be stored again. It is errMaybeTaken if what
// answered the stream's calls may have been another node. ErrFenced reports another writer's
// record, ErrSessionEnded that the session does not want the stream any more.
func (d *streams) ownRevision(ctx context.Context, key StreamKey, epoch uint64, standalone bool) (rev uint64, err error) {
	rec, rev, err := d.readWriter(ctx, key)
	stored := &rec
	if errors.Is(err, errBadEvent) {
		stored = nil
	} else if err != nil {
		return 0, err
	}
	switch takeover.ClaimOf(stored, d.boot, epoch, !d.store.Suspended()) {
	case takeover.Own:
		return rev, nil
	case takeover.Taken:
		return 0, errTaken
	case takeover.Doubt: // the node waits until it has the lease again
		return 0, fmt.Errorf("actors: store a record again: lease not certain: %w", store.ErrUnavailable)
	}
	// A stream that was ended has no record either: then its session is gone, or has
	// another standalone stream.
	sess, _, err := d.sessions.readRecord(ctx, key.Session)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && standalone && sess.Standalone != key.ID:
		return 0, ErrSessionEnded
	case err != nil:
		return 0, err
	case d.fleet.mail == nil:
		return 0, store.ErrNotFound
	}
	switch taken, err := d.store.Taken(ctx); {
	case err != nil:
		return 0, err
	case taken:
		return 0, errMaybeTaken
	}
	return 0, store.ErrNotFound
}

// stillWrites reports whether the stream of w, which seems to be written here, is. A node that
// stood still or was cut off learns only with its next write that another one has taken a stream
// over: then that write is now.
func (d *streams) stillWrites(ctx context.Context, w *streamActor) (bool, error) {
	if d.fleet.mail == nil {
		return true, nil
	}
	for refused := uint64(0); ; {
		rec, rev, err := d.readWriter(ctx, w.key)
		switch {
		case errors.Is(err, errBadEvent): // the store forgot it, or it has ended: here, unless others may have had it
			taken, err := d.store.Taken(ctx)
			if taken {
				_ = w.Post(refresh{})
			}
			return err == nil && !taken, err
		case err != nil:
			return false, err
		case rec.Boot != d.boot || rev == refused: // or a leader that was replaced still says that it is this node's
			_ = w.Post(refresh{})
			return false, nil
		}
		if err = d.store.Holds(ctx, w.path, rev); !errors.Is(err, store.ErrFenced) {
			return err == nil, err
		}
		refused = rev // or the stream itself has just written its record again
	}
}

// confirmBadEvent returns err, by which the log of a stream refuses an event id, if its record
// certainly has revision rev: then the log was not that of a leader that was replaced. Otherwise it
// returns ErrUnavailable.
func (d *streams) confirmBadEvent(ctx context.Context, key StreamKey, rev uint64, err error) error {
	if d.fleet.mail == nil || !errors.Is(err, errBadEvent) {
		return err
	}
	if failed := d.store.Holds(ctx, key.streamPath(), rev); failed != nil {
		return fmt.Errorf("actors: resume: what was read is old: %w: %w", store.ErrUnavailable, failed)
	}
	return err
}

// renewBody gives the body of a stream's calls the lifetime of its record. It reports
// whether nothing is left to do: a body that is gone does not come back.
func (d *streams) renewBody(ctx context.Context, key StreamKey, body []byte, rev uint64, ttl time.Duration) bool {
	err := d.store.KeepBody(ctx, key.streamPath(), body, rev, ttl)
	if err != nil {
		d.log.Warn("body of calls not renewed", "stream", key.ID, "error", err)
	}
	return !mayRetry(err)
}

// readWriter reads the writer record of a stream, with its revision. It fails with errBadEvent if
// there is none.
func (d *streams) readWriter(ctx context.Context, key StreamKey) (rec record.Stream, rev uint64, err error) {
	data, rev, err := d.store.Writer(ctx, key.streamPath())
	if errors.Is(err, store.ErrNotFound) {
		return rec, 0, errBadEvent
	}
	if err != nil {
		return rec, 0, fmt.Errorf("actors: read writer record: %w", err)
	}
	if rec, err = record.Decode(data); err != nil {
		return rec, 0, fmt.Errorf("actors: read writer record: %w", err)
	}
	if rec.Version > record.Version {
		return rec, 0, fmt.Errorf("actors: writer record of version %d, of a newer release; this one reads %d", rec.Version, record.Version)
	}
	return rec, rev, nil
}

// endSessionStreams ends the streams that this node writes for a session that is gone.
func (d *streams) endSessionStreams(key SessionKey) {
	d.Each(func(st *streamActor) {
		if st.key.Session == key {
			st.endStream()
		}
	})
}

// forgetRecord removes a stream's record from the store; its events expire.
func (d *streams) forgetRecord(path string) {
	ctx, cancel := context.WithTimeout(d.base, 30*time.Second)
	defer cancel()
	if err := d.store.EndStream(ctx, path); err != nil && !errors.Is(err, store.ErrNotFound) {
		d.log.Debug("events left to expire", "stream", path, "error", err)
	}
}

// writesHere reports whether the writer of a stream is here.
func (d *streams) writesHere(key StreamKey) bool {
	w, here := d.Get(key)
	return here && !w.Stopped()
}

// reader is the one live connection of a stream. There are two:
//
//	attached      a connection here
//	remoteReader  a connection of another node, which gets what is stored as letters
//
// Its methods do not block.
type reader interface {
	// Frame takes an append that is stored.
	Frame(f attachment.Frame)
	// Poll ends the connection of a call that goes on here, and has the client come back soon.
	Poll()
	// Finish ends the response.
	Finish()
	// Reconnect ends the connection of a stream that goes on, here or elsewhere.
	Reconnect()
	// Cut closes the connection: another one has replaced it, or the stream is lost.
	Cut()
	// Gone calls f once when the connection is gone.
	Gone(f func())
}

// extent is how far a stream has got, and what the writer knows of it without the log.
type extent struct {
	tail       uint64 // last append
	bytes      int    // that the log holds; 0 if that is not known
	watermarks []record.Watermark
}

// newAttachment makes the reading side of a connection that has read up to the event after, and
// goes on with entry skip of append next.
func (d *streams) newAttachment(svc *Terms, of streamSession, subscribed []string, key StreamKey, rec *record.Stream, conn Conn, after stream.Position, next uint64, skip int, live bool, behind func()) *attached {
	holder, until := heldBy(conn)
	var withholds func([]byte) (bool, bool)
	if len(rec.Calls) == 0 && svc.Withholds != nil {
		withholds = withholdsFrom(svc, holder, subscribed)
	}
	return attachment.New(attachment.Config[StreamKey]{
		Holder: holder, Expires: until, Withholds: withholds,
		Among: &d.attachments, Key: key, Held: &of.billedAccount().Held[heldStreams], Conn: conn, Stream: key.ID, After: after,
		Primes: hasFeature(rec.Revision, protocol.FeatureStreamPriming), Answers: len(rec.Calls) > 0, Retry: svc.Limits.Retry, KeepAlive: svc.Limits.KeepAlive,
		Behind: behind,
	}, next, skip, live)
}

// endReplaced has the node that writes a standalone stream end it: another one is the session's
// now. It must be called before the stream's record is removed, which says which node that is.
func (d *streams) endReplaced(key StreamKey) {
	if d.fleet.mail == nil {
		return
	}
	ctx, cancel := context.WithTimeout(d.base, knownWait)
	defer cancel()
	rec, _, err := d.readWriter(ctx, key)
	if writer := (store.Address{Node: rec.Node, Boot: rec.Boot}); err == nil && writer != d.fleet.selfAddress() {
		d.fleet.sendLetter(writer, letterSessionChanged, sessionLetter{Session: key.Session, Old: key.ID})
	}
}

// withholdsFrom is the Withholds of a connection of a standalone stream, whose session subscribed
// to some resources when the client came. A client that subscribes to another one with a wider
// token comes back with that, for an update that its connection may not have. So it comes back once
// at most for each resource, whatever it brings.
func withholdsFrom(svc *Terms, holder any, subscribed []string) func([]byte) (withheld, later bool) {
	return func(message []byte) (withheld, later bool) {
		uri, withheld := svc.Withholds(holder, message)
		return withheld, withheld && !slices.ContainsFunc(subscribed, func(to string) bool { return subscription.Covers(to, uri) })
	}
}

// closeReader ends the connection of a call that goes on. A client that is connected to another
// node may come back soon.
func (m closeConn) closeReader(a reader) {
	if near, ok := a.(*attached); ok && m.leaving {
		near.Reconnect()
	} else {
		a.Poll()
	}
}

// keptInMemory is how long an append is kept in memory for clients that come back at once.
const keptInMemory = 30 * time.Second

// replayCache is how many bytes of appends are kept by a node that may hold so many bytes for its
// clients, 0 for any number.
func replayCache(held int64) int64 {
	most := limits.ReplayCache.Value()
	if held > 0 {
		most = min(most, held/16)
	}
	return most
}

// attached is one connection of a stream.
type attached = attachment.Attachment[StreamKey]
