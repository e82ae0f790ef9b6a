//go:build unix

package keeper

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/troupe-run/troupe/internal/rawio"
)

// A peer is a connection to who uses an engine. The engine's mutex guards it.
type peer struct {
	number  uint64
	version int
	wire    *wire
	frames  []byte   // what it is to be told beside lines
	ready   []*child // that may have something for it
	toFeed  *child   // for which a line has come just now
	closing bool     // whether nothing more is made for it

	written chan struct{} // closed when nothing more is written
	taken   chan struct{} // of one place: frames were taken
}

// maxFrames is how many bytes of answers a peer may leave unread: beyond that it is not read itself. A single answer may be longer.
const maxFrames = 16 << 20

// awaitRoom waits until the peer has read enough of what it is told, or its connection has ended.
func (p *peer) awaitRoom(mu *sync.Mutex) {
	for {
		mu.Lock()
		room := len(p.frames) <= maxFrames
		mu.Unlock()
		if room {
			return
		}
		select {
		case <-p.taken:
		case <-p.written:
			return
		}
	}
}

// sendControl tells the peer something. The caller holds e.mu.
func (p *peer) sendControl(k kind, v any) {
	var err error
	if p.frames, err = appendControl(p.frames, k, v); err != nil {
		p.frames, _ = appendControl(p.frames, kindRefused, refused{0, k.String(), codeMany, err.Error()})
	}
	p.wire.wakeWriter()
}

// hangUp closes the connection after all that the peer is to be told, which one that does not read is not. The caller holds e.mu.
func (p *peer) hangUp() {
	_ = p.wire.conn.SetWriteDeadline(time.Now().Add(hangUpTime))
	p.closing = true
	p.wire.wakeWriter()
}

// hangUpTime is how long a peer has to read what it is told last.
const hangUpTime = 5 * time.Second

// refuse says why a frame was not carried out.
func (p *peer) refuse(request uint64, k kind, err error) {
	code, why := codeOf(err)
	p.sendControl(kindRefused, refused{request, k.String(), code, why})
}

// serve speaks to one connection until it ends. It returns why.
func (e *engine) serve(conn net.Conn) error {
	defer func() { _ = conn.Close() }()
	r := bufio.NewReaderSize(rawio.Of(conn), 64<<10)
	p, err := e.welcomePeer(conn, r)
	if err != nil {
		return err
	}
	go func() {
		defer close(p.written)
		if p.wire.runWriter() == nil {
			_ = conn.Close() // so that reading ends, too
			return
		}
		// A peer that is gone takes nothing more, but what it has said last is to be read.
		_ = conn.SetReadDeadline(time.Now().Add(hangUpTime))
	}()
	for err == nil {
		p.awaitRoom(&e.mu)
		var f frame
		if f, err = readFrame(r); err == nil {
			e.mu.Lock()
			err = e.handleFrame(p, f)
			fed := p.toFeed
			p.toFeed = nil
			e.mu.Unlock()
			if fed != nil {
				fed.tryFeed()
			}
		}
	}
	e.dropPeer(p)
	_ = conn.Close()
	<-p.written
	return err
}

