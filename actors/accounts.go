package actors

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/internal/kernel"
)

// accounts are the accounts of a node's principals. The zero value needs init.
type accounts struct {
	lim   NodeLimits
	table *kernel.Directory[accountKey, *account]
	// overflow is shared by those who came when the table was full.
	overflow *account
	size     atomic.Int64 // of the table
	spilled  atomic.Int64 // how often overflow was used
	active   atomic.Int64 // accounts that contend for the node: with a request in flight, or a claim
	next     int          // shard to be swept next

	mu        sync.Mutex // guards claimants
	claimants []*account
}

func (t *accounts) init(lim NodeLimits) {
	t.lim = lim
	t.table = kernel.NewDirectory[accountKey, *account]()
	t.overflow = t.open(accountKey{}, "")
}

func (t *accounts) open(key accountKey, address string) *account {
	p := &t.lim.Principal
	return &account{key: key, address: address, rate: newBucket(p.Rate, p.Burst),
		sessions: newBucket(float64(p.Sessions)/p.SessionIdle.Seconds(), p.Sessions)}
}

// of finds the account of a tenant, or of an address where the tenant is nobody
// in particular, opening it if there is none.
func (t *accounts) of(tenant, address string) *account {
	key := accountKey{tenant: tenant}
	if address != "" {
		key.from = network(address)
	}
	if a, ok := t.table.Get(key); ok {
		return a
	}
	if over(t.size.Add(1), t.lim.Accounts) {
		t.size.Add(-1)
		t.spilled.Add(1)
		return t.overflow
	}
	made := false
	a, _ := t.table.Obtain(key, func() (*account, error) {
		made = true
		return t.open(key, address), nil
	})
	if !made {
		t.size.Add(-1)
	}
	return a
}

// ofSession is of for a request of a session, which remembers its account.
func (t *accounts) ofSession(s *sessionActor, in *Input) *account {
	a := s.account.Load()
	if a != nil && a.address == in.Address && a.key.tenant == in.Tenant && !a.dropped.Load() {
		return a
	}
	if a = t.of(in.Tenant, in.Address); a != t.overflow {
		s.account.Store(a)
	}
	return a
}

// ofRequest is ofSession, or of where there is no session.
func (t *accounts) ofRequest(s *sessionActor, in *Input) *account {
	if s == nil {
		return t.of(in.Tenant, in.Address)
	}
	return t.ofSession(s, in)
}

// billed is the account of a session's last request, which also pays for what is
// no request of its own: its streams and questions.
func (t *accounts) billed(s *sessionActor) *account {
	if a := s.account.Load(); a != nil && !a.dropped.Load() {
		return a
	}
	return t.of(s.key.Tenant, "")
}

// enter counts a request in, and returns how many the account has now. It does
// not ask whether there may be so many.
func (t *accounts) enter(a *account) (mine int64, ok bool) {
	load := t.add(a, 1)
	if a.dropped.Load() {
		t.leave(a)
		return 0, false
	}
	return load % claim, true
}

// leave counts a request out.
func (t *accounts) leave(a *account) { t.add(a, -1) }

// add changes the load of an account, and the number of those that have any.
func (t *accounts) add(a *account, by int64) int64 {
	load := a.load.Add(by)
	switch load {
	case by:
		t.active.Add(1)
	case 0:
		t.active.Add(-1)
	}
	return load
}

// claimFor is how long an account contends for a nearly full node after it has
// asked for a place: long enough for one that heeds Retry-After to come back.
const claimFor = 2 * time.Second

// claim notes that a asks for a place on a node that is nearly full. Others get a
// smaller share for that also while it has nothing in flight; else who has filled
// the node would take each place that comes free.
func (t *accounts) claim(a *account, now time.Time) {
	if a.claimed.Swap(now.UnixNano()) != 0 {
		return
	}
	t.add(a, claim)
	t.mu.Lock()
	t.claimants = append(t.claimants, a)
	t.mu.Unlock()
}

// settle ends claims that are too old, and forgets idle accounts in one part of
// the table.
func (t *accounts) settle(now time.Time) {
	t.mu.Lock()
	kept := t.claimants[:0]
	for _, a := range t.claimants {
		if at := a.claimed.Load(); now.UnixNano()-at < int64(claimFor) || !a.claimed.CompareAndSwap(at, 0) {
			kept = append(kept, a)
			continue
		}
		t.add(a, -claim)
	}
	clear(t.claimants[len(kept):])
	t.claimants = kept
	t.mu.Unlock()
	t.next = (t.next + 1) % kernel.Shards
	t.size.Add(-int64(t.table.Sweep(t.next, func(a *account) bool { return a.drop(now) })))
}
