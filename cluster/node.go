package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/remoteclock"
	"github.com/troupe-run/troupe/internal/store"
)

// Node is one process's membership of the cluster, and its access to the store.
// Its methods may be called from any goroutine.
type Node struct {
	opts      Options
	name      string
	boot      string
	prefix    string  // of subjects: "" or with a dot at its end
	kinds     []kind  // its streams; settled, like shards, before the node serves
	shards    []*kind // those of them that keep the events
	replayTTL string
	log       *slog.Logger

	dir       *directory     // nil in memory
	tmp       string         // the directory that JetStream requires in memory mode
	server    *server.Server // nil if the server is not ours; used by the goroutine of outages while that runs
	listens   net.Addr       // where it serves other nodes
	link      faultyLink     // to it
	conn      *nats.Conn
	acks      *inbox     // answers to writes
	reads     *inbox     // answers to reads, which are slow to decode
	logConn   *nats.Conn // for reads of the log, which are big: leases and appends never wait behind them
	logReads  *inbox     // their answers
	readSlots slots      // of reads of the log, see readsAtOnce
	gets      slots      // of appends that they ask for, see getsAtOnce
	tailSlots slots      // of searches for its end
	lease     *lease
	keyring   *Keyring
	mail      *Mail // nil: there are no other nodes

	conclusions conclusions            // what is not there
	clock       remoteclock.Clock      // of the remote servers
	clash       atomic.Pointer[string] // what another program has under the same id; nil without
	waits       atomic.Pointer[string] // why no server of Remote has answered yet; nil once one has

	outages  *outages
	losses   losses
	flusher  *flusher // nil: acknowledgements do not wait for the disk
	counters counters
	fills    [store.Budgets]fillOf
	answered leaderAnswers
	leaving  atomic.Bool // Close has begun: calls from outside are refused
	replicas int         // of the streams on remote servers
	fitted   bool        // the nodes that are there have been found to fit
	succeeds bool        // an earlier boot had this node's entry when this one came
	watching bool        // the goroutine of outages runs
	flushing bool        // the goroutine of the flusher runs
	mailing  bool        // the goroutine that sends mail runs

	closing  sync.Once
	closeErr error
}

var (
	_ store.Store = (*Node)(nil)
	_ store.Tasks = (*Node)(nil)
	_ store.Mail  = (*Mail)(nil)
	_ store.Keys  = (*Keyring)(nil)
)

// Open starts a node. It locks the data directory, starts the embedded server
// over it, ends the leases that a previous process left in it, and takes its own.
// If it cannot use the directory, it returns ErrLocked, ErrNewer, ErrDamaged or
// ErrForeign. With Options.Remote it connects to the servers instead, waits for them
// for at most 30 s, and returns ErrRemote if they cannot be used.
//
// ctx bounds the start only; Close ends the node.
func Open(ctx context.Context, o Options) (*Node, error) {
	if err := o.fillDefaults(); err != nil {
		return nil, err
	}
	n := newNode(o)
	if err := n.startNode(ctx); err != nil {
		n.stopNode(ctx)
		return nil, err
	}
	return n, nil
}

func newNode(o Options) *Node {
	if o.now == nil {
		o.now = time.Now
	}
	n := &Node{opts: o, name: o.Node, boot: randomName(8), log: o.Log, replayTTL: formatTTL(o.ReplayAge), readSlots: make(slots, readsAtOnce), gets: make(slots, getsAtOnce), tailSlots: make(slots, readsAtOnce)}
	if o.Prefix != "" {
		n.prefix = o.Prefix + "."
	}
	n.setShards(o.newShards())
	n.outages = newOutages(n)
	n.keyring = newKeyring(n)
	n.losses.configs, n.losses.created = make(map[string]jetstream.StreamConfig), make(map[string]time.Time)
	if o.Dir != "" && o.Sync < 0 && !o.isShared() {
		n.flusher = newFlusher(n)
	}
	return n
}

