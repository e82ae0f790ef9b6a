package quota

import (
	"cmp"
	"slices"
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

// Report is what the clients that use most of this process use of it, most first: at most 256 of them, each with more than a 32nd of a
// limit. It begins anew to count what is taken from buckets, and so belongs to one caller.
func (t *Accounts) Report() []Share {
	type part struct {
		Share
		most float64
	}
	var all []part
	look := func(a *Account) int64 {
		p := part{Share: Share{Tenant: a.key.tenant, Address: a.From(), InFlight: a.load.Load() % claim}}
		if t.lim.Each > 0 {
			p.most = float64(p.InFlight) / float64(t.lim.Each)
		}
		for i := range a.Held {
			p.Held[i] = max(0, a.Held[i].Load())
			if t.lim.Held[i] > 0 {
				p.most = max(p.most, float64(p.Held[i])/float64(t.lim.Held[i]))
			}
		}
		for i, b := range a.Buckets {
			if b.taken != nil {
				p.Taken[i] = max(0, b.taken.Swap(0)) // Tokens of the second before may be given back in this one.
				p.most = max(p.most, float64(p.Taken[i])/max(1, t.lim.Rates[i].PerSecond))
			}
		}
		if p.most > 1./noticeable {
			all = append(all, p)
		}
		return 0
	}
	t.table.Each(func(a *Account) { look(a) })
	slices.SortFunc(all, func(x, y part) int { return cmp.Compare(y.most, x.most) })
	shares := make([]Share, 0, min(len(all), mostShares))
	for _, p := range all[:min(len(all), mostShares)] {
		shares = append(shares, p.Share)
	}
	return shares
}

// Hear takes report n of another process: what its clients took there they have less of here, and what they have in use there counts
// here until the next report, or for [HeardFor]. It drops a report that is not newer than the last one.
func (t *Accounts) Hear(now time.Time, from string, n uint64, shares []Share) {
	e := &t.elsewhere
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.all[from]
	switch {
	case h == nil && len(shares) == 0:
		return
	case h == nil:
		h = new(heard)
		if e.all == nil {
			e.all = make(map[string]*heard)
		}
		e.all[from] = h
	case n <= h.n:
		return
	}
	before := h.in
	h.n, h.at, h.in = n, now, nil
	for i := range shares[:min(len(shares), mostShares)] {
		h.in = append(h.in, shares[i].countShare(t, now))
	}
	e.releaseShares(before) // Afterwards: meanwhile an account is held to more, and not to less.
	e.busy.Add(int64(len(h.in)))
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

// Heard is how many shares of other processes count here now.
func (t *Accounts) Heard() int64 { return t.elsewhere.busy.Load() }

// Elsewhere is how much of Held[what] the client has in use of other processes.
func (a *Account) Elsewhere(what int) int64 { return a.heldElsewhere[what].Load() }
