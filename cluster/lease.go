package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	leases "github.com/troupe-run/troupe/internal/lease"
	"github.com/troupe-run/troupe/internal/letter"
)

// entry is the record nodes.<node>.
type entry struct {
	Boot    string    `json:"boot"`
	Since   time.Time `json:"since"`
	Address string    `json:"address,omitempty"`
	// First is the revision of this boot's first entry, which does not have it yet: of two boots of a node, and of two nodes
	// that start together, the first one has the lower.
	First    uint64            `json:"first,omitempty"`
	Settings map[string]string `json:"settings,omitempty"` // that all nodes must have alike
	Letters  int               `json:"letters,omitempty"`  // the version of the letters that it writes, where others may be there; 0 in those of releases before 2
	Servers  []string          `json:"servers,omitempty"`  // the ids of what it serves
}

// lease keeps the node's entry alive. It only decides when others may take over;
// the fence guards what the node writes.
type lease struct {
	node *Node
	key  string
	base time.Time // start of the monotonic clock that renewed counts on

	m       *leases.Machine // only register and the loop use it
	renewed atomic.Int64    // when the last successful renewal was sent, by m
	away    atomic.Pointer[leases.Absence]
	again   atomic.Bool  // the stream of entries was made again
	over    atomic.Int64 // nanoseconds for which the lease was over, until the last renewal

	stop    chan struct{} // closed to end the loops
	done    chan struct{} // closed when the one that renews has ended
	counted chan struct{} // closed when the one that measures has ended

	wanted chan struct{} // holds one: somebody waits for next
	mu     sync.Mutex    // guards the fields below
	next   *renewal      // the renewal that is sent next, if somebody waits for it
	entry  entry
	serves uint64 // digest of the ids of the servers
}

// renewal is one that somebody waits for.
type renewal struct {
	done chan struct{} // closed when it was tried
	err  error
}

func newLease(n *Node) *lease {
	e := entry{Boot: n.boot, Since: time.Now().UTC().Truncate(time.Millisecond)}
	if n.opts.shared() {
		e.Settings, e.Letters = n.opts.settings(), letter.Version
	}
	return &lease{node: n, key: "nodes." + n.name, base: time.Now(), entry: e, m: leases.New(n.boot, n.opts.Lease), stop: make(chan struct{}), done: make(chan struct{}), counted: make(chan struct{}), wanted: make(chan struct{}, 1)}
}

// payload encodes the entry.
func (l *lease) payload() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	data, _ := json.Marshal(l.entry) // Nothing in it can fail.
	return data
}

// register writes the first entry, over that of an older boot if there is one.
func (l *lease) register(ctx context.Context) error {
	for conflicts := 0; ; {
		sent := time.Since(l.base)
		data, rev, err := l.get(ctx)
		switch {
		case errors.Is(err, ErrNotFound):
			rev, err = l.create(ctx)
		case err == nil || errors.Is(err, ErrDamaged) || errors.Is(err, ErrNewer):
			var e entry
			if json.Unmarshal(data, &e) != nil || e.Boot != l.node.boot { // Otherwise an earlier try was stored after all.
				l.node.succeeds = true
			}
			rev, err = l.update(ctx, rev)
		}
		switch {
		case err == nil:
			l.mu.Lock()
			l.entry.First = rev
			l.mu.Unlock()
			l.m.Rev, l.m.Renewed = rev, sent
			l.renewed.Store(int64(sent))
			return nil
		case conflicts < 5 && (errors.Is(err, ErrConflict) || errors.Is(err, ErrRetry)):
			conflicts++
		case l.node.opts.Remote.set() && errors.Is(err, ErrUnavailable) && sleep(ctx, 250*time.Millisecond): // The servers are electing.
		default:
			return fmt.Errorf("cluster: register node %s: %w", l.node.name, err)
		}
	}
}

// Alive reports whether a boot of a node has its lease.
func (n *Node) Alive(ctx context.Context, node, boot string) (bool, error) {
	data, _, err := n.Get(ctx, "nodes."+node)
	var e entry
	switch {
	case errors.Is(err, ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	return json.Unmarshal(data, &e) == nil && e.Boot == boot, nil
}

// voidLeases deletes all node entries, one by one. To empty a whole stream the
// server exchanges directories, and a kill can interrupt that.
func (n *Node) voidLeases(ctx context.Context) error {
	subjects, err := n.subjects(ctx, "nodes", "nodes.*")
	if err != nil {
		return err
	}
	for subject := range subjects {
		s, err := n.last(ctx, n.streamName("nodes"), subject)
		if err == nil {
			err = n.api(ctx, "STREAM.MSG.DELETE."+n.streamName("nodes"), map[string]any{"seq": s.seq, "no_erase": true}, nil)
		}
		// An entry that expires just now is as good as deleted.
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	return nil
}

// run renews the lease until stop is closed.
func (l *lease) run() {
	defer close(l.done)
	tick := time.NewTicker(l.node.opts.Lease / leases.PerTerm)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-l.stop:
			return
		case <-tick.C:
		case <-l.wanted:
		}
		waiting := l.waited()
		ctx, cancel := context.WithTimeout(context.Background(), min(l.node.opts.Lease, callTimeout))
		err := l.renew(ctx)
		if waiting != nil {
			waiting.err = err
			close(waiting.done)
		}
		cancel()
		if err != nil && !failing {
			l.node.log.Warn("lease not renewed", "node", l.node.name, "error", err)
		} else if err == nil && failing {
			l.node.log.Info("lease renewed again", "node", l.node.name)
		}
		failing = err != nil
	}
}

// measures has the store measured until stop is closed, and other nodes compared with this one. No renewal waits for that.
func (l *lease) measures(stop chan struct{}) {
	defer close(l.counted)
	defer l.node.answered.under.Wait()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-stop
		cancel()
	}()
	tick := time.NewTicker(l.node.opts.Lease / leases.PerTerm)
	defer tick.Stop()
	others := make(strangers)
	if l.node.mail != nil {
		l.node.answered.under.Go(func() { l.node.answered.run(ctx, l.node) })
	}
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		l.node.measure(ctx)
		if l.node.mail != nil {
			l.node.losses.look(ctx, l.node, time.Now())
			others.look(ctx, l.node)
		}
	}
}

