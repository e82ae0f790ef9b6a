package transport

import (
	"github.com/troupe-run/troupe/internal/quota"
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

// hold counts n bytes more of a kind on the account of x, or returns why there is no room.
func (x *Exchange) hold(k quota.Kind, n int64) *refusal {
	o := &x.h.o
	if o.Account == nil || n <= 0 {
		return nil
	}
	for {
		if x.account == nil {
			x.account = o.Account(x)
		}
		no, ok := o.Accounts.Charge(x.account, k, n)
		switch {
		case !ok: // it was dropped
			x.account = nil
		case no == quota.Full:
			return refuseMemory
		case no != quota.Admitted:
			return refuseMemoryShare
		default:
			return nil
		}
	}
}

// holdAnyway counts n bytes that the account of x holds whether there is room or not.
func (x *Exchange) holdAnyway(k quota.Kind, n int64) {
	o := &x.h.o
	if o.Account == nil {
		return
	}
	for x.account == nil || !o.Accounts.ChargeAnyway(x.account, k, n) {
		x.account = o.Account(x)
	}
}

// letGo takes bytes off the account of x.
func (x *Exchange) letGo(k quota.Kind, n int64) {
	if n != 0 && x.account != nil {
		x.h.o.Accounts.Refund(x.account, k, n)
	}
}

// holdBody counts the request with n bytes of its body, those that were counted before included.
func (x *Exchange) holdBody(n int64) *refusal {
	more := requestBytes + n - x.bodyHeld
	no := x.hold(quota.Bodies, more)
	if no == nil && more > 0 {
		x.bodyHeld += more
	}
	return no
}

// holdValues counts what decoding the request makes.
func (x *Exchange) holdValues() *refusal {
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
