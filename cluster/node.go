package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	leases "github.com/troupe-run/troupe/internal/lease"
	"github.com/troupe-run/troupe/internal/store"
)

// Node is one process's membership of the cluster, and its access to the store: what its parts do, it
// does. Its methods may be called from any goroutine.
type Node struct {
	*wire
	*messages
	*usage
	*Server
	*Records
	*Log
	*Tasks
	*Members

	answered leaderAnswers
	watching bool // the goroutine of outages runs
	flushing bool // the goroutine of the flusher runs
	mailing  bool // the goroutine that sends mail runs

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
	if err := n.start(ctx); err != nil {
		n.stop(ctx)
		return nil, err
	}
	return n, nil
}

func newNode(o Options) *Node {
	n := joinParts(newWire(o))
	n.outages.restart = n.restartServer
	if o.Dir != "" && o.Sync < 0 && !o.isShared() {
		n.flusher = newFlusher(n.messagesDir, n.outages.noteServerError)
	}
	return n
}

// joinParts makes a node of its parts on one wire.
func joinParts(w *wire) *Node {
	m, u := &messages{wire: w}, new(usage)
	records := &Records{m, u}
	return &Node{
		wire: w, messages: m, usage: u, Records: records,
		Server:  &Server{wire: w, losses: newLosses()},
		Log:     &Log{&logReader{m}, u},
		Tasks:   &Tasks{&workStore{m}, u},
		Members: &Members{messages: m, keyring: newKeyring(records)},
	}
}

func (n *Node) start(ctx context.Context) (err error) {
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
			n.name = NewName()
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
		n.watching, n.outages.dir = true, n.dir.Path
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
	if n.conn, err = n.connect(ctx, n.name); err != nil {
		return err
	}
	if n.acks, err = newInbox(n.conn, nil); err != nil {
		return err
	}
	if n.reads, err = newInbox(n.conn, nil); err != nil {
		return err
	}
	if n.logConn, err = n.connect(ctx, n.name+" log"); err != nil {
		return err
	}
	if n.logReads, err = newInbox(n.logConn, nil); err != nil {
		return err
	}
	if err := n.findPrefix(ctx); err != nil {
		return err
	}
	if n.opts.isShared() {
		if n.mail, err = newMail(ctx, n.Members, n.connect); err != nil {
			return err
		}
		n.mailing = true
		go n.mail.sendQueued()
	}
	if n.opts.Remote.isSet() {
		err = n.agreeWithServers(ctx)
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
	l := newLease(n.Members)
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
	go n.watchStore(l.stop)
	return n.keyring.readTagKey(ctx)
}

// watchStore measures the store, and compares other nodes with this one, until stop is closed, as the lease ends. No renewal waits for that.
func (n *Node) watchStore(stop <-chan struct{}) {
	defer close(n.lease.counted)
	defer n.answered.under.Wait()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-stop
		cancel()
	}()
	tick := time.NewTicker(n.opts.Lease / leases.PerTerm)
	defer tick.Stop()
	others, wrong := make(strangers), time.Time{}
	if n.mail != nil {
		n.answered.under.Go(func() { n.answered.askRegularly(ctx, n.messages) })
	}
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		n.measureBudgets(ctx)
		if n.mail != nil {
			n.losses.look(ctx, n.Members, time.Now())
			others.look(ctx, n.Members)
			wrong = n.sayAhead(wrong)
		}
	}
}

