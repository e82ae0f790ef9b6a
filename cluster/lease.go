package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	leases "github.com/troupe-run/troupe/internal/lease"
	"github.com/troupe-run/troupe/internal/letter"
	"github.com/troupe-run/troupe/internal/program"
	"github.com/troupe-run/troupe/internal/store"
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
	Programs program.Claims    `json:"programs,omitempty"` // the same, with what it is; releases before do not say
}

// lease keeps the node's entry alive. It only decides when others may take over;
// the fence guards what the node writes.
type lease struct {
	node *Members
	key  string
	base time.Time // start of the monotonic clock that renewed counts on

	m       *leases.Machine // only registerNode and the loop use it
	renewed atomic.Int64    // when the last successful renewal was sent, by m
	calm    atomic.Int64    // from when on the lease is steady, unless its renewals are late until then, by m
	again   atomic.Bool     // the stream of entries was made again
	over    atomic.Int64    // nanoseconds for which the lease was over, until the last renewal

	stop    chan struct{} // closed to end the loops
	done    chan struct{} // closed when the one that renews has ended
	counted chan struct{} // closed when the one that measures has ended

	wanted           chan struct{} // holds one: somebody waits for next
	mu               sync.Mutex    // guards the fields below
	next             *renewal      // the renewal that is sent next, if somebody waits for it
	entry            entry
	claims           program.Claims
	serves, programs uint64 // digests of the ids of the servers, and of what they are
}

// renewal is one that somebody waits for.
type renewal struct {
	done chan struct{} // closed when it was tried
	err  error
}

func newLease(n *Members) *lease {
	e := entry{Boot: n.boot, Since: time.Now().UTC().Truncate(time.Millisecond)}
	if n.opts.isShared() {
		e.Settings, e.Letters = n.opts.givenSettings(), letter.Version
	}
	return &lease{node: n, key: "nodes." + n.name, base: time.Now(), entry: e, m: leases.New(n.boot, n.opts.Lease), stop: make(chan struct{}), done: make(chan struct{}), counted: make(chan struct{}), wanted: make(chan struct{}, 1)}
}

// encodeEntry encodes the entry.
func (l *lease) encodeEntry() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entry.Programs.Send()
	data, _ := json.Marshal(l.entry) // Nothing in it can fail.
	return data
}

// leftFor is for how long others find out that a boot has left in order, or that another one has its name. After that they wait until their own
// leases are steady.
const leftFor = 15 * time.Minute

// registerNode writes the first entry, over that of an older boot if there is one.
func (l *lease) registerNode(ctx context.Context) error {
	for conflicts := 0; ; {
		sent := time.Since(l.base)
		data, rev, err := l.getEntry(ctx)
		switch {
		case errors.Is(err, store.ErrNotFound):
			rev, err = l.createEntry(ctx)
		case err == nil || errors.Is(err, store.ErrDamaged) || errors.Is(err, store.ErrNewer):
			var e entry
			if json.Unmarshal(data, &e) != nil || e.Boot != l.node.boot { // Otherwise an earlier try was stored after all.
				l.node.succeeds = true
			}
			if rev, err = l.updateEntry(ctx, rev); err == nil && l.node.mail != nil && l.node.succeeds && validName(e.Boot) {
				_ = l.node.markTaken(ctx, e.Boot, hasLeft, leftFor) // it never comes back under this name
			}
		}
		switch {
		case err == nil:
			l.mu.Lock()
			l.entry.First = rev
			l.mu.Unlock()
			l.m.Rev, l.m.Renewed, l.m.Since = rev, sent, sent
			l.calm.Store(int64(l.m.SteadyFrom()))
			l.renewed.Store(int64(sent))
			return nil
		case conflicts < 5 && (errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrRetry)):
			conflicts++
		case l.node.opts.Remote.isSet() && errors.Is(err, store.ErrUnavailable) && sleep(ctx, 250*time.Millisecond): // The servers are electing.
		default:
			return fmt.Errorf("cluster: register node %s: %w", l.node.name, err)
		}
	}
}

// renewRegularly renews the lease until stop is closed.
func (l *lease) renewRegularly() {
	defer close(l.done)
	tick := time.NewTicker(l.node.opts.Lease / leases.PerTerm)
	defer tick.Stop()
	failing, said := false, time.Time{}
	for {
		select {
		case <-l.stop:
			return
		case <-tick.C:
		case <-l.wanted:
		}
		waiting := l.takeWaiting()
		ctx, cancel := context.WithTimeout(context.Background(), min(l.node.opts.Lease, callTimeout))
		err := l.renewEntry(ctx)
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
		if failing = err != nil; failing {
			said = l.node.sayRefused(said)
		}
	}
}

// takeWaiting takes the renewal that others wait for. Who comes later waits for the one after.
func (l *lease) takeWaiting() *renewal {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.next
	l.next = nil
	return r
}

// confirmRenewal returns once a renewal has succeeded that was sent after the call. Callers at the same time share one.
func (l *lease) confirmRenewal(ctx context.Context) error {
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
		return store.ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("%w: the lease is not renewed: %w", store.ErrUnavailable, context.Cause(ctx))
	}
	if r.err == nil && l.node.Suspended() {
		return fmt.Errorf("%w: the lease is over", store.ErrUnavailable)
	}
	return r.err
}