// waited takes the renewal that others wait for. Who comes later waits for the one after.
func (l *lease) waited() *renewal {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.next
	l.next = nil
	return r
}

// confirm returns once a renewal has succeeded that was sent after the call. Callers at the same time share one.
func (l *lease) confirm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	l.mu.Lock()
	if l.next == nil {
		l.next = &renewal{done: make(chan struct{})}
	}
	r := l.next
	l.mu.Unlock()
	select {
	case l.wanted <- struct{}{}:
	default:
	}
	select {
	case <-r.done:
	case <-l.done:
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("%w: the lease is not renewed: %w", ErrUnavailable, context.Cause(ctx))
	}
	if r.err == nil && l.node.Suspended() {
		return fmt.Errorf("%w: the lease is over", ErrUnavailable)
	}
	return r.err
}

// renew writes the entry again. If the entry is not the one it knows, renew reads
// it. It renews its own entry from a write without an answer, creates a missing
// entry again, and leaves that of another boot alone.
func (l *lease) renew(ctx context.Context) error {
	m := l.m
	for m.Renew(time.Since(l.base)); ; {
		switch m.Next() {
		case leases.Update:
			rev, err := l.update(ctx, m.Rev)
			l.stored(rev, err)
			m.Wrote(rev, errors.Is(err, ErrConflict), err)
		case leases.Create:
			rev, err := l.create(ctx)
			l.stored(rev, err)
			m.Wrote(rev, errors.Is(err, ErrConflict), err)
		case leases.Read:
			data, rev, err := l.get(ctx)
			var e entry
			if json.Unmarshal(data, &e) != nil {
				e.Boot = ""
			}
			m.Found(e.Boot, rev, errors.Is(err, ErrNotFound), err)
		case leases.Over:
			if over := m.Renewed - time.Duration(l.renewed.Load()) - l.node.opts.Lease; m.Err == nil && over > 0 {
				l.over.Add(int64(over))
			}
			l.renewed.Store(int64(m.Renewed))
			if a := m.Away; a.Lasted > 0 {
				l.away.Store(&a)
				m.Away = leases.Absence{}
			}
			return m.Err
		}
	}
}

// stored notes the revision of an entry. The first one in a stream that was made again is that of the boot: revisions begin anew there.
func (l *lease) stored(rev uint64, err error) {
	if err == nil && l.again.Swap(false) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.entry.First = rev
	}
}

// age returns how long ago the last successful renewal was sent.
func (l *lease) age() time.Duration {
	return time.Since(l.base) - time.Duration(l.renewed.Load())
}

// suspended returns for how long the lease was over, in all.
func (l *lease) suspended() time.Duration {
	return time.Duration(l.over.Load()) + max(0, l.age()-l.node.opts.Lease)
}

// close ends the loop and deletes the entry, if it is still this boot's. Without
// remove the entry expires.
func (l *lease) close(ctx context.Context, remove bool) error {
	close(l.stop)
	<-l.done
	<-l.counted
	if l.m.Rev == 0 || !remove {
		return nil
	}
	// An election may take as long. After that other nodes take the streams over without the deletion.
	ctx, cancel := context.WithTimeout(ctx, max(callTimeout, l.node.opts.Lease))
	defer cancel()
	err := l.node.bury(ctx, l.stream(), l.subject(), l.m.Rev)
	for errors.Is(err, errNoResponders) && sleep(ctx, 250*time.Millisecond) { // The servers are electing.
		err = l.node.bury(ctx, l.stream(), l.subject(), l.m.Rev)
	}
	if err != nil && !errors.Is(err, ErrConflict) {
		return fmt.Errorf("cluster: delete %s: %w", l.key, err)
	}
	return nil
}

// The lease also works on its entry while the node closes, when calls from
// outside are refused.

func (l *lease) stream() string  { return l.node.streamName("nodes") }
func (l *lease) subject() string { return l.node.subject(l.key) }

func (l *lease) get(ctx context.Context) ([]byte, uint64, error) {
	return l.node.get(ctx, l.stream(), l.subject())
}

func (l *lease) create(ctx context.Context) (uint64, error) {
	return l.node.create(ctx, l.stream(), l.subject(), l.payload(), l.node.opts.Lease)
}

func (l *lease) update(ctx context.Context, rev uint64) (uint64, error) {
	return l.node.put(ctx, l.subject(), encodeRecord(l.payload()), l.node.opts.Lease, guard{seq: rev})
}