// agreeWithServers waits until the streams of the servers are there as they must be.
func (n *Node) agreeWithServers(ctx context.Context) error {
	a := agreement{Server: n.Server, messages: n.messages, checkOthers: n.checkOthers}
	return a.agreeOnStreams(ctx)
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

// Close waits for the writes in flight, deletes the node's entry, stops the
// server and releases the data directory. If ctx ends first it stops all the
// same. Calls in flight then end with ErrUnavailable; because their writes may
// still be stored, the node's entry is left to expire. Later calls return
// ErrClosed; a second Close returns what the first did.
func (n *Node) Close(ctx context.Context) error {
	n.closing.Do(func() { n.closeErr = n.stop(ctx) })
	return n.closeErr
}

// stop ends all that start has begun.
func (n *Node) stop(ctx context.Context) error {
	var errs []error
	n.leaving.Store(true)
	if n.watching {
		close(n.outages.stop)
		<-n.outages.done
	}
	if n.mail != nil {
		n.mail.close(n.mailing)
	}
	if n.acks != nil && n.reads != nil && n.logReads != nil {
		// The lease is renewed until the last write is decided: when the entry is
		// gone, other nodes take the streams over.
		decided := n.acks.drainCalls(ctx)
		if n.flushing {
			decided = n.flusher.drainWaiters(ctx) && decided
		}
		if n.lease != nil {
			if err := n.lease.release(ctx, decided); err != nil {
				errs = append(errs, err)
			}
		}
		n.acks.close()
		n.reads.close()
		n.logReads.close()
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
		if err := n.dir.close(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Lost counts the streams that were lost while the process ran.
func (n *Node) Lost() uint64 { return n.losses.lost.Load() }

// Outage returns why the store cannot write now, or nil if it can. An outage ends
// by itself when the disk has room again, or the streams are there.
func (n *Node) Outage() *Outage {
	if o := n.outages.now.Load(); o != nil {
		return o
	}
	return n.losses.missing.Load()
}

// restartServer ends the server and starts another one on the same directory, whose
// files have all acknowledged writes. The outcome of calls in flight is unknown,
// because nothing can answer them any more.
func (n *Node) restartServer() error {
	n.link.set(nil)
	stopServer(n.server)
	n.acks.failCalls()
	n.reads.failCalls()
	n.logReads.failCalls()
	if n.mail != nil {
		n.mail.asks.failCalls()
	}
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
	for !n.conn.IsConnected() || !n.logConn.IsConnected() || n.mail != nil && !n.mail.conn.IsConnected() {
		if !n.outages.pause(10*time.Millisecond) || ctx.Err() != nil {
			return fmt.Errorf("cluster: connect: %w", store.ErrUnavailable)
		}
	}
	if err := n.ensureStreams(ctx, n.dir.id.Streams); err != nil {
		return err
	}
	// From here on the server's errors are those of the new one.
	n.outages.now.Store(nil)
	return nil
}

// measureBudgets reads how full the store is. A value that it cannot read stays.
func (n *Node) measureBudgets(ctx context.Context) {
	for b := range store.Budgets {
		f := &n.fills[b]
		before := f.since.Load() // a write meanwhile may count twice, for a moment
		s, err := n.fillOfKind(ctx, budgetNames[b])
		if missing := isMissing(err); missing != f.missing {
			if f.missing = missing; missing {
				n.log.Error("a stream of the store is missing: what needs it fails until it is there again", "of", budgetNames[b])
			}
		}
		if err != nil {
			continue
		}
		f.used.Store(int64(s.fullest))
		f.limit.Store(int64(s.MaxBytes))
		f.since.Add(-before)
		full := s.MaxBytes > 0 && s.fullest > s.MaxBytes/100*nearFull
		switch {
		case full && !f.full:
			n.log.Warn("store nearly full", "of", budgetNames[b], "bytes", s.fullest, "limit", s.MaxBytes)
		case !full && f.full:
			n.log.Info("store has room again", "of", budgetNames[b])
		}
		f.full = full
	}
}

// Silent names a stream of the store that has had no leader for 5 s, or is missing, and so cannot be written; "" if there is none. It is
// known of stores that several nodes may share.
func (n *Node) Silent() string {
	for i, name := range needed {
		if at := n.answered.at[i].Load(); at != 0 && time.Since(time.Unix(0, at)) > silentFor {
			return name
		}
	}
	return ""
}

// startRemote starts a node whose store is on other servers. The data directory, if there is one, keeps its name.
func (n *Node) startRemote(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, remoteStart)
	defer cancel()
	defer time.AfterFunc(silentStart, n.sayWaits).Stop()
	if n.opts.Dir != "" {
		if err := n.openDirectory(0, nil); err != nil {
			return err
		}
		if n.name == "" {
			n.name = n.dir.id.Node
		}
		if len(n.dir.id.Streams) > 0 {
			n.log.Warn("the data directory has a store of its own, which is left as it is and not used", "directory", n.dir.Path)
		}
	}
	if n.name == "" {
		n.name = NewName()
	}
	return n.joinServer(ctx)
}

// Stats asks the store, for at most 1 s, and reads the counters. Call it for
// metrics and for admission about once a second, not for each request.
func (n *Node) Stats() Stats {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return n.collectStats(ctx)
}

func (n *Node) collectStats(ctx context.Context) Stats {
	s := Stats{
		LeaseAge:          n.lease.renewalAge(),
		Lease:             n.opts.Lease,
		Suspended:         n.Suspended(),
		Appends:           n.counters.appends.Load(),
		AppendBytes:       n.counters.bytes.Load(),
		AppendTime:        time.Duration(n.counters.time.Load()),
		AppendFenced:      n.counters.fenced.Load(),
		AppendFull:        n.counters.full.Load(),
		AppendUnavailable: n.counters.unavailable.Load(),
		AppendRefused:     n.counters.refused.Load(),
		InFlight:          n.acks.inFlight() + n.reads.inFlight() + n.logReads.inFlight(),
		Reconnects:        n.Reconnects(),
		Restarts:          n.outages.restarts.Load(),
	}
	if n.flusher != nil {
		s.InFlight += n.flusher.countWaiting()
	}
	streams := make(map[string]StreamStats, len(kinds))
	for i := range kinds {
		st, err := n.fillOfKind(ctx, kinds[i].name)
		if err != nil {
			return s
		}
		streams[kinds[i].name] = st
		s.Bytes += st.Bytes
		s.MaxBytes += st.MaxBytes
		s.Messages += st.Messages
	}
	s.Streams = streams
	return s
}

// Reconnects is Stats.Reconnects alone, and Undecided the number of writes that were sent again because replicas had not
// decided an earlier one; without a question to the store, or to its client, which holds its lock while it waits for a server that
// stands still.
func (n *Node) Reconnects() uint64 { return n.counters.reconnects.Load() }

// Undecided is described with Reconnects.
func (n *Node) Undecided() uint64 { return n.counters.undecided.Load() }

// Concluded is how often a write showed that something is not there, or was to show it; see Get.
func (n *Node) Concluded() uint64 { return n.counters.concluded.Load() }

// Restarts is Stats.Restarts alone, without a question to the store.
func (n *Node) Restarts() uint64 { return n.outages.restarts.Load() }
