package quota

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/internal/directory"
)

// Limits bound what all clients, and each of them, may have. A negative number, or the zero
// Rate, means no limit.
type Limits struct {
	Places   int         // requests in flight, of all accounts together
	Each     int         // requests in flight of one account
	Accounts int         // clients that have an account of their own
	Bytes    int64       // that are held for all accounts together
	Held     [Counts]int // what the owner bounds each of an account's counts by; only [Accounts.Report] looks at it
	Rates    [Rates]Rate // of each account's buckets
	Weights  Weights
}

// Accounts has the accounts of a process's clients, and its places for requests in
// flight. [New] makes one; the zero value is not usable. The methods are safe for
// concurrent use.
type Accounts struct {
	// Turns are for the work of large requests, by account. Nothing is counted by them: who takes one keeps
	// its account by what else is counted on it.
	Turns *Turns[*Account]

	lim   Limits
	table *directory.Directory[key, *Account]
	// overflow is shared by clients that came when the table was full.
	overflow *Account
	size     atomic.Int64 // of the table
	spilled  atomic.Int64 // how often overflow was used
	inFlight atomic.Int64 // requests, of all accounts
	active   atomic.Int64 // the weights of all accounts that contend for places: with a request in flight, or a claim
	bytes    atomic.Int64 // held for all accounts
	kinds    [Kinds]atomic.Int64
	next     int // shard to be swept next

	elsewhere elsewhere

	mu        sync.Mutex // guards claimants
	claimants []*Account
}

// New returns a table without accounts.
func New(lim Limits) *Accounts {
	t := &Accounts{Turns: NewTurns[*Account](min(runtime.GOMAXPROCS(0), runtime.NumCPU()) / 2), lim: lim, table: directory.New[key, *Account]()}
	t.overflow = t.openAccount(key{}, "")
	return t
}

func (t *Accounts) openAccount(k key, address string) *Account {
	a := &Account{key: k, address: address, weight: t.lim.Weights.weightOf(k)}
	for i, r := range t.lim.Rates {
		if r != (Rate{}) {
			a.Buckets[i] = NewBucket(r).countTaken()
		}
	}
	return a
}

// Of finds the account of a tenant, or of an address if address is not "", and makes it if
// there is none. Pass the address of a client whose tenant others share. When there are
// Limits.Accounts accounts already, new clients share one.
func (t *Accounts) Of(tenant, address string) *Account {
	k := key{tenant: tenant}
	if address != "" {
		k.from = networkOf(address)
	}
	if a, ok := t.table.Get(k); ok {
		return a
	}
	if Over(t.size.Add(1), t.lim.Accounts) {
		t.size.Add(-1)
		t.spilled.Add(1)
		return t.overflow
	}
	made := false
	a, _ := t.table.Obtain(k, func() (*Account, error) {
		made = true
		return t.openAccount(k, address), nil
	})
	if !made {
		t.size.Add(-1)
	}
	return a
}

// Shared reports whether a is that of clients for whom there was no account of their own: the next request of one may find another.
func (t *Accounts) Shared(a *Account) bool { return a == t.overflow }

// Most is the largest of what of returns for the accounts. It calls of for each.
func (t *Accounts) Most(of func(*Account) int64) int64 {
	most := of(t.overflow)
	t.table.Each(func(a *Account) { most = max(most, of(a)) })
	return most
}

// Len is the number of accounts.
func (t *Accounts) Len() int { return int(t.size.Load()) }

// Overflowed is how often an account was not found because there were too many.
func (t *Accounts) Overflowed() int64 { return t.spilled.Load() }

// Settle drops old claims to a place, what silent processes have reported, and the idle accounts in one of [directory.Shards] parts
// of the table: the next part with each call. The owner calls it about once a second, from
// one goroutine at a time.
func (t *Accounts) Settle(now time.Time) {
	t.mu.Lock()
	kept := t.claimants[:0]
	for _, a := range t.claimants {
		if at := a.claimed.Load(); now.UnixNano()-at < int64(claimFor) || !a.claimed.CompareAndSwap(at, 0) {
			kept = append(kept, a)
			continue
		}
		t.addLoad(a, -claim)
	}
	clear(t.claimants[len(kept):])
	t.claimants = kept
	t.mu.Unlock()
	t.elsewhere.dropSilent(now)
	t.next = (t.next + 1) % directory.Shards
	t.size.Add(-int64(t.table.Sweep(t.next, func(a *Account) bool { return a.dropIdle(now) })))
}

// Memo caches an account for a frequent user, such as a session. The zero value is empty.
// The methods are safe for concurrent use.
type Memo struct{ p atomic.Pointer[Account] }

// Of is [Accounts.Of], without a look at the table if the account is the cached one.
func (m *Memo) Of(t *Accounts, tenant, address string) *Account {
	a := m.p.Load()
	if a != nil && a.address == address && a.key.tenant == tenant && !a.dropped.Load() {
		return a
	}
	a = t.Of(tenant, address)
	m.Keep(t, a)
	return a
}

// Keep caches a, unless it is the account that new clients share: they get an account of
// their own when there is room.
func (m *Memo) Keep(t *Accounts, a *Account) {
	if a != t.overflow {
		m.p.Store(a)
	}
}

// Last is the cached account, or that of the tenant if there is none.
func (m *Memo) Last(t *Accounts, tenant string) *Account {
	if a := m.p.Load(); a != nil && !a.dropped.Load() {
		return a
	}
	return t.Of(tenant, "")
}
