package main

import (
	"sync/atomic"
	"time"
)

const (
	// grace is for how long after a harm to a fleet is over, or after a roll, clients may still
	// notice it.
	grace = 10 * time.Second
	// pauseGrace is the same for the only node, which may answer only then what it refused while it
	// had no lease.
	pauseGrace = 2 * time.Second
)

// history is what was done to the nodes, by which failures are excused.
type history struct {
	several bool         // nodes
	socket  bool         // of the only node stays open: the next start may serve a connection that was made before
	boot    atomic.Int64 // starts so far, and healed harms
	up      atomic.Int64 // the start that has answered
	dying   atomic.Int64 // the start that has been, or is just being, ended or harmed

	harmed  atomic.Bool  // several nodes are harmed now
	healed  atomic.Int64 // when that was over, unix nanoseconds
	rolling atomic.Bool  // several nodes are restarted in turn
	rolled  atomic.Int64 // when that was over

	paused    atomic.Bool  // the only node stands still, or is not ready since
	pauses    atomic.Int64 // how often it did
	continued atomic.Int64 // when it was ready again
	orderly   atomic.Bool  // the only node ends in order in this round
	ending    atomic.Bool  // it does so now
}

// currentBoot is the newest start, and whether it still goes on. It is asked before a request: by
// the time that one has failed, the process may have come up.
func (h *history) currentBoot() (boot int64, starting bool) {
	boot = h.boot.Load()
	return boot, h.up.Load() < boot || h.paused.Load()
}

// isConnected reports whether a stream whose connection was made during a start has it to whoever
// serves it now. Nodes of a fleet keep theirs while others are killed. At a socket that stays open
// nobody knows.
func (h *history) isConnected(boot int64) bool {
	return boot != 0 && (h.several || h.socket || boot == h.boot.Load())
}

func isWithin(unixNano *atomic.Int64, d time.Duration) bool {
	return time.Since(time.Unix(0, unixNano.Load())) < d
}

// isExcused reports that a connection made during a start may have failed because of a harm or of a
// start.
func (h *history) isExcused(boot int64) bool {
	return h.dying.Load() >= boot || h.up.Load() < boot || h.several && isWithin(&h.healed, grace)
}

// mayFail reports that a request may have failed, for which currentBoot said boot and starting.
func (h *history) mayFail(boot int64, starting bool) bool {
	return starting || h.isExcused(boot) || h.paused.Load() || isWithin(&h.continued, pauseGrace)
}

// mayBreak reports that a stream may have broken, or what a node keeps for a call may be gone: in a
// roll nodes end in order too, and no request may fail.
func (h *history) mayBreak(boot int64) bool {
	return h.isExcused(boot) || h.rolling.Load() || h.several && isWithin(&h.rolled, grace)
}

// mayForget is mayBreak for a fleet, of which the node that has begun a call may be gone while
// others live on.
func (h *history) mayForget(boot int64) bool { return h.several && h.mayBreak(boot) }

// mayEnd reports that a node may end a stream: as it ends itself in order, it has clients come
// back.
func (h *history) mayEnd(boot int64) bool { return (h.several || h.orderly.Load()) && h.mayBreak(boot) }
