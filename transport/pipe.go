package transport

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/guard"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/mcp"
)

// PipeOptions configure a Pipe. The zero value is useful.
type PipeOptions struct {
	// MaxBody is the length of the longest line that is read, in bytes, without its end. 0 means 4 MiB.
	MaxBody int64 `option:"Limits.MaxBody"`

	// Limits bound nesting and batches, see codec.Limits.
	Limits codec.Limits

	// MaxQueued is how many bytes may wait to be written. 0 means 1 MiB. A message that does not fit cuts the pipe,
	// unless less than half is queued: then it is taken, so that a large message can be sent at all.
	MaxQueued int `option:"Limits.MaxQueued"`

	// Log gets what an operator should see. Nil discards it. It must not write to the Pipe's writer.
	Log *slog.Logger

	// Observer gets lines that are no messages, with the status that a POST would have been answered with, and cuts. It
	// may be nil.
	Observer Observer
}

func (o PipeOptions) withDefaults() PipeOptions {
	limits.FillDefaults(&o)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Pipe is one session over a reader and a writer, with one message a line: the stdio transport of all revisions. Serve
// reads. The other methods write, in the order of their calls. A Pipe writes only whole messages, each on one line;
// only a write that fails or is cut off can leave a part of one.
//
// The methods other than Serve are those of an Exchange, for a connection that is open from the start and has no
// status, no ids of events and no keep-alive. They may be called from any goroutine, copy what they are given and,
// except Room and Wait, never block. A peer that does not read is not cut after a time, only when more than MaxQueued
// is queued: the peer owns the process, and may have been put to sleep.
type Pipe struct {
	in   io.Reader
	out  io.Writer
	o    PipeOptions
	done chan struct{} // closed when the pipe is gone

	mu      sync.Mutex    // guards the fields below
	state   state         // streaming, finishing or gone
	queue   *codec.Buffer // what the writer has not taken; nil if empty
	writing int           // bytes the writer has taken and not written
	active  bool          // there is a writer
	room    chan struct{} // closed when there is room; nil if nobody waits
	onGone  []func()
	fault   error // why it is gone; nil if all was written
}

// NewPipe returns a Pipe that is open. It never closes in and out; the caller may do that when the Pipe is done.
func NewPipe(in io.Reader, out io.Writer, o PipeOptions) *Pipe {
	return &Pipe{in: in, out: out, o: o.withDefaults(), done: make(chan struct{}), state: streaming}
}

// Serve reads lines and calls take for each message, or batch, in order and on this goroutine. m and line are valid
// until take returns. While take runs, no more is read than a buffer holds, so take may wait. Call Serve once. It
// returns nil at the end of the input, the cause of ctx when ctx ends first, ErrGone (wrapped) when the pipe is closed
// or a write fails, and otherwise the error of the read. take does not run any more then. A Read that cannot be
// interrupted is left behind: do not read from in again.
//
// A line ends with LF or CR LF, and the last one with the input. Blank lines are ignored. A line over MaxBody is
// skipped and answered with -32600 and no id. A line that is no message is answered with the error of codec.Scan, and
// with the id if it has a valid one. Two kinds of JSON are logged and not answered. One has a method and no id: it was
// meant to be a notification. The other has a result or an error and no method: the peer could take an error with its
// id for the response to a request of its own.
//
// A panic of take is logged and cuts the pipe. So does take if it ends the goroutine; then Serve does not return.
func (p *Pipe) Serve(ctx context.Context, take func(m *codec.Message, line []byte)) error {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	p.Gone(stop)
	defer p.endLateRead()
	lines := newLines(newAbandonable(p.in, reading.Done()), p.o.MaxBody)
	var m codec.Message
	for {
		line, err := lines.nextLine()
		switch {
		case err == io.EOF:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !p.Open():
			return p.goneError()
		case err == errTooLong:
			p.refuseLine(ctx, refuseSize(p.o.MaxBody))
		case err != nil:
			return fmt.Errorf("transport: read: %w", err)
		case !isBlank(line):
			p.takeLine(ctx, line, &m, take)
		}
	}
}

// endLateRead ends a Read that is left behind, if the reader has deadlines.
func (p *Pipe) endLateRead() {
	if d, ok := p.in.(interface{ SetReadDeadline(time.Time) error }); ok {
		_ = d.SetReadDeadline(past)
	}
}

func (p *Pipe) takeLine(ctx context.Context, line []byte, m *codec.Message, take func(*codec.Message, []byte)) {
	if e := codec.Scan(line, m, p.o.Limits); e != nil {
		refused := refuseMessage(e)
		if e.Code == mcp.CodeInvalidRequest && !isAnswerable(m) {
			p.observeRefusal(refused)
			p.o.Log.DebugContext(ctx, "transport: line is no message and gets no response", "reason", e.Reason)
			return
		}
		p.refuseLine(ctx, refused)
		return
	}
	returned := false
	defer func() {
		if !returned {
			failure := guard.Caught(recover())
			p.o.Log.ErrorContext(ctx, "transport: message handler "+failure.Did(), failure.Attrs()...)
			p.cut(cutPanic)
		}
	}()
	take(m, line)
	returned = true
}

// isAnswerable reports whether a line that was refused as a message is answered. m is what the scan found in it.
func isAnswerable(m *codec.Message) bool {
	if m.Method != nil {
		return m.ID != nil
	}
	return m.Result == nil && m.Err == nil
}

// refuseLine answers a line that is not given to take. It waits until the peer has read enough.
func (p *Pipe) refuseLine(ctx context.Context, refused *refusal.Refusal) {
	p.observeRefusal(refused)
	if p.Room(ctx) != nil {
		return // Serve finds out why
	}
	b := codec.GetBuffer()
	defer b.Free()
	b.B = codec.AppendError(b.B, refused.ID, refused.Code, refused.Text, nil)
	p.queueMessage(b.B)
}

func (p *Pipe) observeRefusal(refused *refusal.Refusal) {
	if p.o.Observer != nil {
		p.o.Observer.Rejected(refused.Status, refused.Label)
	}
}

// SetSession does nothing: the session is the pipe.
func (p *Pipe) SetSession(string) {}

// Answer writes body if there is one. It returns false if the pipe is closed.
func (p *Pipe) Answer(_ int, body []byte) bool {
	if isBlank(body) {
		return p.Open()
	}
	return p.queueMessage(body)
}

// Accepted does nothing: a notification has no answer.
func (p *Pipe) Accepted() {}

// Reject writes a JSON-RPC error. Without an id there is nothing to answer, and Reject logs the error instead.
func (p *Pipe) Reject(refused *refusal.Refusal) {
	if refused.ID == nil {
		p.o.Log.Debug("transport: rejected a message without an id", "status", refused.Status, "code", refused.Code, "message", refused.Text)
		return
	}
	b := codec.GetBuffer()
	defer b.Free()
	b.B = codec.AppendError(b.B, refused.ID, refused.Code, refused.Text, refused.Data)
	p.queueMessage(b.B)
}

// Open reports whether the pipe takes messages.
func (p *Pipe) Open() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state == streaming
}

