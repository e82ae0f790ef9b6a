package keeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
)

// Errors of lines.
var (
	// ErrLine reports that a line is longer than [MaxLine], or has an end of a line within it. It was not sent.
	ErrLine = errors.New("keeper: bad line")

	// ErrExited reports that a process has ended, and all that it has said was received. [Process.Status] says how.
	ErrExited = errors.New("keeper: the process has ended")

	// ErrUnsent reports that nothing of a line reached the process, and nothing of it will.
	ErrUnsent = errors.New("keeper: the line did not reach the process")

	// ErrUnknownFate reports that some of a line, or all of it, may have reached the process, and nobody can say.
	ErrUnknownFate = errors.New("keeper: the line may have reached the process")
)

// A Line is what a process wrote, without the end of the line. Numbers begin with 1 and have no gaps.
type Line struct {
	Number uint64
	Text   []byte
}

// A Fate says how far a line to a process is.
type Fate int

const (
	// Waiting is a line that the process may still get.
	Waiting Fate = iota

	// HandedOver is a line that is wholly in the pipe of the process.
	HandedOver

	// Unsent is a line of which nothing reached the process, and nothing will.
	Unsent

	// Unknown is a line of which a part may have reached the process, or all.
	Unknown
)

// A Process is one that a keeper has, as this process sees it. Any goroutine may call its methods.
type Process struct {
	client     *Client
	id         string
	pid        int
	handle     uint64
	unenforced []string
	exited     chan struct{}

	// The client's mutex guards what follows.
	note     string
	attached bool // whether the keeper takes and sends lines over this connection
	queued   bool // whether the client has it on its list
	dropped  bool // whether nobody wants what it says
	out      sentLines
	ever     uint64 // the last line that was ever sent
	in       receivedLines
	inbox    []Line
	acked    uint64 // the last line that was acknowledged here
	ackTold  uint64 // and there
	status   *Status
	failure  error
	ledger   ledger
	news     broadcast // that something came, was acknowledged or has ended
}

// A broadcast wakes all that wait. The zero value has nobody.
type broadcast struct{ c chan struct{} }

func (b *broadcast) waitChannel() <-chan struct{} {
	if b.c == nil {
		b.c = make(chan struct{})
	}
	return b.c
}

func (b *broadcast) wake() {
	if b.c != nil {
		close(b.c)
		b.c = nil
	}
}

// ID returns the name of the process among those of its keeper.
func (p *Process) ID() string { return p.id }

// Note returns what its [Spec] has for whoever adopts it.
func (p *Process) Note() string { return p.note }

// Remember has the keeper remember a text by a name, of at most 256 bytes, for whoever adopts the process; an empty text is
// forgotten. The keeper gets it before any line, and any acknowledgement, that follows. It is on its way when Remember returns,
// so that the end of this program does not take it along, unless the keeper reads too slowly, for which Remember waits 0.1 s at
// most. The text must not change any more. [ErrMany] says that more than 8 MiB of texts would be remembered of the process, in
// which case nothing changes.
func (p *Process) Remember(name string, text []byte) error {
	p.client.mu.Lock()
	err := p.endCause()
	if err == nil {
		err = p.ledger.remember(name, text)
	}
	var w *wire
	if err == nil && p.attached { // otherwise it is told with the next connection
		w = p.client.remember(p.handle, name, text)
	}
	p.client.mu.Unlock()
	if w != nil {
		w.flush()
	}
	return err
}

// Remembered returns what is remembered of the process, by name. The texts are not to be changed.
func (p *Process) Remembered() map[string][]byte {
	p.client.mu.Lock()
	defer p.client.mu.Unlock()
	return maps.Clone(p.ledger.texts)
}

// PID returns its number in the system.
func (p *Process) PID() int { return p.pid }

// Unenforced returns what it is not confined to though its [Spec] would try, and why.
func (p *Process) Unenforced() []string { return p.unenforced }

