package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Node is one process's membership and its access to what is stored. All its
// methods may be called from any goroutine.
type Node struct {
	opts      Options
	name      string
	boot      string
	prefix    string // of subjects: "" or with a dot at its end
	replayTTL string
	log       *slog.Logger

	dir       *directory     // nil in memory
	tmp       string         // what JetStream wants to have in memory mode
	server    *server.Server // nil if the server is not ours; of the goroutine of outages, while that runs
	link      faultyLink     // to it
	conn      *nats.Conn
	acks      *inbox // answers to writes
	reads     *inbox // answers to reads, which are big and slow to take apart
	readSlots slots  // of reads of the log, see readsAtOnce
	tailSlots slots  // of looks for its end
	lease     *lease
	keyring   *Keyring

	outages  *outages
	flusher  *flusher // nil: acknowledgements do not wait for the disk
	counters counters
	fills    [budgets]fillOf
	leaving  atomic.Bool // Close has begun: calls from outside are refused
	watching bool        // the goroutine of outages runs
	flushing bool        // that of the flusher runs

	closing  sync.Once
	closeErr error
}

// Open starts a node: it locks the data directory, starts the embedded server
// over it, ends the leases that a previous process left in it, and takes its
// own. The errors of a data directory that cannot be used are ErrLocked,
// ErrNewer, ErrDamaged and ErrForeign.
//
// ctx bounds the start, not the node's life, which Close ends.
func Open(ctx context.Context, o Options) (*Node, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	n := newNode(o)
	if err := n.start(ctx); err != nil {
		n.stop(ctx)
		return nil, err
	}
	return n, nil
}

func newNode(o Options) *Node {
	n := &Node{opts: o, name: o.Node, boot: randomName(8), log: o.Log, replayTTL: formatTTL(o.ReplayAge), readSlots: make(slots, readsAtOnce), tailSlots: make(slots, readsAtOnce)}
	if o.Prefix != "" {
		n.prefix = o.Prefix + "."
	}
	n.outages = newOutages(n)
	if o.Dir != "" && o.Sync < 0 {
		n.flusher = newFlusher(n)
	}
	return n
}

func (n *Node) start(ctx context.Context) (err error) {
	path, reserved := "", int64(0)
	if n.opts.Dir != "" {
		if n.dir, err = openDirectory(n.opts.Dir, n.streamNames()); err != nil {
			return err
		}
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
		if n.tmp, err = memoryDir(); err != nil {
			return err
		}
		path = n.tmp
	}
	if n.server, err = n.startServer(path, reserved); err != nil {
		return err
	}
	if n.flusher != nil {
		n.flushing = true
		go n.flusher.run()
	}
	if err := n.join(ctx, n.server); err != nil {
		if o := n.Outage(); o != nil {
			err = fmt.Errorf("%w (%s)", err, o)
		}
		return err
	}
	if n.dir != nil {
		n.watching = true
		go n.outages.run()
	}
	if n.tmp != "" {
		// Nothing will be put there, and a process that is killed has nobody to remove it.
		_ = os.RemoveAll(n.tmp)
	}
	return nil
}

// join connects the node to a server and registers it there.
func (n *Node) join(ctx context.Context, s *server.Server) (err error) {
	n.link.set(s)
	if n.conn, err = connect(&n.link, n.name, n.log); err != nil {
		return err
	}
	if n.acks, err = newInbox(n.conn); err != nil {
		return err
	}
	if n.reads, err = newInbox(n.conn); err != nil {
		return err
	}
	var must []string
	if n.dir != nil {
		must = n.dir.id.Streams
	}
	if err := n.ensureStreams(ctx, must); err != nil {
		return err
	}
	if n.dir != nil {
		if err := n.dir.keepStreams(n.streamNames()); err != nil {
			return err
		}
		// Whoever had a lease in this directory is dead: we hold its lock.
		if err := n.voidLeases(ctx); err != nil {
			return fmt.Errorf("cluster: void old leases: %w", err)
		}
	}
	l, err := newLease(n)
	if err != nil {
		return err
	}
	if err := l.register(ctx); err != nil {
		return err
	}
	n.lease = l
	n.keyring = newKeyring(n)
	go l.run()
	return nil
}

// Name is the node's name: [a-z0-9-]{1,32}.
func (n *Node) Name() string { return n.name }

// Boot is the boot nonce: a short random [a-z0-9] string, another one each time
// the process starts.
func (n *Node) Boot() string { return n.boot }

// Suspended reports whether the lease was not renewed in time, counted on this
// process's monotonic clock from the sending of the last successful renewal. A
// suspended node must take no new work. It resumes by itself, under the same
// boot nonce, unless a newer boot has its name.
func (n *Node) Suspended() bool { return n.lease.age() > n.opts.Lease }

// Keys is the fleet's key ring.
func (n *Node) Keys() *Keyring { return n.keyring }

// Close waits for the writes in flight, deletes the node's entry, stops the
// server and gives the data directory back. If ctx ends first it stops all the
// same; what was in flight ends with ErrUnavailable, and as it may still be
// stored, the node's entry is left to expire. Calls after Close return
// ErrClosed; a second Close returns what the first did.
func (n *Node) Close(ctx context.Context) error {
	n.closing.Do(func() { n.closeErr = n.stop(ctx) })
	return n.closeErr
}

// stop ends whatever start managed to begin.
func (n *Node) stop(ctx context.Context) error {
	var errs []error
	n.leaving.Store(true)
	if n.watching {
		close(n.outages.stop)
		<-n.outages.done
	}
	if n.acks != nil && n.reads != nil {
		// The lease is renewed until the last write is decided: who sees the
		// entry gone takes the streams over.
		decided := n.acks.drain(ctx)
		if n.flushing {
			decided = n.flusher.drain(ctx) && decided
		}
		if n.lease != nil {
			if err := n.lease.close(ctx, decided); err != nil {
				errs = append(errs, err)
			}
		}
		n.acks.close()
		n.reads.close()
	}
	if n.flushing {
		n.flusher.close()
	}
	if n.conn != nil {
		n.conn.Close()
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
		if err := n.dir.close(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// randomName is n characters of [a-z0-9]. 8 of them are 41 bits: enough to
// tell boots and nodes apart, no secret.
func randomName(n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	b := make([]byte, n)
	_, _ = rand.Read(b) // Never fails.
	for i := range b {
		b[i] = letters[int(b[i])%len(letters)]
	}
	return string(b)
}