// welcomePeer agrees on a version, and gives the engine to the connection.
func (e *engine) welcomePeer(conn net.Conn, r *bufio.Reader) (*peer, error) {
	_ = conn.SetDeadline(time.Now().Add(helloTime))
	f, err := readFrame(r)
	if err != nil {
		return nil, err
	}
	p := &peer{wire: newWire(conn), written: make(chan struct{}), taken: make(chan struct{}, 1)}
	p.wire.gather = func(b *batch) { e.gather(p, b) }
	turnAway := func(err error) (*peer, error) {
		p.refuse(0, f.kind, err)
		_, _ = conn.Write(p.frames)
		return nil, err
	}
	if f.kind != kindHello {
		return turnAway(fmt.Errorf("%w: %v came before hello", ErrUnknown, f.kind))
	}
	h, err := decodeFirst[hello](f)
	if err != nil {
		return turnAway(fmt.Errorf("%w: %w", ErrUnknown, err))
	}
	if p.version = min(h.Newest, newestVersion); p.version < max(h.Oldest, oldestVersion) {
		return turnAway(fmt.Errorf("%w: this one speaks %d to %d, the other %d to %d", ErrVersion, oldestVersion, newestVersion, h.Oldest, h.Newest))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	again := h.Life != ""
	switch {
	case again && h.Life != e.life:
		return turnAway(fmt.Errorf("%w: the keeper has ended, and another one is in its place", ErrEnding))
	case e.over || e.ending: // what it still has is about to end, too
		return turnAway(fmt.Errorf("%w: the keeper", ErrEnding))
	}
	if p.number, _, err = e.custody.connect(h.Client, h.Number, again, time.Now()); err != nil {
		return turnAway(ErrReplaced)
	}
	old := e.peer
	e.releaseChildren(old)
	if h.Keep != 0 { // of what it will leave; what it finds is kept for it as the one before has said
		e.custody.keep = max(0, h.Keep)
	}
	e.peer = p
	if old != nil {
		old.sendControl(kindReplaced, replaced{})
		old.hangUp()
		e.log.Info("another process has taken over", "pid", h.PID, "release", h.Release)
	}
	_ = conn.SetDeadline(time.Time{}) // before anybody hangs up
	p.sendControl(kindWelcome, welcome{p.version, e.release, os.Getpid(), e.boot, e.life})
	wakeUp(e.runWake)
	return p, nil
}

// dropPeer keeps what a connection had for the next one.
func (e *engine) dropPeer(p *peer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p.closing = true
	e.custody.leave(p.number, e.custody.keep, time.Now())
	e.releaseChildren(p)
	if e.peer == p {
		e.peer = nil
	}
	p.endWire()
	wakeUp(e.runWake)
}

// releaseChildren takes a peer's children from it. The caller holds e.mu.
func (e *engine) releaseChildren(p *peer) {
	if p == nil {
		return
	}
	for _, c := range e.kept {
		if c.holder == p {
			c.holder, c.queued = nil, false
			c.complaints.queue = nil // nobody waits for it
		}
	}
	p.ready = nil
}

// gather collects what there is for a peer. Each child has its turn.
func (e *engine) gather(p *peer, b *batch) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(p.frames) > 0 {
		b.addFrames(p.frames)
		p.frames = nil
		wakeUp(p.taken)
		return
	}
	for n := len(p.ready); n > 0 && !b.full(); n-- {
		c := p.ready[0]
		p.ready = p.ready[1:]
		if c.holder != p {
			continue
		}
		if c.in.written > c.inTold {
			c.inTold = c.in.written
			b.addAck(c.handle, c.inTold)
		}
		for w, ok := c.complaints.takeNext(); ok; w, ok = c.complaints.takeNext() {
			b.addComplaint(c.handle, w)
		}
		for !b.full() {
			number, text, ok := c.out.takeNext()
			if !ok {
				break
			}
			b.addLine(c.handle, number, text)
		}
		if c.queued = c.out.hasNext(); c.queued {
			p.ready = append(p.ready, c)
		}
	}
	if len(p.ready) == 0 {
		p.ready = nil
	}
	if p.closing && b.size == 0 {
		p.endWire()
	}
}

// endWire ends the goroutine that writes. The caller holds e.mu.
func (p *peer) endWire() {
	select {
	case <-p.wire.ended:
	default:
		close(p.wire.ended)
	}
}