// Event writes data, which must be JSON, as one line; empty data is no message. The pipe is cut if it does not fit, see
// PipeOptions.MaxQueued.
func (p *Pipe) Event(_ string, _ int, data []byte) {
	if !isBlank(data) {
		p.queueMessage(data)
	}
}

// Comment does nothing: a pipe needs nothing to stay open, and reading finds out that it is closed.
func (p *Pipe) Comment() {}

// Flush does nothing: queued messages are written at once.
func (p *Pipe) Flush() {}

// queueMessage queues one message, which is not blank. It returns false if it will not be written.
func (p *Pipe) queueMessage(data []byte) bool {
	p.mu.Lock()
	if p.state != streaming {
		p.mu.Unlock()
		return false
	}
	if queued := p.queuedBytes(); queued+len(data)+1 > p.o.MaxQueued && queued >= p.o.MaxQueued/2 {
		p.endAndUnlock(cutQueue, ErrGone)
		return false
	}
	if p.queue == nil {
		p.queue = codec.GetBuffer()
	}
	p.queue.B = append(appendLine(p.queue.B, data), '\n')
	p.startWriter()
	p.mu.Unlock()
	return true
}

// queuedBytes returns the number of bytes that are not written. mu is held.
func (p *Pipe) queuedBytes() int {
	if p.queue == nil {
		return p.writing
	}
	return p.writing + len(p.queue.B)
}

