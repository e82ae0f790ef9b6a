package quota

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// mostShares bounds the accounts of a report: those that use most.
	mostShares = 256
	// noticeable is the part of a limit from which on a use is reported. What a client uses below that on each of many
	// processes, none hears of.
	noticeable = 32
	// HeardFor is how long the last report of another process counts.
	HeardFor = 3 * time.Second
)

// Share is what one client has in use of a process, and what it has taken from its buckets there since the report before.
type Share struct {
	Tenant   string        `json:"t"`
	Address  string        `json:"a,omitempty"` // of clients that share a tenant
	InFlight int64         `json:"n,omitempty"`
	Held     [Counts]int64 `json:"h"`
	Taken    [Rates]int64  `json:"r"`
}

// elsewhere is what the clients of a process have in use of others.
type elsewhere struct {
	mu   sync.Mutex // guards all
	all  map[string]*heard
	busy atomic.Int64 // accounts that are held against what is used elsewhere, once for each process
}

// heard is the last report of another process.
type heard struct {
	n  uint64 // its number
	at time.Time
	in []inUse
}

// inUse is what a report says that an account has in use.
type inUse struct {
	a        *Account
	inFlight int64
	held     [Counts]int64
}

// countShare counts on an account what it has in use elsewhere, and takes what it took there.
func (s *Share) countShare(t *Accounts, now time.Time) inUse {
	for {
		a := t.Of(s.Tenant, s.Address)
		u := inUse{a: a, inFlight: max(0, s.InFlight), held: s.Held}
		a.elsewhere.Add(u.inFlight)
		for i := range u.held {
			u.held[i] = max(0, u.held[i])
			a.heldElsewhere[i].Add(u.held[i])
		}
		a.reports.Add(1)
		if a.dropped.Load() {
			u.giveBack()
			continue
		}
		for i, b := range a.Buckets {
			b.Owe(now, s.Taken[i])
		}
		return u
	}
}

func (u *inUse) giveBack() {
	u.a.elsewhere.Add(-u.inFlight)
	for i, n := range u.held {
		u.a.heldElsewhere[i].Add(-n)
	}
	u.a.reports.Add(-1)
}

func (e *elsewhere) releaseShares(all []inUse) {
	for i := range all {
		all[i].giveBack()
	}
	e.busy.Add(-int64(len(all)))
}

// dropSilent forgets the reports of processes that have been silent for HeardFor.
func (e *elsewhere) dropSilent(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for from, h := range e.all {
		if now.Sub(h.at) >= HeardFor {
			e.releaseShares(h.in)
			delete(e.all, from)
		}
	}
}