// Send sends a line, which must not change any more, and returns its number. It waits while the process does not read and [Window] is full. It does not wait until the line is handed over: [Process.Fate]
// says that, and [Process.HandedOver] waits. With an error nothing was sent.
func (p *Process) Send(ctx context.Context, line []byte) (uint64, error) {
	if len(line) > MaxLine {
		return 0, fmt.Errorf("%w: it has %d bytes, of at most %d", ErrLine, len(line), MaxLine)
	}
	if bytes.IndexByte(line, '\n') >= 0 {
		return 0, fmt.Errorf("%w: it has an end of a line within it", ErrLine)
	}
	for {
		p.client.mu.Lock()
		if err := p.endCause(); err != nil {
			p.client.mu.Unlock()
			return 0, err
		}
		if !p.out.full(0) {
			number := p.out.add(line)
			w := p.client.wire
			there := p.client.enqueue(p)
			p.client.mu.Unlock()
			if there {
				w.tryWrite()
			}
			return number, nil
		}
		news := p.news.waitChannel()
		p.client.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return 0, fmt.Errorf("keeper: send: %w", context.Cause(ctx))
		}
	}
}

// endCause returns why nothing more can be sent.
func (p *Process) endCause() error {
	switch {
	case p.failure != nil:
		return p.failure
	case p.status != nil:
		return fmt.Errorf("%w: %v", ErrExited, *p.status)
	}
	return nil
}

// Fate says how far a line is that Send has returned the number of.
func (p *Process) Fate(number uint64) Fate {
	p.client.mu.Lock()
	defer p.client.mu.Unlock()
	return p.fate(number)
}

func (p *Process) fate(number uint64) Fate {
	switch {
	case number <= p.out.acked:
		return HandedOver
	case p.status != nil && number <= p.status.Written:
		return HandedOver
	case p.status != nil && number <= p.status.Begun:
		return Unknown
	case p.status != nil:
		return Unsent
	case p.failure != nil && number <= p.ever:
		return Unknown
	case p.failure != nil:
		return Unsent
	}
	return Waiting
}

// HandedOver waits until a line is handed over. It returns [ErrUnsent] or [ErrUnknownFate] if it will not be.
func (p *Process) HandedOver(ctx context.Context, number uint64) error {
	for {
		p.client.mu.Lock()
		fate, why, news := p.fate(number), p.endCause(), p.news.waitChannel()
		p.client.mu.Unlock()
		switch fate {
		case HandedOver:
			return nil
		case Unsent:
			return fmt.Errorf("%w: %w", ErrUnsent, why)
		case Unknown:
			return fmt.Errorf("%w: %w", ErrUnknownFate, why)
		}
		select {
		case <-news:
		case <-ctx.Done():
			return fmt.Errorf("keeper: %w", context.Cause(ctx))
		}
	}
}

// Receive returns the next line of the process, and waits for it. Until [Process.Ack] the keeper keeps the line, for this process or the next. After the last line it returns [ErrExited], or why the
// connection to the keeper has ended.
func (p *Process) Receive(ctx context.Context) (Line, error) {
	for {
		p.client.mu.Lock()
		if len(p.inbox) > 0 {
			line := p.inbox[0]
			p.inbox[0] = Line{}
			if p.inbox = p.inbox[1:]; len(p.inbox) == 0 {
				p.inbox = nil
			}
			p.client.mu.Unlock()
			return line, nil
		}
		var err error
		switch {
		case p.dropped:
			err = ErrExited
		case p.status != nil && p.in.last >= p.status.Last:
			err = fmt.Errorf("%w: %v", ErrExited, *p.status)
		case p.failure != nil:
			err = p.failure
		}
		news := p.news.waitChannel()
		p.client.mu.Unlock()
		if err != nil {
			return Line{}, err
		}
		select {
		case <-news:
		case <-ctx.Done():
			return Line{}, fmt.Errorf("keeper: receive: %w", context.Cause(ctx))
		}
	}
}

// Ack says that the lines up to a number have been dealt with: the keeper forgets them. When the process has ended and all its lines are acknowledged, it forgets the process.
func (p *Process) Ack(number uint64) {
	p.client.mu.Lock()
	defer p.client.mu.Unlock()
	if number = min(number, p.in.last); number <= p.acked {
		return
	}
	p.acked = number
	p.client.scheduleSend(p, false)
	p.forgetIfOver()
}

