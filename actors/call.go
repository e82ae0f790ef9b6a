package actors

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/stream"
)

// Call is one request as its handler sees it. Its spans are valid until the
// handler returns; its methods may be called from any goroutine until then.
type Call struct {
	r         *requestActor
	msg       *codec.Message
	principal any
	trace     Trace
	attempt   int
	journal   *journal
}

// Message is the scanned request. It must not be changed or kept.
func (c *Call) Message() *codec.Message { return c.msg }

// Peer is the session the call belongs to.
func (c *Call) Peer() *Peer { return c.r.sess.peer }

// Principal is what the transport's authentication returned, or, when the call
// runs again after its node was lost, the raw JSON of that.
func (c *Call) Principal() any { return c.principal }

// Trace is the trace context of the HTTP request.
func (c *Call) Trace() Trace { return c.trace }

// Attempt is 1 for the first run of a call and more when it runs again.
func (c *Call) Attempt() int { return c.attempt }

// Notify sends a notification on the call's stream, which makes the answer a
// stream. It waits only when Limits.Queue bytes wait for the log already. An
// error means that it was not sent: the call was cancelled or lost its stream.
func (c *Call) Notify(ctx context.Context, method string, params []byte) error {
	if c.journal != nil && c.journal.skipMessage() {
		return nil
	}
	data := codec.AppendNotification(nil, method, params)
	return c.send(ctx, func(acked func(error)) any {
		return &emitted{entry: stream.Entry{Kind: stream.Message, Data: data, Acked: acked}, numbered: true}
	})
}

// Progress reports progress under the request's token; params are the whole
// params of the notification. What does not rise is dropped, and above
// request.Rate a second the newest wins. Without a token it does nothing.
func (c *Call) Progress(ctx context.Context, value float64, params []byte) error {
	if c.msg.ProgressToken == nil {
		return nil
	}
	meta := binary.BigEndian.AppendUint64(nil, math.Float64bits(value))
	p := &progressed{value: value, meta: meta, data: codec.AppendNotification(nil, "notifications/progress", params)}
	return c.send(ctx, func(acked func(error)) any { p.acked = acked; return p })
}

// CloseConnection closes the connection of the call's stream while the call
// runs on; the client is told to come back and resume.
func (c *Call) CloseConnection() { _ = c.r.post(closeConn{}) }

// send posts a message about an entry. When too much waits for the log, the
// handler waits until its own entry has got there.
func (c *Call) send(ctx context.Context, message func(acked func(error)) any) error {
	if cause := context.Cause(c.r.ctx); cause != nil {
		return cause
	}
	s := c.r.streamQueue.Load()
	if s == nil || s.queued.Load() < int64(c.r.svc.Limits.Queue) {
		return c.r.post(message(nil))
	}
	stored := make(chan error, 1)
	if err := c.r.post(message(func(err error) { stored <- err })); err != nil {
		return err
	}
	select {
	case err := <-stored:
		return err
	case <-c.r.ctx.Done():
		return context.Cause(c.r.ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
