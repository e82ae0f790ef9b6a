package keeper

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/troupe-run/troupe/internal/rawio"
)

// Errors of a connection to a keeper.
var (
	// ErrEnded reports that the keeper has ended, and with it its processes; what one that was killed has left of them is ended by the next one at its socket. What was sent and not acknowledged may have been read, or not.
	ErrEnded = errors.New("keeper: it has ended")

	// ErrClosed reports that [Client.Close] was called. The processes of a keeper live on.
	ErrClosed = errors.New("keeper: the connection is closed")
)

// Options are what a [Client] is made with.
type Options struct {
	// Socket is the path of the keeper's socket.
	Socket string

	// Release is what the keeper is told of this program.
	Release string

	// Log gets what goes wrong between this process and the keeper. Nil is slog.Default.
	Log *slog.Logger

	// Stderr gets each line of standard error that is relayed, with the number of lines that were left out before it. It is called on the goroutine that reads from the keeper, so that it must
	// not wait. Nil drops them; [Status] has the last ones anyway.
	Stderr func(id string, line []byte, dropped int)

	keep     time.Duration // what Launch.Keep says, for a keeper that is there already
	patience time.Duration // how long Join waits for one that somebody starts anew, if not serviceTime
}

// A Client uses a keeper. It connects again when the connection breaks while the keeper lives; who has the keeper's processes does not see that.
type Client struct {
	options Options
	redial  func(context.Context) (net.Conn, error) // nil where there is no second connection
	token   string                                  // what no other client has: one that connects again takes nothing from a newer one
	ended   chan struct{}
	stop    context.CancelFunc // ends what run waits for
	after   func()             // what Close waits for

	mu     sync.Mutex
	about  welcome
	hellos uint64 // how many connections it has tried
	outbox
	last      uint64 // the number of the newest request
	requests  map[uint64]*request
	processes map[uint64]*Process          // by handle
	recalled  map[uint64]map[string][]byte // what is remembered of processes that are about to be adopted
	failure   error                        // why nothing follows
	broken    int                          // how often the connection has broken soon after it was made
	parted    bool                         // whether the keeper knows that this process ends
	detail    error                        // how the keeper's process ended, if it is a child of this one
}

// A request waits for its answer.
type request struct {
	kind   kind
	body   any
	answer func(frame) error // takes an answer; called with Client.mu
	refuse func(error)       // takes that it is refused; called likewise
	late   func(frame) error // takes one that nobody waits for any more, if that must not be lost
	done   chan error        // of one place
	silent bool              // whether it is made again with each connection by what it is about
}

// Dial connects to a keeper. With [ErrEnding] there is one that is about to end: as if there were none, since [Spawn] waits for it.
func Dial(ctx context.Context, o Options) (*Client, error) {
	redial := func(ctx context.Context) (net.Conn, error) { return dial(ctx, o.Socket) }
	conn, err := redial(ctx)
	if err != nil {
		return nil, fmt.Errorf("keeper: dial %s: %w", o.Socket, err)
	}
	return newClient(ctx, o, conn, redial)
}

// newClient greets the keeper at a connection, and goes on with it.
func newClient(ctx context.Context, o Options, conn net.Conn, redial func(context.Context) (net.Conn, error)) (*Client, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	c := &Client{options: o, redial: redial, token: newToken(), ended: make(chan struct{}), requests: map[uint64]*request{}, processes: map[uint64]*Process{}, recalled: map[uint64]map[string][]byte{}}
	r, err := c.greetKeeper(ctx, conn)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	running, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.wire = c.newWire(conn)
	go c.run(running, conn, r)
	return c, nil
}

