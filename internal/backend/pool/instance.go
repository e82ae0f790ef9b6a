package pool

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

type state uint8

const (
	starting state = iota
	ready
	stopping
)

// instance is one instance of a backend.
type instance struct {
	id        InstanceID
	backend   *backend
	kind      Kind
	holder    string // whose it is, "" for a spare and for what all share
	principal string // for whom it counts, "" for nobody
	state     state
	reason    Reason // why it stops

	serves   map[WantID]*want
	asking   WantID // the one of them that it may ask, 0 if there is none
	spent    bool   // it has served a call, and is for no other
	suspect  bool   // it may ask whoever comes next for a call that was cancelled
	replaced bool   // another one takes its place, and it ends when its calls have
	excused  bool   // its end is no failure

	began  time.Time
	ready  time.Time
	used   time.Time // when a want came or went
	heard  time.Time
	pinged time.Time // when it was asked whether it lives, zero if it was not, or has answered
}

// bind gives an instance a holder, for good.
func (in *instance) bind(holder, principal string) {
	if holder != in.holder {
		in.backend.removeFromGroup(in)
		in.holder = holder
		in.backend.addToGroup(in)
	}
	if in.principal == "" {
		in.countFor(principal)
	}
}

// countFor has the instance count for a principal, and for no other one.
func (in *instance) countFor(principal string) {
	if in.principal != "" {
		in.backend.lowerPrincipalCount(in.principal)
	}
	if in.principal = principal; principal != "" {
		in.backend.perPrincipal[principal]++
	}
}

// serve gives the instance a want.
func (in *instance) serve(x *want, by Isolation) {
	x.servedBy = in
	in.serves[x.ID] = x
	if x.Askable {
		in.asking = x.ID
	}
	switch {
	case x.Looks:
	case by == ByCall:
		in.spent = true
		in.countFor(x.Principal) // it may have begun for another one
	case in.holder == "" && by != Shared:
		in.bind(x.Holder, x.Principal)
	}
}

// release takes a want from the instance.
func (in *instance) release(x *want, now time.Time) {
	delete(in.serves, x.ID)
	if in.asking == x.ID {
		in.asking = 0
	}
	in.used = now
	if in.suspect { // until the next tick a holder would get another instance beside this one, which is free again
		in.suspect = in.hasOverdueCancel(now, in.backend.terms.CancelWait)
	}
}

// canServe reports whether the instance, which is of a want's kind and holder or a spare, may be given to it.
func (in *instance) canServe(w *Want, by Isolation) bool {
	switch {
	case in.state != ready || in.spent || in.suspect || in.replaced:
		return false
	case w.Askable && in.asking != 0:
		return false
	}
	return by != ByCall || len(in.serves) == 0
}

// servedWants returns the wants that the instance serves, by their ids.
func (in *instance) servedWants() []*want {
	return slices.SortedFunc(maps.Values(in.serves), func(a, b *want) int { return cmp.Compare(a.ID, b.ID) })
}

// hasOverdueCancel reports whether a call has not ended for too long after it was cancelled.
func (in *instance) hasOverdueCancel(now time.Time, most time.Duration) bool {
	for _, x := range in.serves {
		if !x.cancelled.IsZero() && most > 0 && now.Sub(x.cancelled) >= most {
			return true
		}
	}
	return false
}

// onlyCancelled reports whether nobody waits for the instance any more.
func (in *instance) onlyCancelled() bool {
	for _, x := range in.serves {
		if x.cancelled.IsZero() {
			return false
		}
	}
	return true
}

func (in *instance) isSpare(by Isolation) bool {
	return in.state != stopping && in.holder == "" && !in.spent && !in.suspect && !in.replaced && (by == Shared || len(in.serves) == 0)
}
