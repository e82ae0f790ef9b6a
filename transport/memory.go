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

// chargeAccount counts n bytes more of a kind on an account, nil for one that is to be found for the principal at the address. It returns the
// account, or why there is no room.
func (o *Options) chargeAccount(a *quota.Account, principal any, address string, k quota.Kind, n int64) (*quota.Account, *refusal.Refusal) {
	for {
		if a == nil {
			a = o.Account(principal, address)
		}
		refused, ok := o.Accounts.Charge(a, k, n)
		switch {
		case !ok: // it was dropped
			a = nil
		case refused == quota.Full:
			return a, refusal.Memory
		case refused != quota.Admitted:
			return a, refusal.MemoryShare
		default:
			return a, nil
		}
	}
}

// chargeAccountAnyway is chargeAccount for what is held whether there is room or not.
func (o *Options) chargeAccountAnyway(a *quota.Account, principal any, address string, k quota.Kind, n int64) *quota.Account {
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

// exchangeCharges counts on the account of a client what its exchange holds.
type exchangeCharges struct {
	*Exchange
	resumes       bool           // over HTTP/1.1, so that nothing refuses it but the number of connections
	addressed     bool           // account was found for the address remote
	account       *quota.Account // counts the bytes that are held for the client; nil until there are some
	bodyCharged   int64          // of these, for the request
	valuesCharged int64          // and for what decoding it makes
}

// recallAccount has x counted on the account that its connection found for the same address before, if it is there still. Most connections have one
// address for all of their requests.
func (x *exchangeCharges) recallAccount() {
	if x.conn == nil {
		return
	}
	if c := x.conn.Account.Load(); c != nil && c.Address == x.remote && !c.Account.Dropped() {
		x.account = c.Account
	}
}

// rememberAccount has the connection remember the account of x.
func (x *exchangeCharges) rememberAccount() {
	o := &x.h.o
	if x.conn == nil || x.account == nil || o.Accounts.IsShared(x.account) {
		return
	}
	if c := x.conn.Account.Load(); c == nil || c.Address == x.remote && c.Account != x.account {
		x.conn.Account.Store(&server.LastAccount{Address: x.remote, Account: x.account})
	}
}

// chargeRequest counts the request before anything is done for it: on the account of its address, as long as nobody knows its principal. A
// Guard may have counted it already.
func (x *exchangeCharges) chargeRequest(r *http.Request) *refusal.Refusal {
	x.resumes = resumes(r)
	if p := passageOf(r); p != nil && p.handOver(x.Exchange) {
		return nil
	}
	x.recallAccount()
	x.addressed = true
	if refused := x.chargeBody(0); refused != nil {
		return memoryRefusal(refused, r)
	}
	x.rememberAccount()
	return nil
}

// moveCharge moves the request to the account of its principal.
func (x *exchangeCharges) moveCharge() *refusal.Refusal {
	o := &x.h.o
	if o.Account == nil {
		return nil
	}
	if _, ok := x.Principal.(Nameless); ok && x.addressed {
		return nil
	}
	before, held := x.account, x.bodyCharged
	if x.account = o.Account(x.Principal, x.remote); x.account == before {
		return nil
	}
	x.bodyCharged = 0
	if refused := x.chargeBody(0); refused != nil { // its address goes on to count it, until it is refused
		x.account, x.bodyCharged = before, held
		return refused
	}
	o.Accounts.Refund(before, quota.Bodies, held)
	return nil
}

// chargeBytes counts n bytes more of a kind on the account of x, or returns why there is no room.
func (x *exchangeCharges) chargeBytes(k quota.Kind, n int64) (refused *refusal.Refusal) {
	if o := &x.h.o; o.Account != nil && n > 0 {
		x.account, refused = o.chargeAccount(x.account, x.Principal, x.remote, k, n)
	}
	return refused
}

// chargeBytesAnyway counts n bytes that the account of x holds whether there is room or not.
func (x *exchangeCharges) chargeBytesAnyway(k quota.Kind, n int64) {
	if o := &x.h.o; o.Account != nil {
		x.account = o.chargeAccountAnyway(x.account, x.Principal, x.remote, k, n)
	}
}

// refundBytes takes bytes off the account of x.
func (x *exchangeCharges) refundBytes(k quota.Kind, n int64) {
	if n != 0 && x.account != nil {
		x.h.o.Accounts.Refund(x.account, k, n)
	}
}

// chargeBody counts the request with n bytes of its body, those that were counted before included.
func (x *exchangeCharges) chargeBody(n int64) *refusal.Refusal {
	more := requestBytes + n - x.bodyCharged
	if x.resumes {
		x.chargeBytesAnyway(quota.Bodies, more)
		x.bodyCharged += more
		return nil
	}
	refused := x.chargeBytes(quota.Bodies, more)
	if refused == nil && more > 0 {
		x.bodyCharged += more
	}
	return refused
}

// chargeValues counts what decoding the request makes.
func (x *exchangeCharges) chargeValues() *refusal.Refusal {
	n := int64(x.Msg.Values-fewValues) * valueBytes
	if n <= 0 {
		return nil
	}
	refused := x.chargeBytes(quota.Decoded, n)
	if refused == nil {
		x.valuesCharged = n
	}
	return refused
}

// refundRequest takes the request off its account.
func (x *exchangeCharges) refundRequest() {
	x.refundBytes(quota.Bodies, x.bodyCharged)
	x.refundBytes(quota.Decoded, x.valuesCharged)
	x.bodyCharged, x.valuesCharged = 0, 0
}