// greetKeeper agrees on a version.
func (c *Client) greetKeeper(ctx context.Context, conn net.Conn) (*bufio.Reader, error) {
	until, ok := ctx.Deadline()
	if most := time.Now().Add(helloTime); !ok || until.After(most) {
		until = most
	}
	_ = conn.SetDeadline(until)
	defer func() { _ = conn.SetDeadline(time.Time{}) }()
	c.mu.Lock()
	life := c.about.Life
	c.hellos++
	number := c.hellos
	c.mu.Unlock()
	text, err := appendControl(nil, kindHello, hello{oldestVersion, newestVersion, c.options.Release, os.Getpid(), c.token, life, number, c.options.keep})
	if err == nil {
		_, err = conn.Write(text)
	}
	if err != nil {
		return nil, sayHungUp(err)
	}
	r := bufio.NewReaderSize(rawio.Of(conn), 64<<10)
	f, err := readFrame(r)
	if err != nil {
		return nil, sayHungUp(err)
	}
	switch f.kind {
	case kindWelcome:
		w, err := decodeFirst[welcome](f)
		if err == nil && (w.Version < oldestVersion || w.Version > newestVersion) {
			err = fmt.Errorf("%w: it chose %d", ErrVersion, w.Version)
		}
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.about = w
		return r, nil
	case kindRefused:
		v, err := decode[refused](f)
		if err != nil {
			return nil, err
		}
		return nil, v.error()
	}
	return nil, fmt.Errorf("%w: %v came for hello", errFrame, f.kind)
}

// sayHungUp says of an error of the first words whether it is that the other side has closed the connection.
func sayHungUp(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("%w: hello: %w", errHungUp, err)
	}
	return fmt.Errorf("keeper: hello: %w", err)
}

// run speaks over a connection and those after it.
func (c *Client) run(ctx context.Context, conn net.Conn, r *bufio.Reader) {
	defer close(c.ended)
	for {
		begun := time.Now()
		err := c.runConnection(ctx, conn, r)
		if c.broken++; time.Since(begun) > time.Second {
			c.broken = 0
		}
		if ctx.Err() != nil {
			err = ErrClosed
		} else if !errors.Is(err, ErrReplaced) {
			if conn, r, err = c.connectAgain(ctx, err); err == nil {
				continue
			}
		}
		c.fail(err)
		return
	}
}

// runConnection speaks over one connection until it ends, and returns why.
func (c *Client) runConnection(ctx context.Context, conn net.Conn, r *bufio.Reader) error {
	unwatch := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer unwatch()
	c.mu.Lock()
	w := c.wire
	c.mu.Unlock()
	written := make(chan struct{})
	go func() {
		defer close(written)
		_ = w.runWriter()
		_ = conn.Close()
	}()
	var err error
	for err == nil {
		var f frame
		if f, err = readFrame(r); err == nil {
			err = c.handleFrame(f)
		}
	}
	c.mu.Lock()
	c.wire = nil
	c.mu.Unlock()
	close(w.ended)
	_ = conn.Close()
	<-written
	return err
}

// connectAgain connects to the same keeper, and has what was asked for and not answered asked for again.
func (c *Client) connectAgain(ctx context.Context, why error) (net.Conn, *bufio.Reader, error) {
	c.mu.Lock()
	parted := c.parted
	c.mu.Unlock()
	if c.redial == nil || parted {
		return nil, nil, fmt.Errorf("%w: %w", ErrEnded, why)
	}
	c.options.Log.Warn("keeper: the connection is lost", "why", why)
	wait := 10 * time.Millisecond << min(c.broken, 7)
	if c.broken > 1 { // it is no accident
		sleep(ctx, wait)
	}
	for ; ; wait = min(2*wait, time.Second) {
		conn, err := c.redial(ctx)
		var r *bufio.Reader
		if err == nil {
			if r, err = c.greetKeeper(ctx, conn); err == nil {
				c.resume(conn)
				return conn, r, nil
			}
			_ = conn.Close()
		}
		switch {
		case ctx.Err() != nil:
			return nil, nil, ErrClosed
		case nobodyThere(err), errors.Is(err, ErrEnding): // it is gone
			return nil, nil, fmt.Errorf("%w: %w", ErrEnded, err)
		case errors.Is(err, ErrEnded), errors.Is(err, ErrReplaced), errors.Is(err, ErrVersion), errors.Is(err, ErrUnknown):
			return nil, nil, err
		}
		sleep(ctx, wait)
	}
}