func (n *Node) startNode(ctx context.Context) (err error) {
	if n.opts.Remote.isSet() {
		return n.startRemote(ctx)
	}
	path, reserved := "", int64(0)
	if n.opts.Dir != "" {
		if err := n.openDirectory(n.opts.newShards(), n.streamNames); err != nil {
			return err
		}
		n.setShards(n.dir.id.shardCount())
		n.tookShards()
		if n.name == "" {
			n.name = n.dir.id.Node
		}
		if path, err = n.dir.storePath(); err != nil {
			return err
		}
		reserved = n.dir.reserved
	} else {
		if n.name == "" {
			n.name = "node-" + randomName(8)
		}
		if n.tmp, err = memoryDir(tempDirs()); err != nil {
			return err
		}
		path = n.tmp
	}
	if n.server, err = n.startServer(path, reserved); err != nil {
		return err
	}
	if n.flusher != nil {
		n.flushing = true
		go n.flusher.flushGroups()
	}
	n.link.set(n.server)
	if err := n.joinServer(ctx); err != nil {
		if o := n.Outage(); o != nil {
			err = fmt.Errorf("%w (%s)", err, o)
		}
		return err
	}
	if n.dir != nil {
		n.watching = true
		go n.outages.restartRegularly()
	}
	if n.tmp != "" {
		// JetStream puts nothing there, and the folder would remain after a kill.
		_ = os.RemoveAll(n.tmp)
	}
	return nil
}

// joinServer connects the node to its server and registers it there.
func (n *Node) joinServer(ctx context.Context) (err error) {
	if n.conn, err = n.connectServer(ctx, n.name); err != nil {
		return err
	}
	if n.acks, err = newInbox(n.conn, nil); err != nil {
		return err
	}
	if n.reads, err = newInbox(n.conn, nil); err != nil {
		return err
	}
	if n.logConn, err = n.connectServer(ctx, n.name+" log"); err != nil {
		return err
	}
	if n.logReads, err = newInbox(n.logConn, nil); err != nil {
		return err
	}
	if err := n.findPrefix(ctx); err != nil {
		return err
	}
	if n.opts.isShared() {
		if n.mail, err = newMail(ctx, n); err != nil {
			return err
		}
		n.mailing = true
		go n.mail.sendQueued()
	}
	if n.opts.Remote.isSet() {
		err = n.agreeOnStreams(ctx)
	} else {
		err = n.settleStore(ctx)
	}
	if err != nil {
		return err
	}
	if n.mail != nil { // Before others know this boot, so that it can read what they send it.
		if _, err := n.keyring.readKeys(true); err != nil {
			return fmt.Errorf("cluster: the key ring: %w", err)
		}
	}
	l := newLease(n)
	if err := l.registerNode(ctx); err != nil {
		return err
	}
	if n.mail != nil {
		if err := n.checkOthers(ctx, l.entry.First); err != nil {
			_ = n.buryMessage(ctx, l.entryStream(), l.entrySubject(), l.m.Rev) // Otherwise it expires.
			return err
		}
	}
	n.lease = l
	n.measureBudgets(ctx) // before the first write is charged
	go l.renewRegularly()
	go l.watchStore(l.stop)
	return n.keyring.readTagKey(ctx)
}

// settleStore makes the streams of the server in this process what they must be, and voids the leases of dead nodes.
func (n *Node) settleStore(ctx context.Context) error {
	if n.dir == nil {
		return n.ensureStreams(ctx, nil)
	}
	if err := n.ensureStreams(ctx, n.dir.id.Streams); err != nil {
		return err
	}
	if err := n.dir.keepStreams(n.streamNames(len(n.shards))); err != nil {
		return err
	}
	if n.opts.Listen.isSet() {
		return nil // Other nodes may be alive, and come back.
	}
	// We hold the lock of this directory, so every node with a lease in it is
	// dead.
	if err := n.voidLeases(ctx); err != nil {
		return fmt.Errorf("cluster: void old leases: %w", err)
	}
	return nil
}

