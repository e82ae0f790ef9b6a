package pool

import "time"

// Isolation says who shares an instance.
type Isolation uint8

const (
	// BySession gives each session an instance; what has no session shares those of its principal.
	BySession Isolation = iota
	// ByPrincipal gives each principal instances of its own.
	ByPrincipal
	// ByCall gives each call an instance that has served nobody, and serves nobody afterwards.
	ByCall
	// Shared gives all callers the same instances: the operator says that they keep nothing.
	Shared
)

// Terms are those of one backend. Counts below one, and times of zero, are no bound, unless a field says otherwise.
type Terms struct {
	Isolation    Isolation
	Warm         int           // spares for each kind that was wanted within Idle; 0 for none
	Max          int           // instances of the backend
	PerPrincipal int           // instances of the backend for one principal
	Queue        int           // wants that wait
	StartTimeout time.Duration // until an instance must be ready, and that a want waits
	Idle         time.Duration // without a want, until an instance ends
	MaxLife      time.Duration // from then on an instance ends when it serves no call
	Memory       int64         // bytes that an instance may hold
	PingEvery    time.Duration // between the pings of an instance that serves no call
	PingWait     time.Duration // until a ping must be answered
	CancelWait   time.Duration // until a cancelled call must have ended
}

// Bounds are those of the node, over all backends.
type Bounds struct {
	Instances int // that start, run or stop
	Starts    int // at once
}

const (
	firstPause  = time.Second // after the first failure
	mostPause   = time.Minute
	provenAfter = time.Minute // an instance that has lived for so long was no failure
	openAfter   = 5           // failures in a row
)