// forgetIfOver has the keeper forget a process that has ended and has nothing more to say.
func (p *Process) forgetIfOver() {
	if p.status != nil && p.acked >= p.status.Last {
		p.drop()
	}
}

// drop has the keeper forget the process.
func (p *Process) drop() {
	if p.client.processes[p.handle] == p {
		delete(p.client.processes, p.handle)
		p.client.sendControl(kindForget, forget{p.handle})
	}
}

// Forget drops what the process has said and will say, in place of [Process.Ack]: once it has ended, the keeper forgets it. It does not end the process.
func (p *Process) Forget() {
	p.client.mu.Lock()
	defer p.client.mu.Unlock()
	p.dropped, p.inbox = true, nil
	p.acked = p.in.last
	if p.status != nil {
		p.drop()
	}
	p.client.scheduleSend(p, true)
	p.news.wake()
}

// Stop ends the process and all its descendants: see [Spec.Grace]. It waits until none is left. The reason becomes that of its [Status].
func (p *Process) Stop(ctx context.Context, reason string) (Status, error) {
	err := p.client.ask(ctx, kindStop, func(n uint64) any { return stop{n, p.handle, reason} }, func(f frame) error {
		_, err := decode[done](f)
		return err
	}, nil)
	if err != nil && !errors.Is(err, ErrAbsent) {
		return Status{}, err
	}
	select {
	case <-p.exited:
	case <-ctx.Done():
		return Status{}, fmt.Errorf("keeper: stop: %w", context.Cause(ctx))
	}
	return p.Status()
}

// Exited is closed when the process and its descendants have ended, or nobody can say any more.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Status says how it ended, after Exited is closed. It returns an error if that is not known, because the keeper has ended or was taken over.
func (p *Process) Status() (Status, error) {
	p.client.mu.Lock()
	defer p.client.mu.Unlock()
	switch {
	case p.status != nil:
		return *p.status, nil
	case p.failure != nil:
		return Status{}, p.failure
	}
	return Status{}, errors.New("keeper: the process runs")
}

// EndedWithKeeper reports, after Exited is closed, whether the process has ended because its keeper has, or was about to: another keeper can start it.
func (p *Process) EndedWithKeeper() bool {
	p.client.mu.Lock()
	defer p.client.mu.Unlock()
	if p.status != nil {
		return p.status.Reason == keeperEnds
	}
	return errors.Is(p.failure, ErrEnded)
}

// gather collects what the process has for the keeper. The caller holds the client's mutex, as for all that follows.
func (p *Process) gather(b *batch) {
	if p.acked > p.ackTold {
		p.ackTold = p.acked
		b.addAck(p.handle, p.acked)
	}
	for !b.full() {
		number, text, ok := p.out.takeNext()
		if !ok {
			return
		}
		p.ever = max(p.ever, number)
		b.addLine(p.handle, number, text)
	}
	if p.out.hasNext() {
		p.queued = true
		p.client.ready = append(p.client.ready, p)
	}
}

// acceptLine takes a line of the process.
func (p *Process) acceptLine(number uint64, text []byte) error {
	fresh, err := p.in.acceptLine(number)
	if err != nil || !fresh {
		return err
	}
	if p.dropped {
		p.acked = number
		p.client.scheduleSend(p, false)
		p.forgetIfOver()
		return nil
	}
	p.inbox = append(p.inbox, Line{number, text})
	p.news.wake()
	return nil
}

// markHandedOver takes that lines up to a number are in the pipe.
func (p *Process) markHandedOver(number uint64) error {
	_, err := p.out.ack(number)
	p.news.wake()
	return err
}

// recordEnd takes how the process ended, or why nobody can say.
func (p *Process) recordEnd(s *Status, err error) {
	if p.status != nil || p.failure != nil {
		return
	}
	p.status, p.failure = s, err
	close(p.exited)
	p.news.wake()
	p.forgetIfOver()
	if p.dropped {
		p.drop()
	}
}