// Name returns the node's name: [a-z0-9-]{1,32}.
func (n *Node) Name() string { return n.name }

// Boot returns the boot nonce: a short random [a-z0-9] string, a new one each
// time the process starts.
func (n *Node) Boot() string { return n.boot }

// Listens returns the address on which the server of this process serves other nodes, or nil.
func (n *Node) Listens() net.Addr { return n.listens }

// Suspended reports whether the lease was not renewed in time. The time counts
// from the sending of the last successful renewal, on this process's monotonic
// clock. A suspended node must take no new work. It resumes by itself, under the
// same boot nonce, unless a newer boot has its name.
func (n *Node) Suspended() bool { return n.lease.renewalAge() > n.opts.Lease }

// Lapsed reports whether the node has been suspended for as long as its lease lasts: others that live have taken it for gone by then.
func (n *Node) Lapsed() bool { return n.lease.renewalAge() > 2*n.opts.Lease }

// Keys returns the fleet's key ring.
func (n *Node) Keys() *Keyring { return n.keyring }

// Close waits for the writes in flight, deletes the node's entry, stops the
// server and releases the data directory. If ctx ends first it stops all the
// same. Calls in flight then end with ErrUnavailable; because their writes may
// still be stored, the node's entry is left to expire. Later calls return
// ErrClosed; a second Close returns what the first did.
func (n *Node) Close(ctx context.Context) error {
	n.closing.Do(func() { n.closeErr = n.stopNode(ctx) })
	return n.closeErr
}

// stopNode ends all that start has begun.
func (n *Node) stopNode(ctx context.Context) error {
	var errs []error
	n.leaving.Store(true)
	if n.watching {
		close(n.outages.stop)
		<-n.outages.done
	}
	if n.mail != nil {
		n.mail.closeMail(n.mailing)
	}
	if n.acks != nil && n.reads != nil && n.logReads != nil {
		// The lease is renewed until the last write is decided: when the entry is
		// gone, other nodes take the streams over.
		decided := n.acks.drainCalls(ctx)
		if n.flushing {
			decided = n.flusher.drainWaiters(ctx) && decided
		}
		if n.lease != nil {
			if err := n.lease.endLease(ctx, decided); err != nil {
				errs = append(errs, err)
			}
		}
		n.acks.closeInbox()
		n.reads.closeInbox()
		n.logReads.closeInbox()
	}
	if n.mail != nil {
		n.mail.aside.Wait()
	}
	if n.flushing {
		n.flusher.stopLoop()
	}
	for _, c := range []*nats.Conn{n.conn, n.logConn} {
		if c != nil {
			c.Close()
		}
	}
	if n.server != nil {
		stopServer(n.server)
	}
	if n.tmp != "" {
		if err := os.RemoveAll(n.tmp); err != nil {
			errs = append(errs, fmt.Errorf("cluster: %w", err))
		}
	}
	if n.dir != nil {
		if err := n.dir.closeDirectory(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Now is the time by the clock of the servers, which count the lifetimes of what is stored; without a monotonic reading.
func (n *Node) Now() time.Time { return n.clock.Now() }

// Ahead is by how much this machine's clock is ahead of that of the servers, and below 0 by how much it is behind, as far as it can be told. It is measured every
// second, for servers of others only.
func (n *Node) Ahead() time.Duration { return n.clock.Ahead() }

// ClockWrong returns an error while the machine's clock is too far from that of the servers: the process must not serve.
func (n *Node) ClockWrong() error {
	by, than := n.clock.Surely(), "ahead of"
	if by < 0 {
		by, than = -by, "behind"
	}
	if by <= limits.ClockAhead.Value() {
		return nil
	}
	return fmt.Errorf("the clock of this machine is %v %s that of the NATS servers", by.Round(100*time.Millisecond), than)
}