// resume begins another connection: processes are adopted again first, then comes what was not answered.
func (c *Client) resume(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wire = c.newWire(conn)
	c.frames, c.ready = nil, nil
	clear(c.recalled)
	maps.DeleteFunc(c.requests, func(_ uint64, r *request) bool { return r.silent })
	for _, p := range c.processes {
		p.attached, p.queued = false, false
		c.adoptAgain(p)
	}
	for _, number := range slices.Sorted(maps.Keys(c.requests)) {
		if r := c.requests[number]; !r.silent {
			c.sendControl(r.kind, r.body)
		}
	}
}

func (c *Client) newWire(conn net.Conn) *wire {
	w := newWire(conn)
	w.gather = func(b *batch) { c.gather(w, b) }
	return w
}

// takeRecalled returns what the keeper has told that is remembered of a process, once. The caller holds c.mu.
func (c *Client) takeRecalled(handle uint64) map[string][]byte {
	texts := c.recalled[handle]
	delete(c.recalled, handle)
	return texts
}

// ask sends a request, whose body is made of its number, and waits for the answer.
func (c *Client) ask(ctx context.Context, k kind, body func(number uint64) any, answer, late func(frame) error) error {
	r := &request{kind: k, answer: answer, late: late, done: make(chan error, 1)}
	c.mu.Lock()
	if c.failure != nil {
		defer c.mu.Unlock()
		return c.failure
	}
	c.last++
	number := c.last
	r.body = body(number)
	if _, err := appendControl(nil, k, r.body); err != nil {
		defer c.mu.Unlock()
		return err
	}
	c.requests[number] = r
	c.sendControl(k, r.body)
	c.mu.Unlock()
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		select {
		case err := <-r.done: // it was answered just now
			return err
		default:
		}
		if r.answer = late; late == nil {
			delete(c.requests, number)
		}
		return fmt.Errorf("keeper: %v: %w", k, context.Cause(ctx))
	}
}

// handleFrame takes one frame. An error ends the connection.
func (c *Client) handleFrame(f frame) error {
	c.mu.Lock()
	switch f.kind {
	case kindLine:
		defer c.mu.Unlock()
		handle, number, text, err := readPlace(f.body)
		if p := c.processes[handle]; err == nil && p != nil && p.attached {
			err = p.acceptLine(number, text)
		}
		return err
	case kindAck:
		defer c.mu.Unlock()
		handle, number, _, err := readPlace(f.body)
		if p := c.processes[handle]; err == nil && p != nil && p.attached {
			err = p.markHandedOver(number)
		}
		return err
	case kindRecall: // before the process is adopted
		defer c.mu.Unlock()
		handle, name, text, err := readText(f.body)
		if err == nil && c.recalled[handle] == nil {
			c.recalled[handle] = make(map[string][]byte)
		}
		if err == nil {
			c.recalled[handle][name] = text
		}
		return err
	case kindStderr:
		handle, dropped, text, err := readComplaint(f.body)
		p := c.processes[handle]
		c.mu.Unlock()
		if err == nil && p != nil && c.options.Stderr != nil {
			c.options.Stderr(p.id, text, dropped)
		}
		return err
	}
	defer c.mu.Unlock()
	switch f.kind {
	case kindExited:
		v, err := decode[exited](f)
		if p := c.processes[v.Handle]; err == nil && p != nil {
			p.recordEnd(&v.Status, nil)
		}
		return err
	case kindReplaced:
		return ErrReplaced
	case kindRefused:
		v, err := decode[refused](f)
		if err != nil {
			return err
		}
		r := c.requests[v.Request]
		if r == nil {
			c.options.Log.Warn("keeper: it refuses a frame", "frame", v.Frame, "why", v.Why)
			return nil
		}
		delete(c.requests, v.Request)
		if r.refuse != nil {
			r.refuse(v.error())
		}
		r.done <- v.error()
		return nil
	case kindDone, kindStarted, kindListed, kindAdopted:
		number := requestOf(f)
		r := c.requests[number]
		if r == nil {
			return nil // nobody waits any more
		}
		err := r.answer(f)
		if errors.Is(err, errMore) {
			return nil
		}
		delete(c.requests, number)
		r.done <- err
		return nil
	}
	// A keeper tells only what the version has that both know.
	return fmt.Errorf("%w: %v from a keeper of version %d", errFrame, f.kind, c.about.Version)
}

