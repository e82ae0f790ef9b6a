package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/troupe-run/troupe/internal/limits"
)

// minRoom is what the disk must have free before a store that ran out of it
// is started again: less is used up before the first call has ended.
var minRoom = limits.DiskRoom.Value()

const (
	// roomEvery is how often that is looked at.
	roomEvery = 500 * time.Millisecond
	// calmAfter is how long a store must have been able to write for the pauses
	// between restarts to begin again at their shortest.
	calmAfter      = time.Minute
	maxRestartWait = 10 * time.Second

	roomFile = "room.tmp" // in the data directory, while room is looked for
)

// Outage is why the store cannot write.
type Outage struct {
	Since time.Time
	Full  bool // the disk has no room
}

// String says it without a path, for whoever asks from outside.
func (o *Outage) String() string {
	if o.Full {
		return "the disk of the store is full"
	}
	return "the disk of the store cannot be written"
}

// outages watches the embedded server for writes that fail, and starts it again
// when the disk has room. After a failed write the server gives the stream up
// and does not take it up again.
type outages struct {
	node     *Node
	now      atomic.Pointer[Outage] // nil: the store can write
	restarts atomic.Uint64
	failed   chan struct{} // holds one; a write has failed
	stop     chan struct{} // closed to end the loop
	done     chan struct{} // closed when the loop has ended
}

func newOutages(n *Node) *outages {
	return &outages{node: n, failed: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
}

// said hears what the server logs as an error, which is the only way in which
// it tells of a write that failed: whoever published gets no answer. It may be
// called with the server's locks held.
func (o *outages) said(text string) {
	full := noRoom(text)
	if !full && !strings.Contains(text, "Critical write error") && !strings.Contains(text, "failed to store a msg") {
		return
	}
	if !o.now.CompareAndSwap(nil, &Outage{Since: time.Now(), Full: full}) {
		return
	}
	o.node.log.Error("the store cannot write: new work is refused until it can", "error", text)
	select {
	case o.failed <- struct{}{}:
	default:
	}
}

// noRoom reports whether an error's text says that the disk is full.
func noRoom(text string) bool {
	return strings.Contains(text, syscall.ENOSPC.Error()) || strings.Contains(text, syscall.EDQUOT.Error())
}

// Outage is why the store cannot write now, or nil if it can. It ends by
// itself when the disk has room again.
func (n *Node) Outage() *Outage { return n.outages.now.Load() }

// down is the error of a write during an outage: it is not done.
func (n *Node) down() error {
	if o := n.outages.now.Load(); o != nil {
		return fmt.Errorf("%w: %s", ErrRetry, o)
	}
	return nil
}

// run restarts the server after each outage, when there is room.
func (o *outages) run() {
	defer close(o.done)
	wait, healed := time.Duration(0), time.Time{}
	for {
		select {
		case <-o.stop:
			return
		case <-o.failed:
		}
		if time.Since(healed) > calmAfter {
			wait = 0
		}
		for o.now.Load() != nil {
			if !o.pause(max(wait, roomEvery)) {
				return
			}
			if hasRoom(o.node.dir.path) != nil {
				continue
			}
			wait = min(max(2*wait, roomEvery), maxRestartWait)
			if err := o.node.restart(); err != nil {
				o.node.log.Warn("the store does not start again", "error", err)
				continue
			}
			healed = time.Now()
			o.restarts.Add(1)
			o.node.log.Info("the store can write again")
		}
	}
}

// pause reports false when the node is closing.
func (o *outages) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-o.stop:
		return false
	case <-t.C:
		return true
	}
}

// hasRoom tries whether the disk takes what a store needs to go on. A quota
// shows in nothing but a write.
func hasRoom(dir string) error {
	f, err := os.Create(filepath.Join(dir, roomFile))
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	chunk := make([]byte, 1<<20)
	for range minRoom / len(chunk) {
		if _, err := f.Write(chunk); err != nil {
			return err
		}
	}
	return f.Sync()
}

// restart ends the server and starts another one on the same directory. What
// was acknowledged is in its files; calls in flight end as unknown, as nobody
// can answer them any more.
func (n *Node) restart() error {
	n.link.set(nil)
	stopServer(n.server)
	n.acks.fail()
	n.reads.fail()
	path, err := n.dir.storePath()
	if err != nil {
		return err
	}
	s, err := n.startServer(path, n.dir.reserved)
	if err != nil {
		return err
	}
	n.server = s
	n.link.set(s)
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for !n.conn.IsConnected() {
		if !n.outages.pause(10*time.Millisecond) || ctx.Err() != nil {
			return fmt.Errorf("cluster: connect: %w", ErrUnavailable)
		}
	}
	if err := n.ensureStreams(ctx, n.dir.id.Streams); err != nil {
		return err
	}
	// From here on the server's errors are about the new one.
	n.outages.now.Store(nil)
	return nil
}

// faultyLink is where the connection finds the server of this process.
type faultyLink struct {
	mu     sync.Mutex // guards server
	server *server.Server
}

var _ nats.InProcessConnProvider = (*faultyLink)(nil)

var errNoServer = errors.New("no server")

func (l *faultyLink) set(s *server.Server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.server = s
}

// InProcessConn opens a connection to the server that runs now.
func (l *faultyLink) InProcessConn() (net.Conn, error) {
	l.mu.Lock()
	s := l.server
	l.mu.Unlock()
	if s == nil {
		return nil, errNoServer
	}
	return s.InProcessConn()
}