// handleFrame carries out one frame. An error ends the connection. The caller holds e.mu.
func (e *engine) handleFrame(p *peer, f frame) error {
	switch f.kind {
	case kindLine:
		handle, number, text, err := readPlace(f.body)
		if err != nil {
			return err
		}
		if c := e.kept[handle]; c != nil && c.holder == p {
			fresh, err := c.in.acceptLine(number, text)
			if err != nil {
				return err
			}
			if fresh {
				p.toFeed = c
			}
		}
		return nil
	case kindAck:
		handle, number, _, err := readPlace(f.body)
		if err != nil {
			return err
		}
		if c := e.kept[handle]; c != nil && c.holder == p {
			freed, err := c.out.ack(number)
			if err != nil {
				return err
			}
			if freed {
				wakeUp(c.room)
			}
		}
		return nil
	case kindRemember:
		handle, name, text, err := readText(f.body)
		if err != nil {
			return err
		}
		if c := e.kept[handle]; c != nil && c.holder == p {
			if err := c.ledger.remember(name, text); err != nil {
				p.refuse(0, f.kind, err)
			}
		}
		return nil
	case kindForget:
		return carryOut(p, f, func(v forget) (uint64, error) {
			if c := e.kept[v.Handle]; c != nil && c.holder == p {
				if e.forgetChild(c); !c.gone {
					c.beginEnd("nobody wants it any more")
				}
			}
			return 0, nil
		})
	}
	if p != e.peer || e.custody.owner != p.number {
		p.refuse(requestOf(f), f.kind, ErrReplaced)
		return nil
	}
	switch f.kind {
	case kindStart:
		return carryOut(p, f, func(v start) (uint64, error) { return v.Request, e.beginStart(p, v) })
	case kindStop:
		return carryOut(p, f, func(v stop) (uint64, error) {
			c := e.kept[v.Handle]
			if c == nil {
				return v.Request, fmt.Errorf("%w: %d", ErrAbsent, v.Handle)
			}
			c.beginEnd(v.Reason)
			p.sendControl(kindDone, done{v.Request})
			return v.Request, nil
		})
	case kindList:
		return carryOut(p, f, func(v list) (uint64, error) {
			if v.Memory {
				go e.tellMemory(p, v.Request)
			} else {
				e.tellList(p, v.Request, nil)
			}
			return v.Request, nil
		})
	case kindAdopt:
		return carryOut(p, f, func(v adopt) (uint64, error) { return v.Request, e.adopt(p, v) })
	case kindBye:
		return carryOut(p, f, func(v bye) (uint64, error) {
			e.custody.bye(p.number, max(0, v.Keep), time.Now())
			e.releaseChildren(p)
			p.sendControl(kindDone, done{v.Request})
			wakeUp(e.runWake)
			return v.Request, nil
		})
	}
	p.refuse(requestOf(f), f.kind, fmt.Errorf("%w: of version %d", ErrUnknown, p.version))
	return nil
}

// carryOut reads the body of a frame and carries it out. What cannot be read, or carried out, is refused; the connection goes on.
func carryOut[T any](p *peer, f frame, do func(T) (uint64, error)) error {
	v, err := decode[T](f)
	if err != nil {
		p.refuse(requestOf(f), f.kind, fmt.Errorf("%w: %w", ErrUnknown, err))
		return nil
	}
	if request, err := do(v); err != nil {
		p.refuse(request, f.kind, err)
	}
	return nil
}

// tellMemory tells what there is, with the memory of each.
func (e *engine) tellMemory(p *peer, request uint64) {
	census := e.takeCensus()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tellList(p, request, e.judge(census))
}

// tellList tells what there is, in frames that are not too long. found has the members of each family, if somebody asked for their memory.
func (e *engine) tellList(p *peer, request uint64, found map[*family][]procEntry) {
	const most = 512 << 10
	answer, size := listed{Request: request}, 0
	for _, c := range e.kept {
		if c.starting || c.forgot {
			continue
		}
		one := c.keptFor(p)
		for _, member := range found[&c.family] {
			one.Memory += member.pages * int64(os.Getpagesize())
		}
		text, _ := json.Marshal(one) // of strings and numbers, which cannot fail
		if size += len(text) + 1; size > most && len(answer.Kept) > 0 {
			answer.More = true
			p.sendControl(kindListed, answer)
			answer, size = listed{Request: request}, len(text)+1
		}
		answer.Kept = append(answer.Kept, one)
	}
	p.sendControl(kindListed, answer)
}