// errMore says that another frame belongs to an answer.
var errMore = errors.New("keeper: more follows")

// gather collects what there is for the keeper. Each process has its turn. For a connection that has broken there is nothing: what it took would be lost for the next one.
func (c *Client) gather(w *wire, b *batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wire != w {
		return
	}
	if len(c.frames) > 0 {
		b.addFrames(c.frames)
		c.frames = nil
	}
	for n := len(c.ready); n > 0 && !b.full(); n-- {
		p := c.ready[0]
		c.ready = c.ready[1:]
		p.queued = false
		if p.attached {
			p.gather(b)
		}
	}
	if len(c.ready) == 0 {
		c.ready = nil
	}
}

// fail ends all that waits: nothing follows.
func (c *Client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.detail != nil && errors.Is(err, ErrEnded) {
		err = fmt.Errorf("%w: %w", ErrEnded, c.detail)
	}
	c.failure = err
	for _, r := range c.requests {
		select {
		case r.done <- err:
		default:
		}
	}
	clear(c.requests)
	for _, p := range c.processes {
		p.recordEnd(nil, err)
	}
}

// Ended is closed when nothing more comes from the keeper: [Client.Err] says why.
func (c *Client) Ended() <-chan struct{} { return c.ended }

// Err returns why nothing more comes: [ErrEnded], [ErrReplaced], [ErrClosed] or another error. It is nil before.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure
}

// PID returns the process of the keeper.
func (c *Client) PID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.about.PID
}

// Release returns what the keeper was told of its release, by who started it.
func (c *Client) Release() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.about.Release
}

// Boot returns what the marks of the keeper's processes begin with.
func (c *Client) Boot() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.about.Boot
}

// Bye tells the keeper that this process ends, and how long its processes are kept for the next one; zero ends them. Nothing but Close may follow.
func (c *Client) Bye(ctx context.Context, keep time.Duration) error {
	return c.ask(ctx, kindBye, func(n uint64) any { return bye{n, keep} }, func(f frame) error {
		_, err := decode[done](f)
		c.parted = c.parted || err == nil
		return err
	}, nil)
}

// Close ends the connection. The keeper keeps the processes for as long as it was told, or else for as long as it does. Those of [StartEmbedded] end, and Close waits for that. The second time it does nothing.
func (c *Client) Close() error {
	c.stop()
	<-c.ended
	if c.after != nil {
		c.after()
	}
	return nil
}

// List returns the processes of the keeper.
func (c *Client) List(ctx context.Context) ([]Kept, error) { return c.list(ctx, false) }

// ListWithMemory is [Client.List] with the memory of each process, for which the keeper looks at all processes of the system.
func (c *Client) ListWithMemory(ctx context.Context) ([]Kept, error) { return c.list(ctx, true) }

func (c *Client) list(ctx context.Context, memory bool) ([]Kept, error) {
	var all []Kept
	err := c.ask(ctx, kindList, func(n uint64) any { return list{n, memory} }, func(f frame) error {
		v, err := decode[listed](f)
		all = append(all, v.Kept...)
		if err == nil && v.More {
			return errMore
		}
		return err
	}, nil)
	slices.SortFunc(all, func(a, b Kept) int { return a.Started.Compare(b.Started) })
	return all, err
}

func (c *Client) newProcess(id, note string, handle uint64, pid int, unenforced []string) *Process {
	p := &Process{client: c, id: id, note: note, pid: pid, handle: handle, unenforced: unenforced, exited: make(chan struct{}), attached: true}
	c.processes[handle] = p
	return p
}

