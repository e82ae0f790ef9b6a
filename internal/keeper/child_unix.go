//go:build unix

package keeper

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// A child is a process of an engine, from its start until it is forgotten. The engine's mutex guards it, but for what goroutines of its own read.
type child struct {
	engine *engine
	handle uint64
	token  string
	spec   Spec
	mark   string
	began  time.Time

	starting bool
	asker    *peer  // who has asked for its start
	request  uint64 // and by which request
	holder   *peer  // whose it is
	queued   bool   // whether the holder's connection has it on its list

	family    family
	wait      syscall.WaitStatus
	waitKnown bool

	feeding    bool      // whether somebody writes to it
	fed        int       // how much of the line that is being written has been
	made       *launched // nil until it has started
	in         handover
	inTold     uint64 // the last number of in that the holder knows to be written
	out        sentLines
	complaints complaints
	ledger     ledger
	stop       stopping
	ending     bool   // whether a goroutine carries out stop
	reason     string // why it is ended
	draining   bool   // whether its output is read whatever waits, because all of it has ended
	forgot     bool   // whether nobody wants what it says any more
	gone       bool
	status     Status

	feedWake chan struct{} // there is a line to write
	room     chan struct{} // there is room for its output
	endWake  chan struct{} // its end may be further
	closed   chan struct{} // its input is
	outDone  chan struct{}
	errDone  chan struct{}
}

func newChild(e *engine, handle uint64, token string, s Spec, mark string, now time.Time) *child {
	c := &child{engine: e, handle: handle, token: token, spec: s, mark: mark, began: now, starting: true}
	c.family.mark = mark
	c.stop.grace, c.stop.term = s.Grace, s.Term
	c.feedWake, c.room, c.endWake = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	c.closed, c.outDone, c.errDone = make(chan struct{}), make(chan struct{}), make(chan struct{})
	return c
}

// wakeUp wakes who waits at a channel of one place.
func wakeUp(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// keptFor returns what others are told of the child.
func (c *child) keptFor(holder *peer) Kept {
	return Kept{
		ID: c.spec.ID, Note: c.spec.Note, PID: c.family.root, Started: c.began, Held: c.holder != nil && c.holder == holder, Ending: c.stop.stage != stageRunning, Exited: c.gone,
		Received: c.in.received.last, Written: c.in.written, Acked: c.out.acked, Last: c.out.last,
	}
}

// feedInput writes the lines that come for a process into its pipe, until its input is closed. It waits in a write as long as the process does not read.
func (c *child) feedInput() {
	for {
		text, shut := c.nextLine()
		switch {
		case shut:
			return
		case text == nil:
			select {
			case <-c.feedWake:
			case <-c.closed:
				return
			}
			continue
		}
		n, err := c.made.input.Write(text)
		c.lineWritten(n, err)
		if err != nil {
			return
		}
	}
}

// tryFeed writes a line that has just come, if that does not wait and nobody else writes. The rest is for feedInput.
func (c *child) tryFeed() {
	text, shut := c.nextLine()
	if shut || text == nil {
		return // who writes now finds it, or nobody may
	}
	n := 0
	if raw, err := c.made.input.SyscallConn(); err == nil {
		_ = raw.Write(func(fd uintptr) bool {
			n = writeNow(fd, text)
			return true
		})
	}
	c.lineWritten(n, nil)
}

// nextLine returns what is to be written next, which is then its caller's to write, until lineWritten. It is nil if there is nothing, or somebody else writes; shut says that the input is closed.
func (c *child) nextLine() (text []byte, shut bool) {
	e := c.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.stop.closed {
		return nil, true
	}
	if c.feeding {
		return nil, false
	}
	line, ok := c.in.beginLine()
	if !ok {
		return nil, false
	}
	c.feeding = true
	return append(line, '\n')[c.fed:], false // the body of a frame has room for it
}

// lineWritten takes how much of that was written.
func (c *child) lineWritten(n int, err error) {
	e := c.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	c.feeding = false
	c.fed += n
	all := c.fed > len(c.in.queue[0])
	c.in.endLine(c.fed > 0, all)
	if all {
		c.fed = 0
		c.scheduleSend(false)
	}
	if len(c.in.queue) > 0 {
		wakeUp(c.feedWake)
	}
	if err != nil && !errors.Is(err, os.ErrClosed) {
		c.beginEnd("its standard input: " + err.Error())
	}
}

// readOutput makes lines of what a process writes, while there is room for them.
func (c *child) readOutput() {
	e := c.engine
	defer close(c.outDone)
	raw, err := c.made.output.SyscallConn()
	if err != nil {
		return
	}
	var s splitter
	var tooLong error
	take := func(piece []byte) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if tooLong == nil {
			tooLong = s.split(piece, c.addLine)
		}
	}
	for tooLong == nil {
		if !c.awaitRoom(&s) {
			continue
		}
		if err = readPiece(raw, take); err != nil {
			break
		}
		c.flushOutput()
	}
	if tooLong != nil {
		e.mu.Lock()
		c.beginEnd("its standard output: " + tooLong.Error())
		e.mu.Unlock()
		_ = c.made.output.Close()
		return
	}
	if errors.Is(err, os.ErrDeadlineExceeded) { // somebody else has the pipe
		emptyPipe(raw, take)
	}
	e.mu.Lock()
	if rest, ok := s.rest(); ok {
		c.addLine(rest)
	}
	e.mu.Unlock()
	c.flushOutput()
}

