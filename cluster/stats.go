package cluster

import (
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
	appends, bytes, fenced, full, unavailable, refused, undecided, unreadable, concluded, reconnects atomic.Uint64
	time                                                                                             atomic.Int64
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
