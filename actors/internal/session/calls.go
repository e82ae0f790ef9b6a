package session

import "errors"

// ErrDuplicate reports that a call in flight already has the id. The call was not entered.
var ErrDuplicate = errors.New("session: the id is in use by a request in flight")

// ErrTooMany reports that the session has as many calls in flight as it may. The call was
// not entered; it may be sent again when another has ended.
var ErrTooMany = errors.New("session: too many requests in flight")

// Calls is the table of a session's calls in flight on this node, by the raw
// token of their id: 1 and "1" differ. The zero value is empty.
type Calls[C any] struct{ byID map[string]C }

// Begin enters a call; id must stay unchanged until End. limit bounds the calls in the
// table; 0 means no limit. It fails with ErrDuplicate or ErrTooMany.
func (t *Calls[C]) Begin(id string, c C, limit int) error {
	if _, taken := t.byID[id]; taken {
		return ErrDuplicate
	}
	if limit > 0 && len(t.byID) >= limit {
		return ErrTooMany
	}
	if t.byID == nil {
		t.byID = make(map[string]C)
	}
	t.byID[id] = c
	return nil
}

// End removes a call.
func (t *Calls[C]) End(id string) { delete(t.byID, id) }

// Find returns the call with that id.
func (t *Calls[C]) Find(id string) (C, bool) { c, ok := t.byID[id]; return c, ok }

// Len is the number of calls in flight.
func (t *Calls[C]) Len() int { return len(t.byID) }

// Each calls f for every call in flight, in no particular order.
func (t *Calls[C]) Each(f func(C)) {
	for _, c := range t.byID {
		f(c)
	}
}
