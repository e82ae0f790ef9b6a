package quota

import (
	"net/netip"
	"sync/atomic"
	"time"
)

// key is the name of an account, as a [Client] has it.
type key struct {
	tenant string
	from   netip.Addr // zero if the tenant is one client
}

// networkOf is [Network] of a text. Texts that are not addresses give the zero Addr, and share
// an account.
func networkOf(address string) netip.Addr {
	a, _ := netip.ParseAddr(address)
	return Network(a)
}

// Network is the part of an address that has an account: all of an IPv4 address, and the
// /64 of an IPv6 address, since one client may have all addresses of that.
func Network(a netip.Addr) netip.Addr {
	if a = a.Unmap(); a.Is4() {
		return a
	}
	net, _ := a.Prefix(64) // never fails: 64 bits fit
	return net.Addr()
}

const (
	// Counts is the number of things that an account counts beside its requests in
	// flight.
	Counts = 3
	// Rates is the number of an account's buckets.
	Rates = 4
	// Uses is the number of an account's usages.
	Uses = 5
)

// Account is what one client has in use in this process, and what it may still begin.
// [Accounts] makes and finds accounts; the zero value has no limits and is in no
// table. The methods and fields may be used from any goroutine.
type Account struct {
	// Held counts what the client has in use beside its requests in flight. The
	// owner says what each entry stands for.
	Held [Counts]atomic.Int64
	// Buckets limit how often the client may begin something, by [Limits.Rates].
	Buckets [Rates]Bucket
	// Used counts what the client has taken that comes back with time.
	Used [Uses]Usage
	// Lasting is the same for what comes back after times that differ.
	Lasting Lasting

	key     key
	weight  int64
	address string // by which it was found last made; "" where the tenant is one client

	// load is the number of requests in flight, plus claim while the account has one.
	// An account whose load is 0 does not contend for places.
	load atomic.Int64

	// bytes are held for the client, of all kinds together.
	bytes atomic.Int64

	// elsewhere and heldElsewhere are what the client has in use of other processes, by so many of their reports.
	elsewhere     atomic.Int64
	heldElsewhere [Counts]atomic.Int64
	reports       atomic.Int64

	// dropped is set when the table has dropped the account. A caller that counts something
	// on the account looks at dropped afterwards; the table sets it before it looks at the
	// counts. So one of the two sees the other.
	dropped atomic.Bool

	// claimed is when the account last asked for a place while few were left, in unix
	// nanoseconds; 0 if that is not lately.
	claimed atomic.Int64
}

// claim is what a claim adds to an account's load.
const claim = 1 << 32

// Dropped reports whether [Accounts] has dropped the account. A caller that adds to Held or
// takes from Buckets asks afterwards: on a dropped account it must take that back, and
// count on the account that it finds now.
func (a *Account) Dropped() bool { return a.dropped.Load() }

// AddHeld adds one to Held[what], and returns the new count. On a dropped account it fails and
// counts nothing.
func (a *Account) AddHeld(what int) (n int64, ok bool) {
	n = a.Held[what].Add(1)
	if a.dropped.Load() {
		a.Held[what].Add(-1)
		return 0, false
	}
	return n, true
}

// NetworkAddress is the address that the account is of, "" if it is that of a tenant.
func (a *Account) NetworkAddress() string {
	if !a.key.from.IsValid() {
		return ""
	}
	return a.key.from.String()
}

// Bytes is the number of bytes that are held for the client.
func (a *Account) Bytes() int64 { return a.bytes.Load() }

// HeldElsewhere is how much of Held[what] the client has in use of other processes.
func (a *Account) HeldElsewhere(what int) int64 { return a.heldElsewhere[what].Load() }

// isIdle reports whether the account equals a new one.
func (a *Account) isIdle(now time.Time) bool {
	if a.load.Load() != 0 || a.bytes.Load() != 0 || a.reports.Load() != 0 {
		return false
	}
	for i := range a.Held {
		if a.Held[i].Load() != 0 {
			return false
		}
	}
	for _, b := range a.Buckets {
		if !b.Full(now) {
			return false
		}
	}
	for i := range a.Used {
		if a.Used[i].Amount(now) > trifle {
			return false
		}
	}
	return a.Lasting.Amount(now) <= trifle
}

// dropIdle ends an account that is idle; it reports whether it was.
func (a *Account) dropIdle(now time.Time) bool {
	if !a.isIdle(now) {
		return false
	}
	a.dropped.Store(true)
	if !a.isIdle(now) { // another goroutine has just used it
		a.dropped.Store(false)
		return false
	}
	return true
}