// startWriter makes sure that a writer runs. mu is held.
func (p *Pipe) startWriter() {
	if !p.active {
		p.active = true
		go p.writeQueued()
	}
}

// writeQueued writes until nothing is left, all that is queued at a time.
func (p *Pipe) writeQueued() {
	p.mu.Lock()
	for p.state != gone && p.queue != nil {
		buf := p.queue
		p.queue, p.writing = nil, len(buf.B)
		p.mu.Unlock()
		n, err := p.out.Write(buf.B)
		if err == nil && n < len(buf.B) {
			err = io.ErrShortWrite
		}
		buf.Free()
		p.mu.Lock()
		p.writing = 0
		if err != nil {
			p.endAndUnlock(cutWrite, fmt.Errorf("%w: %w", ErrGone, err))
			return
		}
		if p.room != nil && p.queuedBytes() < p.o.MaxQueued/2 {
			close(p.room)
			p.room = nil
		}
	}
	p.active = false
	if p.state == finishing {
		p.endAndUnlock("", nil)
		return
	}
	p.mu.Unlock()
}

// Room waits until less than half of MaxQueued is queued: then any message fits. It returns ErrGone when the pipe is
// gone, or the cause of ctx.
func (p *Pipe) Room(ctx context.Context) error {
	for {
		p.mu.Lock()
		if p.state == gone {
			p.mu.Unlock()
			return ErrGone
		}
		if p.queuedBytes() < p.o.MaxQueued/2 {
			p.mu.Unlock()
			return nil
		}
		if p.room == nil {
			p.room = make(chan struct{})
		}
		room := p.room
		p.mu.Unlock()
		select {
		case <-room:
		case <-p.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Gone calls f once, on a goroutine of its own, when the pipe is gone: a write failed, it was cut, or it was finished
// and all is written. If the pipe is gone already, Gone does so at once.
func (p *Pipe) Gone(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == gone {
		go f()
		return
	}
	p.onGone = append(p.onGone, f)
}

// Finish closes the pipe once everything queued is written. Messages that come later are ignored.
func (p *Pipe) Finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == streaming {
		p.state = finishing
		p.startWriter()
	}
}

// Wait waits until the pipe is gone, so call Finish or Cut first. It returns nil if all was written, ErrGone (wrapped)
// if not, or the cause of ctx.
func (p *Pipe) Wait(ctx context.Context) error {
	select {
	case <-p.done:
	case <-ctx.Done():
		select {
		case <-p.done:
		default:
			return context.Cause(ctx)
		}
	}
	return p.fault
}

// goneError returns the error that says why the pipe takes no messages any more.
func (p *Pipe) goneError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault != nil {
		return p.fault
	}
	return ErrGone
}

// Cut closes the pipe now; what is queued is lost. A Write that is under way is interrupted if the writer has
// SetWriteDeadline, and is left behind otherwise.
func (p *Pipe) Cut() { p.cut(cutAsked) }

func (p *Pipe) cut(reason string) {
	p.mu.Lock()
	p.endAndUnlock(reason, ErrGone)
}

// endAndUnlock makes the pipe gone. reason says why it is cut; "" means that it ended well. mu is held, and released.
func (p *Pipe) endAndUnlock(reason string, fault error) {
	if p.state == gone {
		p.mu.Unlock()
		return
	}
	p.state, p.fault = gone, fault
	p.queue.Free()
	p.queue = nil
	after := p.onGone
	p.onGone = nil
	close(p.done)
	p.mu.Unlock()
	for _, f := range after {
		go f()
	}
	if reason == "" {
		return
	}
	if d, ok := p.out.(interface{ SetWriteDeadline(time.Time) error }); ok {
		_ = d.SetWriteDeadline(past)
	}
	if p.o.Observer != nil {
		p.o.Observer.Cut(reason)
	}
}