// Start starts a process. If the context ends first, a process that is started nevertheless is ended again.
func (c *Client) Start(ctx context.Context, s Spec) (*Process, error) {
	if err := s.checkAndFill(); err != nil {
		return nil, err
	}
	var p *Process
	token := newToken()
	err := c.ask(ctx, kindStart, func(n uint64) any { return start{n, token, s} }, func(f frame) error {
		v, err := decode[started](f)
		if err == nil {
			p = c.newProcess(s.ID, s.Note, v.Handle, v.PID, v.Unenforced)
		}
		return err
	}, func(f frame) error {
		v, err := decode[started](f)
		if err == nil {
			c.sendControl(kindForget, forget{v.Handle})
		}
		return err
	})
	return p, err
}

// Adopt takes over a process that an earlier client has left. have is the number of the last of its lines that has been dealt with, or 0: those after it that nobody has acknowledged are received again. What
// the earlier client has sent to it is in its pipe, or goes there: [Kept.Received] of the list says which line was the last, and the next one that is sent has the number after it. If the
// context ends first, a process that is adopted nevertheless is ended.
func (c *Client) Adopt(ctx context.Context, id string, have uint64) (*Process, error) {
	var p *Process
	err := c.ask(ctx, kindAdopt, func(n uint64) any { return adopt{n, id, have} }, func(f frame) error {
		v, err := decode[adopted](f)
		if err != nil {
			return err
		}
		if p = c.processes[v.Handle]; p != nil {
			p = nil
			return fmt.Errorf("%w: %s has been adopted here", ErrExists, id)
		}
		p = c.newProcess(id, v.Kept.Note, v.Handle, v.Kept.PID, v.Unenforced)
		p.out.inherit(v.Kept.Received, v.Pending)
		p.in.last = max(have, v.Kept.Acked)
		p.acked, p.ackTold = p.in.last, v.Kept.Acked
		for name, text := range c.takeRecalled(v.Handle) {
			_ = p.ledger.remember(name, text) // the keeper had room for all of it
		}
		c.scheduleSend(p, false)
		if v.Status != nil {
			p.recordEnd(v.Status, nil)
		}
		return nil
	}, func(f frame) error { // it is held by this connection, where nobody knows of it
		v, err := decode[adopted](f)
		if err == nil && c.processes[v.Handle] == nil {
			c.takeRecalled(v.Handle)
			c.sendControl(kindForget, forget{v.Handle})
		}
		return err
	})
	return p, err
}

// adoptAgain adopts a process over another connection. The caller holds c.mu.
func (c *Client) adoptAgain(p *Process) {
	c.last++
	body := adopt{c.last, p.id, p.in.last}
	r := &request{kind: kindAdopt, body: body, silent: true, done: make(chan error, 1)}
	r.answer = func(f frame) error {
		v, err := decode[adopted](f)
		if err == nil && v.Handle != p.handle {
			err = fmt.Errorf("%w: another process has the id %s", ErrAbsent, p.id)
		}
		if err == nil {
			err = p.out.resume(v.Kept.Received)
		}
		if err != nil {
			p.recordEnd(nil, err)
			return err
		}
		p.attached = true
		for name := range c.takeRecalled(p.handle) {
			if p.ledger.texts[name] == nil { // it was forgotten meanwhile
				c.remember(p.handle, name, nil)
			}
		}
		for _, name := range p.ledger.names() {
			c.remember(p.handle, name, p.ledger.texts[name])
		}
		p.ackTold = v.Kept.Acked
		_ = p.markHandedOver(v.Kept.Written) // which is at most what it has
		c.scheduleSend(p, true)
		if v.Status != nil {
			p.recordEnd(v.Status, nil)
		}
		return nil
	}
	r.refuse = func(err error) { p.recordEnd(nil, err) }
	c.requests[c.last] = r
	c.sendControl(kindAdopt, body)
}