// addLine numbers a line of a process.
func (c *child) addLine(line []byte) {
	if c.forgot {
		return
	}
	c.out.add(line)
	c.enqueue()
}

// flushOutput has what a child has written told to its holder.
func (c *child) flushOutput() {
	e := c.engine
	e.mu.Lock()
	var w *wire
	if c.holder != nil && c.queued {
		w = c.holder.wire
	}
	e.mu.Unlock()
	if w != nil {
		w.tryWrite()
	}
}

// awaitRoom waits until the window has room, and reports whether it has. What a process has left in its pipe at its end is read anyway.
func (c *child) awaitRoom(s *splitter) bool {
	e := c.engine
	e.mu.Lock()
	room := !c.out.full(len(s.part)) || c.draining || c.forgot
	e.mu.Unlock()
	if !room {
		<-c.room
	}
	return room
}

// readStderr relays what a process complains of, as much of it as may be.
func (c *child) readStderr() {
	e := c.engine
	defer close(c.errDone)
	raw, err := c.made.stderr.SyscallConn()
	if err != nil {
		return
	}
	take := func(piece []byte) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if c.complaints.write(piece, time.Now(), c.holder != nil) {
			c.scheduleSend(true)
		}
	}
	for err == nil {
		err = readPiece(raw, take)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		emptyPipe(raw, take)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(c.complaints.part) > 0 {
		c.complaints.finishLine(time.Now(), c.holder != nil)
	}
}

// prepareBadge has the next process of a keeper have a badge. Another program's limits are its own.
func (c *child) prepareBadge() {
	e := c.engine
	if e.forest.keeper == 0 {
		return
	}
	badge, err := setNewBadge()
	if err != nil {
		e.log.Warn("a descendant may be lost that leaves its parents, its session and its environment", "id", c.spec.ID, "why", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c.family.badge = badge
}

// scheduleSend says that the holder of a child may have something to be told: now, or when there is more. The caller holds e.mu.
func (c *child) scheduleSend(now bool) {
	if c.holder == nil {
		return
	}
	c.enqueue()
	if now {
		c.holder.wire.wakeWriter()
	} else {
		c.holder.wire.scheduleWrite()
	}
}

// enqueue has what a child has for its holder gathered the next time. The caller holds e.mu.
func (c *child) enqueue() {
	if c.holder != nil && !c.queued {
		c.queued = true
		c.holder.ready = append(c.holder.ready, c)
	}
}

func (c *child) group() *cgroup {
	if c.made == nil {
		return nil
	}
	return c.made.group
}

// tellExit tells the holder how a child ended. Lines of it may follow.
func (c *child) tellExit() {
	c.holder.sendControl(kindExited, exited{c.handle, c.status})
}
