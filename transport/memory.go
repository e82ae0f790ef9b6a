package transport

import (
	"net/http"

	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/transport/server"
)

// What is counted on the account of a client.
const (
	// requestBytes is for a request beside its body.
	requestBytes = quota.RequestBytes
	// valueBytes is for each JSON value that decoding a request may make, beyond fewValues.
	valueBytes = quota.ValueBytes
	fewValues  = 64
	// streamBytes is for an open event stream. It covers as many queued bytes, so that small
	// events are not counted one by one.
	streamBytes = 16 << 10
)

// hold counts n bytes more of a kind on an account, nil for one that is to be found for the principal at the address. It returns the
// account, or why there is no room.
func (o *Options) hold(a *quota.Account, principal any, address string, k quota.Kind, n int64) (*quota.Account, *refusal.Refusal) {
	for {
		if a == nil {
			a = o.Account(principal, address)
		}
		no, ok := o.Accounts.Charge(a, k, n)
		switch {
		case !ok: // it was dropped
			a = nil
		case no == quota.Full:
			return a, refusal.Memory
		case no != quota.Admitted:
			return a, refusal.MemoryShare
		default:
			return a, nil
		}
	}
}

// holdAnyway is hold for what is held whether there is room or not.
func (o *Options) holdAnyway(a *quota.Account, principal any, address string, k quota.Kind, n int64) *quota.Account {
	for a == nil || !o.Accounts.ChargeAnyway(a, k, n) {
		a = o.Account(principal, address)
	}
	return a
}

// resumes reports whether a request resumes a stream over HTTP/1.1. That is not refused for its client's memory: what it reads of the
// stream waits for room, and it has a connection to itself, of which a client has few. HTTP/2 has many requests on one.
func resumes(r *http.Request) bool {
	return r.ProtoMajor == 1 && r.Method == http.MethodGet && len(r.Header["Last-Event-Id"]) > 0 && r.Header["Last-Event-Id"][0] != ""
}

// Nameless is what a principal implements whose requests are counted on the account of their address.
type Nameless interface{ Nameless() }

// recall has x counted on the account that its connection found for the same address before, if it is there still. Most connections have one
// address for all of their requests.
func (x *Exchange) recall() {
	if x.conn == nil {
		return
	}
	if c := x.conn.Account.Load(); c != nil && c.Address == x.remote && !c.Account.Dropped() {
		x.account = c.Account
	}
}

// remember has the connection remember the account of x.
func (x *Exchange) remember() {
	o := &x.h.o
	if x.conn == nil || x.account == nil || o.Accounts.Shared(x.account) {
		return
	}
	if c := x.conn.Account.Load(); c == nil || c.Address == x.remote && c.Account != x.account {
		x.conn.Account.Store(&server.LastAccount{Address: x.remote, Account: x.account})
	}
}

// count counts the request before anything is done for it: on the account of its address, as long as nobody knows its principal. A
// Guard may have counted it already.
func (x *Exchange) count(r *http.Request) *refusal.Refusal {
	x.resumes = resumes(r)
	if p := passageOf(r); p != nil && p.handOver(x) {
		return nil
	}
	x.recall()
	x.addressed = true
	if no := x.holdBody(0); no != nil {
		return uncounted(no, r)
	}
	x.remember()
	return nil
}

// countAnew moves the request to the account of its principal.
func (x *Exchange) countAnew() *refusal.Refusal {
	o := &x.h.o
	if o.Account == nil {
		return nil
	}
	if _, ok := x.Principal.(Nameless); ok && x.addressed {
		return nil
	}
	before, held := x.account, x.bodyHeld
	if x.account = o.Account(x.Principal, x.remote); x.account == before {
		return nil
	}
	x.bodyHeld = 0
	if no := x.holdBody(0); no != nil { // its address goes on to count it, until it is refused
		x.account, x.bodyHeld = before, held
		return no
	}
	o.Accounts.Refund(before, quota.Bodies, held)
	return nil
}

// hold counts n bytes more of a kind on the account of x, or returns why there is no room.
func (x *Exchange) hold(k quota.Kind, n int64) (no *refusal.Refusal) {
	if o := &x.h.o; o.Account != nil && n > 0 {
		x.account, no = o.hold(x.account, x.Principal, x.remote, k, n)
	}
	return no
}

// holdAnyway counts n bytes that the account of x holds whether there is room or not.
func (x *Exchange) holdAnyway(k quota.Kind, n int64) {
	if o := &x.h.o; o.Account != nil {
		x.account = o.holdAnyway(x.account, x.Principal, x.remote, k, n)
	}
}

// letGo takes bytes off the account of x.
func (x *Exchange) letGo(k quota.Kind, n int64) {
	if n != 0 && x.account != nil {
		x.h.o.Accounts.Refund(x.account, k, n)
	}
}

// holdBody counts the request with n bytes of its body, those that were counted before included.
func (x *Exchange) holdBody(n int64) *refusal.Refusal {
	more := requestBytes + n - x.bodyHeld
	if x.resumes {
		x.holdAnyway(quota.Bodies, more)
		x.bodyHeld += more
		return nil
	}
	no := x.hold(quota.Bodies, more)
	if no == nil && more > 0 {
		x.bodyHeld += more
	}
	return no
}

// holdValues counts what decoding the request makes.
func (x *Exchange) holdValues() *refusal.Refusal {
	n := int64(x.Msg.Values-fewValues) * valueBytes
	if n <= 0 {
		return nil
	}
	no := x.hold(quota.Decoded, n)
	if no == nil {
		x.valuesHeld = n
	}
	return no
}

// letRequestGo takes the request off its account.
func (x *Exchange) letRequestGo() {
	x.letGo(quota.Bodies, x.bodyHeld)
	x.letGo(quota.Decoded, x.valuesHeld)
	x.bodyHeld, x.valuesHeld = 0, 0
}
