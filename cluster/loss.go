package cluster

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/troupe-run/troupe/cluster/internal/embedded"
)

const (
	// lookLost is how often a node looks whether the streams of the store are there.
	lookLost = 5 * time.Second
	// lostAfter is for how long the servers must say that a stream is not there before it is made again.
	lostAfter = 10 * time.Second
)

// losses finds out that streams are gone, as where the servers came back with an empty disk, and makes them again. One goroutine uses it.
//
// That is safe: the ids of sessions, streams and tasks are random, so that nothing that is stored from then on can be taken for what is lost, and a write that
// names a revision of the old stream is refused, as nothing of its subject is there.
type losses struct {
	configs map[string]jetstream.StreamConfig // of streams on other servers, as they were at the start
	created map[string]time.Time              // when each stream was made
	looked  time.Time
	since   time.Time // when streams began to be missing; zero: they are there
	said    bool      // it was logged why they cannot be made again
	keyless bool      // the stream of keys was made again, and does not have the ring yet

	lost    atomic.Uint64
	missing atomic.Pointer[Outage]
}

func newLosses() losses {
	return losses{configs: make(map[string]jetstream.StreamConfig), created: make(map[string]time.Time)}
}

// look is called often, and looks every 5 s.
func (l *losses) look(ctx context.Context, n *Members, now time.Time) {
	if now.Sub(l.looked) < lookLost || n.outages.now.Load() != nil {
		return
	}
	l.looked = now
	var missing, replaced []*kind
	// What is known of some streams counts though others do not answer: the next look finds no difference.
	defer func() { l.adoptStreams(ctx, n, replaced) }()
	for i := range n.kinds {
		k := &n.kinds[i]
		s, err := n.fillOfStream(ctx, k.name)
		switch {
		case isMissing(err):
			missing = append(missing, k)
		case err != nil:
			return // It may be there.
		case k.name == "nodes" && s.shards != len(n.shards):
			l.reportLoss(n, now, "the store was made again with another number of event shards: only a process that starts takes it")
			return
		case !l.created[k.name].IsZero() && !s.created.Equal(l.created[k.name]):
			replaced = append(replaced, k)
			l.created[k.name] = s.created
		default:
			l.created[k.name] = s.created
		}
	}
	if len(missing) > 0 {
		l.remakeStreams(ctx, n, missing, now)
	} else {
		l.since, l.said = time.Time{}, false
		l.missing.Store(nil)
	}
}

// remakeStreams makes streams again that have been missing for long enough. The next look finds them.
func (l *losses) remakeStreams(ctx context.Context, n *Members, missing []*kind, now time.Time) {
	if l.since.IsZero() {
		l.since = now
	}
	if now.Sub(l.since) < lostAfter {
		return
	}
	if n.opts.guess && n.opts.Prefix == "" {
		// The process that keeps the store has the streams, or makes them, before it serves.
		l.reportLoss(n, now, "streams of the store are missing: the process that keeps it is starting, or must be started again")
		return
	}
	js, err := jetstream.New(n.conn)
	for _, k := range missing {
		if err == nil {
			c, known := l.configs[k.name]
			if !known {
				c = n.streamConfig(k)
			}
			_, err = js.CreateStream(ctx, c)
		}
	}
	if err != nil {
		l.reportLoss(n, now, "streams of the store are missing, and cannot be made again: "+err.Error())
		return
	}
	l.looked = time.Time{}
}

// reportLoss notes that the streams stay away. After a minute /healthz says so, and a process that starts says what to do, or makes them.
func (l *losses) reportLoss(n *Members, now time.Time, why string) {
	if l.since.IsZero() {
		l.since = now
	}
	l.missing.CompareAndSwap(nil, &Outage{Since: l.since, Lost: true})
	if !l.said {
		l.said = true
		n.log.Error(why)
	}
}

// adoptStreams goes on with streams that are not those of before, and stores again what every node needs of them.
func (l *losses) adoptStreams(ctx context.Context, n *Members, replaced []*kind) {
	var names, gone []string
	said := l.keyless
	for _, k := range replaced {
		names = append(names, n.streamName(k.name))
		gone = append(gone, embedded.DescribeLoss(k.name))
		switch k.name {
		case "nodes":
			n.lease.again.Store(true)
		case "keys":
			l.keyless = true
		}
	}
	if len(replaced) > 0 {
		l.lost.Add(uint64(len(replaced)))
		n.log.Error("streams of the store were lost while this process ran: they were made again, and what they held is gone", "streams", names, "lost", gone)
	}
	if l.keyless {
		err := n.keyring.restoreKeys(ctx)
		if l.keyless = err != nil; l.keyless && !said {
			n.log.Warn("the key ring was lost, and is not there yet", "error", err)
		}
	}
}
