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

	dir    *directory     // nil in memory
	tmp    string         // what JetStream wants to have in memory mode
	server *server.Server // nil if the server is not ours
	conn   *nats.Conn
	acks   *inbox // answers to writes
	reads  *inbox // answers to reads, which are big and slow to take apart
	lease  *lease
	ring   *Ring

	counters counters
	full     atomic.Bool // see NearFull

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
	n := &Node{opts: o, name: o.Node, boot: randomName(8), log: o.Log, replayTTL: formatTTL(o.ReplayAge)}
	if o.Prefix != "" {
		n.prefix = o.Prefix + "."
	}
	return n
}

func (n *Node) start(ctx context.Context) (err error) {
	path, reserved := "", int64(0)
	if n.opts.Dir != "" {
		if n.dir, err = openDirectory(n.opts.Dir); err != nil {
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
	if n.server, err = startServer(&n.opts, n.name, path, reserved); err != nil {
		return err
	}
	return n.join(ctx, n.server)
}

// join connects the node to a server and registers it there.
func (n *Node) join(ctx context.Context, s *server.Server) (err error) {
	if n.conn, err = connect(s, n.name, n.log); err != nil {
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
		if errors.Is(err, ErrDamaged) {
			err = dirError(n.opts.Dir, err, "", "restore it from a backup or choose another directory")
		}
		return err
	}
	if n.dir != nil {
		if err := n.dir.hasStreams(n.streamNames()); err != nil {
			return err
		}
		// Whoever had a lease in this directory is dead: we hold its lock.
		if err := n.api(ctx, "STREAM.PURGE."+n.streamName("nodes"), nil, nil); err != nil {
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
	n.ring = newRing(n)
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
func (n *Node) Keys() *Ring { return n.ring }

// Close waits for the writes in flight, deletes the node's entry, stops the
// server and gives the data directory back. If ctx ends first it stops all the
// same, and what was in flight ends with ErrUnavailable. Calls after Close
// return ErrClosed; a second Close returns what the first did.
func (n *Node) Close(ctx context.Context) error {
	n.closing.Do(func() { n.closeErr = n.stop(ctx) })
	return n.closeErr
}

// stop ends whatever start managed to begin.
func (n *Node) stop(ctx context.Context) error {
	var errs []error
	if n.acks != nil && n.reads != nil {
		if n.lease != nil {
			if err := n.lease.close(ctx); err != nil {
				errs = append(errs, err)
			}
		}
		n.acks.drain(ctx)
		n.acks.close()
		n.reads.close()
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
