package quota

import "sync/atomic"

// Holding is a number of bytes of one kind that an owner holds for a client, for a while. The
// zero value holds none. [Holding.Charge] comes first and once; then the methods are safe for
// concurrent use.
type Holding struct {
	t    *Accounts
	a    *Account
	kind Kind
	n    atomic.Int64 // over once it has been freed
}

const over = -1

// Charge is [Accounts.Charge] for bytes that h holds from now on.
func (h *Holding) Charge(t *Accounts, a *Account, k Kind, n int64) (no Refusal, ok bool) {
	if no, ok = t.Charge(a, k, n); ok && no == Admitted {
		h.t, h.a, h.kind = t, a, k
		h.n.Store(n)
	}
	return no, ok
}

// ChargeAnyway is [Accounts.ChargeAnyway] for bytes that h holds from now on.
func (h *Holding) ChargeAnyway(t *Accounts, a *Account, k Kind, n int64) (ok bool) {
	if ok = t.ChargeAnyway(a, k, n); ok {
		h.t, h.a, h.kind = t, a, k
		h.n.Store(n)
	}
	return ok
}

// HasSpareRoom is [Accounts.HasSpareRoom] of the client for which h holds bytes, and true if it holds none.
func (h *Holding) HasSpareRoom() bool { return h.t == nil || h.t.HasSpareRoom(h.a) }

// GrowIfRoom is Grow if there is room for n bytes more. Otherwise it says why not. The holding must
// hold something, or its account might be dropped.
func (h *Holding) GrowIfRoom(n int64) Refusal {
	if h.t == nil || h.n.Load() == over {
		return Admitted
	}
	switch no, ok := h.t.Charge(h.a, h.kind, n); {
	case !ok:
		return Full
	case no != Admitted:
		return no
	}
	for {
		old := h.n.Load()
		if old == over {
			h.t.Refund(h.a, h.kind, n)
			return Admitted
		}
		if h.n.CompareAndSwap(old, old+n) {
			return Admitted
		}
	}
}

// Set changes the number of bytes that h holds, whether there is room or not. A holding that
// was not charged, or has been freed, stays as it is.
func (h *Holding) Set(n int64) { h.changeHeld(func(int64) int64 { return n }) }

// Grow is Set for n bytes more.
func (h *Holding) Grow(n int64) { h.changeHeld(func(old int64) int64 { return old + n }) }

func (h *Holding) changeHeld(f func(old int64) int64) {
	if h.t == nil {
		return
	}
	for old := h.n.Load(); old != over; old = h.n.Load() {
		if n := f(old); h.n.CompareAndSwap(old, n) {
			h.t.Refund(h.a, h.kind, old-n)
			return
		}
	}
}

// Free gives all back. Only the first call does anything.
func (h *Holding) Free() {
	if h.t == nil {
		return
	}
	if old := h.n.Swap(over); old > 0 {
		h.t.Refund(h.a, h.kind, old)
	}
}

// TakeFrom takes over what from holds; from then holds nothing. Nobody else may use either.
func (h *Holding) TakeFrom(from *Holding) {
	h.t, h.a, h.kind = from.t, from.a, from.kind
	h.n.Store(from.n.Load())
	from.t = nil
}

// Reset frees h and makes it the zero value, for another owner. Nobody else may use it.
func (h *Holding) Reset() {
	h.Free()
	h.t, h.a = nil, nil
	h.n.Store(0)
}
