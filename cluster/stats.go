package cluster

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/internal/store"
)

// Stats is what a node knows of itself and its store, for metrics. Counts start
// at 0 with the process.
type Stats struct {
	// Streams is the fill of each stream by its name without the prefix: nodes,
	// keys, sessions, events, which are all shards together. It is nil if the store did not answer.
	Streams map[string]StreamStats
	// Bytes, Messages and MaxBytes are the sums over Streams.
	Bytes, MaxBytes, Messages uint64

	LeaseAge  time.Duration // since the last successful renewal was sent
	Lease     time.Duration // its length
	Suspended bool

	Appends           uint64        // acknowledged
	AppendBytes       uint64        // of their data
	AppendTime        time.Duration // sum of their times from Append to acknowledgement
	AppendFenced      uint64        // refused: stream lost
	AppendFull        uint64        // refused: store full
	AppendUnavailable uint64        // outcome unknown
	AppendRefused     uint64        // refused for another reason
	InFlight          int           // calls without an answer, and writes that wait for a flush
	Reconnects        uint64        // of the connection to NATS
	Restarts          uint64        // of the embedded server, after writes that failed
}

// StreamStats is the fill of one stream.
type StreamStats struct {
	Bytes, MaxBytes, Messages uint64
	// Missing is how many replicas the stream lacks: they are away, or behind the leader.
	Missing int

	created time.Time // when the stream was made
	shards  int       // as it says that the store has them
	fullest uint64    // what Bytes would be if all shards were as full as the fullest one
}

type counters struct {
	appends, bytes, fenced, full, unavailable, refused, undecided, unreadable, concluded atomic.Uint64
	time                                                                                 atomic.Int64
}

func (c *counters) countAppend(d time.Duration, size int, err error) {
	switch {
	case err == nil:
		c.appends.Add(1)
		c.bytes.Add(uint64(size))
		c.time.Add(int64(d))
	case errors.Is(err, store.ErrFenced):
		c.fenced.Add(1)
	case errors.Is(err, store.ErrFull):
		c.full.Add(1)
	case errors.Is(err, store.ErrUnavailable):
		c.unavailable.Add(1)
	default:
		c.refused.Add(1)
	}
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
// decided an earlier one; without a question to the store.
func (n *Node) Reconnects() uint64 {
	sum := n.conn.Stats().Reconnects + n.logConn.Stats().Reconnects
	if n.mail != nil {
		sum += n.mail.conn.Stats().Reconnects
	}
	return sum
}

// SuspendedFor returns for how long the node was suspended, in all, since its start.
func (n *Node) SuspendedFor() time.Duration { return n.lease.timeSuspended() }

// Leases counts the nodes that have their lease, this one included, and those that were heard within ten minutes and have not
// renewed it in time, nor said goodbye, nor been replaced. It reckons by their hearts, without a question to the store.
func (n *Node) Leases() (held, late int) {
	count := func(left time.Duration) {
		if left > 0 {
			held++
		} else {
			late++
		}
	}
	count(n.opts.Lease - n.lease.renewalAge())
	if n.mail == nil {
		return held, late
	}
	latest := make(map[string]known)
	for p, k := range n.mail.hearts.heardWithin(memberSilence, time.Now()) {
		if old, ok := latest[p.Node]; p.Node != n.name && (!ok || old.beat.entry < k.beat.entry) {
			latest[p.Node] = k
		}
	}
	for _, k := range latest {
		count(n.opts.Lease - time.Duration(k.beat.age)*time.Millisecond - k.ago)
	}
	return held, late
}

// Undecided is described with Reconnects.
func (n *Node) Undecided() uint64 { return n.counters.undecided.Load() }

// Concluded is how often a write showed that something is not there, or was to show it; see Get.
func (n *Node) Concluded() uint64 { return n.counters.concluded.Load() }

// Restarts is Stats.Restarts alone, without a question to the store.
func (n *Node) Restarts() uint64 { return n.outages.restarts.Load() }

// fillOfKind asks how full a stream is, or all shards of one together.
func (n *Node) fillOfKind(ctx context.Context, name string) (sum StreamStats, err error) {
	shards, most := uint64(0), uint64(0)
	for i := range n.kinds {
		k := &n.kinds[i]
		if k.wholeName() != name {
			continue
		}
		s, err := n.fillOfStream(ctx, k.name)
		if err != nil {
			return StreamStats{}, err
		}
		sum.Bytes += s.Bytes
		sum.MaxBytes += s.MaxBytes
		sum.Messages += s.Messages
		sum.Missing = max(sum.Missing, s.Missing) // a server that is away is one replica, not one for each shard
		shards, most = shards+1, max(most, s.Bytes)
	}
	sum.fullest = most * shards
	return sum, nil
}

// clockOf is the stream whose leader's clock counts: several servers may have several.
const clockOf = "sessions"

func (n *Node) fillOfStream(ctx context.Context, name string) (StreamStats, error) {
	var info struct {
		Created time.Time `json:"created"`
		Config  struct {
			MaxBytes int64             `json:"max_bytes"`
			Replicas int               `json:"num_replicas"`
			Metadata map[string]string `json:"metadata"`
		} `json:"config"`
		Cluster *struct {
			Leader   string `json:"leader"`
			Replicas []struct {
				Current bool `json:"current"`
				Offline bool `json:"offline"`
			} `json:"replicas"`
		} `json:"cluster"`
		State struct {
			Messages uint64 `json:"messages"`
			Bytes    uint64 `json:"bytes"`
		} `json:"state"`
		Time time.Time `json:"ts"` // by the clock of the stream's leader
	}
	sent := n.opts.now()
	if err := n.askAPI(ctx, "STREAM.INFO."+n.streamName(name), nil, &info); err != nil {
		return StreamStats{}, err
	}
	if name == clockOf && n.opts.Remote.isSet() && !info.Time.IsZero() {
		n.clock.Hear(sent, n.opts.now(), info.Time)
	}
	s := StreamStats{Bytes: info.State.Bytes, MaxBytes: uint64(max(info.Config.MaxBytes, 0)), Messages: info.State.Messages, created: info.Created, shards: shardsOf(info.Config.Metadata)}
	if c := info.Cluster; c != nil {
		s.Missing = max(info.Config.Replicas, 1)
		if c.Leader != "" {
			s.Missing--
		}
		for _, r := range c.Replicas {
			if r.Current && !r.Offline {
				s.Missing--
			}
		}
		s.Missing = max(s.Missing, 0)
	}
	return s, nil
}
