package quota

import (
	"cmp"
	"runtime"
	"slices"
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
	Held     [Counts]int // what the owner bounds each of an account's counts by; only [Accounts.ReportShares] looks at it
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
	if ExceedsLimit(t.size.Add(1), t.lim.Accounts) {
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

// IsShared reports whether a is that of clients for whom there was no account of their own: the next request of one may find another.
func (t *Accounts) IsShared(a *Account) bool { return a == t.overflow }

// Most is the largest of what of returns for the accounts. It calls of for each.
func (t *Accounts) Most(of func(*Account) int64) int64 {
	most := of(t.overflow)
	t.table.Each(func(a *Account) { most = max(most, of(a)) })
	return most
}

// Len is the number of accounts.
func (t *Accounts) Len() int { return int(t.size.Load()) }

// OverflowCount is how often an account was not found because there were too many.
func (t *Accounts) OverflowCount() int64 { return t.spilled.Load() }

// AdmitRequest takes a place for a request of account a, or says why there is none. It fails (ok
// is false) on a dropped account: the caller finds the account anew. The caller gives a
// place back with [Accounts.LeavePlace].
func (t *Accounts) AdmitRequest(a *Account) (no Refusal, ok bool) {
	mine, ok := t.countRequest(a)
	if !ok {
		return 0, false
	}
	if load := t.inFlight.Add(1); isBusy(load, t.lim.Places) {
		t.claimPlace(a, time.Now())
		no = fairPlaces(load, mine, t.lim.Places, a.weight, t.active.Load())
	}
	if no == Admitted && ExceedsLimit(mine+a.elsewhere.Load(), t.lim.Each) {
		no = OverLimit
	}
	if no != Admitted {
		t.LeavePlace(a)
	}
	return no, true
}

// EnterRequest takes a place even if none is left, for a request that was admitted before. It
// fails on a dropped account like AdmitRequest.
func (t *Accounts) EnterRequest(a *Account) (ok bool) {
	if _, ok = t.countRequest(a); ok {
		t.inFlight.Add(1)
	}
	return ok
}

// LeavePlace gives a place back.
func (t *Accounts) LeavePlace(a *Account) {
	t.inFlight.Add(-1)
	t.addLoad(a, -1)
}

// InFlight is the number of places in use.
func (t *Accounts) InFlight() int64 { return t.inFlight.Load() }

// countRequest counts a request on a, and returns how many a has now.
func (t *Accounts) countRequest(a *Account) (mine int64, ok bool) {
	load := t.addLoad(a, 1)
	if a.dropped.Load() {
		t.addLoad(a, -1)
		return 0, false
	}
	return load % claim, true
}

// addLoad changes the load of an account, and the sum of the weights of those that have any.
func (t *Accounts) addLoad(a *Account, by int64) int64 {
	load := a.load.Add(by)
	switch load {
	case by:
		t.active.Add(a.weight)
	case 0:
		t.active.Add(-a.weight)
	}
	return load
}

// claimFor is how long an account contends for places after it has asked for one while
// few were left: long enough for a client that heeds a Retry-After of a second.
const claimFor = 2 * time.Second

// claimPlace notes that a asks for a place while few are left. Others then get a smaller share
// even while a has nothing in flight. Without that the client that has filled the places
// would take each one that becomes free.
func (t *Accounts) claimPlace(a *Account, now time.Time) {
	if a.claimed.Swap(now.UnixNano()) != 0 {
		return
	}
	t.addLoad(a, claim)
	t.mu.Lock()
	t.claimants = append(t.claimants, a)
	t.mu.Unlock()
}

// Charge counts n bytes more that are held for the client of a, or says why there is no room
// for them and counts nothing. It fails (ok is false) on a dropped account: the caller finds
// the account anew. An account that holds bytes is never dropped. The caller gives them back
// with [Accounts.Refund].
func (t *Accounts) Charge(a *Account, k Kind, n int64) (no Refusal, ok bool) {
	mine := a.bytes.Add(n)
	if a.dropped.Load() {
		a.bytes.Add(-n)
		return 0, false
	}
	load := t.bytes.Add(n)
	if t.lim.Bytes >= 0 {
		no = fairBytes(load, t.kinds[Waiting].Load(), mine/a.weight, t.lim.Bytes)
	}
	if no != Admitted {
		t.bytes.Add(-n)
		a.bytes.Add(-n)
		return no, true
	}
	t.kinds[k].Add(n)
	return Admitted, true
}

// IsOutOfRoom reports whether a has its share of the bytes, or nothing is left: what could wait should
// wait then.
func (t *Accounts) IsOutOfRoom(a *Account) bool {
	return t.lim.Bytes >= 0 && fairBytes(t.bytes.Load(), t.kinds[Waiting].Load(), a.bytes.Load()/a.weight, t.lim.Bytes) != Admitted
}

// HasSpareRoom reports whether a has half of its share left: what is held for a client's convenience only must not be what its next
// request is refused for.
func (t *Accounts) HasSpareRoom(a *Account) bool {
	return t.lim.Bytes < 0 || fairBytes(t.bytes.Load(), t.kinds[Waiting].Load(), 2*a.bytes.Load()/a.weight, t.lim.Bytes) == Admitted
}

// ChargeAnyway is Charge for bytes that are held whether there is room or not.
func (t *Accounts) ChargeAnyway(a *Account, k Kind, n int64) (ok bool) {
	a.bytes.Add(n)
	if a.dropped.Load() {
		a.bytes.Add(-n)
		return false
	}
	t.bytes.Add(n)
	t.kinds[k].Add(n)
	return true
}

// Refund gives back bytes of a kind.
func (t *Accounts) Refund(a *Account, k Kind, n int64) {
	t.kinds[k].Add(-n)
	t.bytes.Add(-n)
	a.bytes.Add(-n)
}

// Bytes is the number of bytes that are held for all clients.
func (t *Accounts) Bytes() int64 { return t.bytes.Load() }

// BytesOf is the number of bytes of a kind.
func (t *Accounts) BytesOf(k Kind) int64 { return t.kinds[k].Load() }

// MostBytes is the number of bytes of the account that holds most. It looks at all accounts.
func (t *Accounts) MostBytes() int64 { return t.Most((*Account).Bytes) }

// ReportShares is what the clients that use most of this process use of it, most first: at most 256 of them, each with more than a 32nd of a
// limit. It begins anew to count what is taken from buckets, and so belongs to one caller.
func (t *Accounts) ReportShares() []Share {
	type part struct {
		Share
		most float64
	}
	var all []part
	look := func(a *Account) int64 {
		p := part{Share: Share{Tenant: a.key.tenant, Address: a.NetworkAddress(), InFlight: a.load.Load() % claim}}
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

// HearShares takes report n of another process: what its clients took there they have less of here, and what they have in use there counts
// here until the next report, or for [HeardFor]. It drops a report that is not newer than the last one.
func (t *Accounts) HearShares(now time.Time, from string, n uint64, shares []Share) {
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

// SharesHeard is how many shares of other processes count here now.
func (t *Accounts) SharesHeard() int64 { return t.elsewhere.busy.Load() }

// DropStale drops old claims to a place, what silent processes have reported, and the idle accounts in one of [directory.Shards] parts
// of the table: the next part with each call. The owner calls it about once a second, from
// one goroutine at a time.
func (t *Accounts) DropStale(now time.Time) {
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