// renewEntry writes the entry again. If the entry is not the one it knows, renew reads
// it. It renews its own entry from a write without an answer, creates a missing
// entry again, and leaves that of another boot alone.
func (l *lease) renewEntry(ctx context.Context) error {
	m := l.m
	for m.Renew(time.Since(l.base)); ; {
		switch m.Next() {
		case leases.Update:
			rev, err := l.updateEntry(ctx, m.Rev)
			l.noteRevision(rev, err)
			m.Wrote(rev, errors.Is(err, store.ErrConflict), err)
		case leases.Create:
			rev, err := l.createEntry(ctx)
			l.noteRevision(rev, err)
			m.Wrote(rev, errors.Is(err, store.ErrConflict), err)
		case leases.Read:
			data, rev, err := l.getEntry(ctx)
			var e entry
			if json.Unmarshal(data, &e) != nil {
				e.Boot = ""
			}
			m.Found(e.Boot, rev, errors.Is(err, store.ErrNotFound), err)
		case leases.Over:
			if over := m.Renewed - time.Duration(l.renewed.Load()) - l.node.opts.Lease; m.Err == nil && over > 0 {
				l.over.Add(int64(over))
			}
			l.calm.Store(int64(m.SteadyFrom())) // first: whoever sees the renewal sees what it has shown
			l.renewed.Store(int64(m.Renewed))
			return m.Err
		}
	}
}

// noteRevision notes the revision of an entry. The first one in a stream that was made again is that of the boot: revisions begin anew there.
func (l *lease) noteRevision(rev uint64, err error) {
	if err != nil {
		return
	}
	again := l.again.Swap(false)
	l.mu.Lock()
	defer l.mu.Unlock()
	if again {
		l.entry.First = rev
		l.entry.Programs.Anew()
	}
	l.entry.Programs.Stored(rev)
}

// renewalAge returns how long ago the last successful renewal was sent.
func (l *lease) renewalAge() time.Duration {
	return time.Since(l.base) - time.Duration(l.renewed.Load())
}

// isSteady reports whether an entry of another node that is not there says that this one is gone; see leases.Machine.Steady.
func (l *lease) isSteady() bool {
	return l.renewalAge() <= leases.Late(l.node.opts.Lease) && time.Since(l.base) >= time.Duration(l.calm.Load())
}

// timeSuspended returns for how long the lease was over, in all.
func (l *lease) timeSuspended() time.Duration {
	return time.Duration(l.over.Load()) + max(0, l.renewalAge()-l.node.opts.Lease)
}

// release ends the loop and deletes the entry, if it is still this boot's. Without
// remove the entry expires.
func (l *lease) release(ctx context.Context, remove bool) error {
	close(l.stop)
	<-l.done
	<-l.counted
	if l.m.Rev == 0 || !remove {
		return nil
	}
	// An election may take as long. After that other nodes take the streams over without the deletion.
	ctx, cancel := context.WithTimeout(ctx, max(callTimeout, l.node.opts.Lease))
	defer cancel()
	if l.node.mail != nil { // A node that has just begun knows by this that the boot is gone, and by no entry that is not there.
		_ = l.node.markTaken(ctx, l.node.boot, hasLeft, leftFor)
	}
	err := l.node.buryMessage(ctx, l.entryStream(), l.entrySubject(), l.m.Rev)
	for errors.Is(err, errNoResponders) && sleep(ctx, 250*time.Millisecond) { // The servers are electing.
		err = l.node.buryMessage(ctx, l.entryStream(), l.entrySubject(), l.m.Rev)
	}
	if err != nil && !errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("cluster: delete %s: %w", l.key, err)
	}
	return nil
}

// The lease also works on its entry while the node closes, when calls from
// outside are refused.

func (l *lease) entryStream() string  { return l.node.streamName("nodes") }
func (l *lease) entrySubject() string { return l.node.subjectOf(l.key) }

func (l *lease) getEntry(ctx context.Context) ([]byte, uint64, error) {
	return l.node.getRecord(ctx, l.entryStream(), l.entrySubject())
}

func (l *lease) createEntry(ctx context.Context) (uint64, error) {
	return l.node.createRecord(ctx, l.entryStream(), l.entrySubject(), l.encodeEntry(), l.node.opts.Lease)
}

func (l *lease) updateEntry(ctx context.Context, rev uint64) (uint64, error) {
	return l.node.putMessage(ctx, l.entrySubject(), encodeRecord(l.encodeEntry()), l.node.opts.Lease, guard{seq: rev})
}

// readEntry decodes an entry of revision rev.
func readEntry(data []byte, rev uint64) (e entry, ok bool) {
	if json.Unmarshal(data, &e) != nil {
		return e, false
	}
	e.First = cmp.Or(e.First, rev) // The first one is written before its revision is known.
	e.Programs.Read(rev)
	return e, true
}

// earlierProgram says which other programs another node had before this one.
func (l *lease) earlierProgram(there program.Claims) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entry.Programs.Earlier(there)
}
