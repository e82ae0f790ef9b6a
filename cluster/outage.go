package cluster

import (
	"errors"
	"log/slog"
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

// minRoom is how many bytes the disk must have free before a store that ran out
// of space is restarted. The calls up to the end of the first one use less.
var minRoom = limits.DiskRoom.Value()

const (
	// roomEvery is how often the node looks for room.
	roomEvery = 500 * time.Millisecond
	// calmAfter is how long a store must have been able to write before the pauses
	// between restarts are short again.
	calmAfter      = time.Minute
	maxRestartWait = 10 * time.Second

	roomFile = "room.tmp" // in the data directory, while the node looks for room
)

// Outage says why the store cannot write.
type Outage struct {
	Since time.Time
	Full  bool // the disk has no room
	Lost  bool // streams are missing on the servers, and cannot be made again
}

// String returns the reason without a path, for clients.
func (o *Outage) String() string {
	if o.Lost {
		return "a part of the store is missing"
	}
	if o.Full {
		return "the disk of the store is full"
	}
	return "the disk of the store cannot be written"
}

// outages watches the embedded server for failed writes, and restarts it when the
// disk has room. After a failed write the server gives the stream up and does not
// take it up again.
type outages struct {
	log      *slog.Logger
	dir      string                 // the data directory
	restart  func() error           // starts the server anew
	now      atomic.Pointer[Outage] // nil if the store can write
	restarts atomic.Uint64
	failed   chan struct{} // holds one: a write has failed
	stop     chan struct{} // closed to end the loop
	done     chan struct{} // closed when the loop has ended
}

func newOutages(log *slog.Logger) *outages {
	return &outages{log: log, failed: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
}

// noteServerError gets each error that the server logs. That is the only way in which the
// server reports a failed write: the publisher gets no answer. It may be called
// with the server's locks held.
func (o *outages) noteServerError(text string) {
	if strings.Contains(text, " - cid:") {
		return // It is about a connection, whose other end may have a part in the text.
	}
	full := noRoom(text)
	if !full && !strings.Contains(text, "Critical write error") && !strings.Contains(text, "failed to store a msg") {
		return
	}
	if !o.now.CompareAndSwap(nil, &Outage{Since: time.Now(), Full: full}) {
		return
	}
	o.log.Error("the store cannot write: new work is refused until it can", "error", text)
	select {
	case o.failed <- struct{}{}:
	default:
	}
}

// noRoom reports whether an error's text says that the disk is full.
func noRoom(text string) bool {
	return strings.Contains(text, syscall.ENOSPC.Error()) || strings.Contains(text, syscall.EDQUOT.Error())
}

// restartRegularly restarts the server after each outage, when there is room.
func (o *outages) restartRegularly() {
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
			if hasRoom(o.dir) != nil {
				continue
			}
			wait = min(max(2*wait, roomEvery), maxRestartWait)
			if err := o.restart(); err != nil {
				o.log.Warn("the store did not restart, trying again", "error", err)
				continue
			}
			healed = time.Now()
			o.restarts.Add(1)
			o.log.Info("the store can write again")
		}
	}
}

// pause waits for d. It returns false when the node is closing.
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

// hasRoom writes a file to find out whether the disk has room for the store. Only
// a write finds a quota.
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

// faultyLink connects to the server of this process, which may be replaced.
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
