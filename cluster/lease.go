package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// entry is the record nodes.<node>.
type entry struct {
	Boot    string    `json:"boot"`
	Since   time.Time `json:"since"`
	Address string    `json:"address,omitempty"`
}

// lease keeps the node's entry alive. It only decides when others may take over;
// the fence guards what the node writes.
type lease struct {
	node *Node
	key  string
	base time.Time // start of the monotonic clock that renewed counts on

	// renewed is when the last successful renewal was sent. Before its answer
	// came, the entry may have been another node's, so the time of sending counts.
	renewed atomic.Int64
	taken   atomic.Bool   // a newer boot has the name
	rev     uint64        // the entry's last known revision; only the loop uses it
	payload []byte        // the encoded entry
	stop    chan struct{} // closed to end the loop
	done    chan struct{} // closed when the loop has ended
}

func newLease(n *Node) (*lease, error) {
	payload, err := json.Marshal(entry{Boot: n.boot, Since: time.Now().UTC().Truncate(time.Millisecond)})
	if err != nil {
		return nil, err
	}
	return &lease{node: n, key: "nodes." + n.name, base: time.Now(), payload: payload, stop: make(chan struct{}), done: make(chan struct{})}, nil
}

// register writes the first entry, over that of an older boot if there is one.
func (l *lease) register(ctx context.Context) error {
	var err error
	for range 5 {
		sent := time.Since(l.base)
		var rev uint64
		_, rev, err = l.get(ctx)
		switch {
		case errors.Is(err, ErrNotFound):
			rev, err = l.create(ctx)
		case err == nil || errors.Is(err, ErrDamaged) || errors.Is(err, ErrNewer):
			rev, err = l.update(ctx, rev)
		}
		if err == nil {
			l.rev = rev
			l.renewed.Store(int64(sent))
			return nil
		}
		if !errors.Is(err, ErrConflict) && !errors.Is(err, ErrRetry) {
			break
		}
	}
	return fmt.Errorf("cluster: register node %s: %w", l.node.name, err)
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
	tick := time.NewTicker(l.node.opts.Lease / 5)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-l.stop:
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(context.Background(), min(l.node.opts.Lease, callTimeout))
		err := l.renew(ctx)
		if err == nil {
			l.node.measure(ctx)
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

// errTaken: the node's name belongs to a newer boot.
var errTaken = errors.New("a newer boot has this node's name")

// renew writes the entry again. If the entry is not the one it knows, renew reads
// it. It renews its own entry from a write without an answer, creates a missing
// entry again, and leaves that of another boot alone.
func (l *lease) renew(ctx context.Context) error {
	sent := time.Since(l.base)
	err := ErrConflict
	var rev uint64
	if l.rev != 0 {
		rev, err = l.update(ctx, l.rev)
	}
	if errors.Is(err, ErrConflict) {
		var data []byte
		data, rev, err = l.get(ctx)
		switch {
		case errors.Is(err, ErrNotFound):
			rev, err = l.create(ctx)
		case err == nil:
			var e entry
			if json.Unmarshal(data, &e) != nil || e.Boot != l.node.boot {
				l.rev = 0
				l.taken.Store(true)
				// The boot that overwrote the entry ended this lease, however long it
				// had left.
				l.renewed.Store(int64(sent - l.node.opts.Lease - 1))
				return errTaken
			}
			rev, err = l.update(ctx, rev)
		}
	}
	if err != nil {
		return err
	}
	l.rev = rev
	l.taken.Store(false)
	l.renewed.Store(int64(sent))
	return nil
}

// age returns how long ago the last successful renewal was sent.
func (l *lease) age() time.Duration {
	return time.Since(l.base) - time.Duration(l.renewed.Load())
}

// close ends the loop and deletes the entry, if it is still this boot's. Without
// remove the entry expires.
func (l *lease) close(ctx context.Context, remove bool) error {
	close(l.stop)
	<-l.done
	if l.rev == 0 || !remove {
		return nil
	}
	if err := l.node.bury(ctx, l.stream(), l.subject(), l.rev); err != nil && !errors.Is(err, ErrConflict) {
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
	return l.node.create(ctx, l.stream(), l.subject(), l.payload, l.node.opts.Lease)
}

func (l *lease) update(ctx context.Context, rev uint64) (uint64, error) {
	return l.node.put(ctx, l.subject(), encodeRecord(l.payload), l.node.opts.Lease, guard{seq: rev})
}
