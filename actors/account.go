package actors

import (
	"net/netip"
	"sync/atomic"
	"time"
)

// accountKey says whose account it is: a tenant's, or, where the tenant is
// nobody in particular, that of an address.
type accountKey struct {
	tenant string
	from   netip.Addr // zero where the tenant says it all
}

// network is what of an address an account is kept for: IPv4 as it is, and of
// IPv6 the /64, of which a client may have all the addresses. What is no address
// is the zero Addr, so that all of its kind share an account.
func network(address string) netip.Addr {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return netip.Addr{}
	}
	if a = a.Unmap(); a.Is4() {
		return a
	}
	net, _ := a.Prefix(64) // never fails: 64 bits fit
	return net.Addr()
}

// account is what one principal has in use on this node, of all its servers
// together, and what it may still begin. It may be used from any goroutine.
type account struct {
	key     accountKey
	address string // by which it was found last made; "" where the tenant says it all

	// load is the number of requests in flight, plus claim while the account has
	// one: what is 0 does not contend for the node.
	load    atomic.Int64
	streams atomic.Int64 // event streams with a connection
	gets    atomic.Int64 // GETs that are being handled
	parked  atomic.Int64 // questions that wait for the client

	rate     bucket // of calls
	sessions bucket // of new sessions

	// dropped is set when the table has forgotten the account. Whoever counts
	// something on it looks at this afterwards, while the table sets it before it
	// looks at the counts: one of the two sees the other.
	dropped atomic.Bool

	// claimed is when the account last asked for a place while the node was nearly
	// full, in unix nanoseconds; 0 is not lately.
	claimed atomic.Int64
}

// claim is what a claim adds to an account's load.
const claim = 1 << 32

// idle reports that nothing would be lost with the account.
func (a *account) idle(now time.Time) bool {
	return a.load.Load() == 0 && a.streams.Load() == 0 && a.gets.Load() == 0 && a.parked.Load() == 0 &&
		a.rate.full(now) && a.sessions.full(now)
}

// drop ends an account that is idle; it reports whether it was.
func (a *account) drop(now time.Time) bool {
	if !a.idle(now) {
		return false
	}
	a.dropped.Store(true)
	if !a.idle(now) { // somebody was quicker
		a.dropped.Store(false)
		return false
	}
	return true
}
