package quota

import "time"

// Refusal says why a request got no place.
type Refusal uint8

// The decisions of [Accounts.Admit].
const (
	Admitted  Refusal = iota
	Full              // Limits.Places are in use
	OverShare         // few places are left, and the account has its share
	OverLimit         // the account has Limits.Each requests in flight, here and elsewhere
)

// Over reports whether n exceeds the limit; a negative limit means no limit.
func Over(n int64, limit int) bool { return limit >= 0 && n > int64(limit) }

// isBusy reports whether few places are left when load of limit are in use: from there on
// clients share the places.
func isBusy(load int64, limit int) bool {
	return limit >= 0 && load > int64(limit)/4*3+int64(limit)%4*3/4
}

// fairPlaces decides on a request that was counted while few places are left: load of limit
// places are in use, mine of them by the same account of some weight, and those that contend, whose weights add up to sum, share all
// places. No account gets more than its share, so that there is room for late ones.
func fairPlaces(load, mine int64, limit int, weight, sum int64) Refusal {
	switch {
	case load > int64(limit):
		return Full
	case mine > max(1, partOf(int64(limit), weight, sum)):
		return OverShare
	}
	return Admitted
}

// Admit takes a place for a request of account a, or says why there is none. It fails (ok
// is false) on a dropped account: the caller finds the account anew. The caller gives a
// place back with [Accounts.Leave].
func (t *Accounts) Admit(a *Account) (no Refusal, ok bool) {
	mine, ok := t.enterRequest(a)
	if !ok {
		return 0, false
	}
	if load := t.inFlight.Add(1); isBusy(load, t.lim.Places) {
		t.claimPlace(a, time.Now())
		no = fairPlaces(load, mine, t.lim.Places, a.weight, t.active.Load())
	}
	if no == Admitted && Over(mine+a.elsewhere.Load(), t.lim.Each) {
		no = OverLimit
	}
	if no != Admitted {
		t.Leave(a)
	}
	return no, true
}

// Enter takes a place even if none is left, for a request that was admitted before. It
// fails on a dropped account like Admit.
func (t *Accounts) Enter(a *Account) (ok bool) {
	if _, ok = t.enterRequest(a); ok {
		t.inFlight.Add(1)
	}
	return ok
}

// Leave gives a place back.
func (t *Accounts) Leave(a *Account) {
	t.inFlight.Add(-1)
	t.addLoad(a, -1)
}

// InFlight is the number of places in use.
func (t *Accounts) InFlight() int64 { return t.inFlight.Load() }

// enterRequest counts a request on a, and returns how many a has now.
func (t *Accounts) enterRequest(a *Account) (mine int64, ok bool) {
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
