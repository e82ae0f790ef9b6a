package pool

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// stock is the instances that there are, what room there is for more, and what is to be done about them.
type stock struct {
	bounds   Bounds
	backends map[string]*backend
	all      map[InstanceID]*instance
	wants    map[WantID]*want // that wait or are served
	starting int
	shut     bool // nothing begins any more
	last     InstanceID
	out      []Effect
}

// spareFor is how long an instance stays that nobody has, such as one that was only asked what it lists, unless spares are kept.
const spareFor = time.Minute

// restOrStop ends an instance that serves no call, if there is a reason to.
func (s *stock) restOrStop(now time.Time, b *backend, in *instance) {
	if in.state != ready {
		return
	}
	t := &b.terms
	switch {
	case in.spent:
		s.stop(in, Spent)
	case in.replaced:
		s.stop(in, Restarted)
	case b.gone || in.kind.Digest != b.digest:
		s.stop(in, Replaced)
	case t.MaxLife > 0 && now.Sub(in.began) >= t.MaxLife:
		s.stop(in, Old)
	case b.warms(now, in):
	case t.Idle > 0 && now.Sub(in.used) >= t.Idle, now.Sub(in.used) >= spareFor && in.isSpare(t.Isolation) && t.Isolation != Shared:
		s.stop(in, Unused)
	}
}

// pingOrStop asks an instance that serves no call whether it lives, and ends one that has not answered.
func (s *stock) pingOrStop(now time.Time, t *Terms, in *instance) {
	switch {
	case in.state != ready || t.PingEvery <= 0:
	case !in.pinged.IsZero():
		if now.Sub(in.pinged) >= t.PingWait {
			s.stop(in, Wedged)
		}
	case now.Sub(in.heard) >= t.PingEvery:
		in.pinged = now
		s.do(Ping{in.id})
	}
}

// keepSpares begins as many spares as each kind should have that was wanted lately, unless somebody waits for the room.
func (s *stock) keepSpares(now time.Time, b *backend) {
	if b.terms.Warm <= 0 || b.gone || s.someWait(now) {
		return
	}
	for _, k := range b.kinds() {
		if idle := b.terms.Idle; idle > 0 && now.Sub(b.wanted[k]) >= idle {
			delete(b.wanted, k)
			continue
		}
		for n := b.spares(k); n < b.terms.Warm && s.mayStart(now, b, ""); n++ {
			s.start(now, b, k, "", "")
		}
	}
}

// give gives a want an instance that is there, and reports whether there was one.
func (s *stock) give(now time.Time, b *backend, x *want) bool {
	in := b.find(&x.Want)
	if in == nil {
		return false
	}
	in.serve(x, b.terms.Isolation)
	in.used = now
	s.do(Give{x.ID, in.id})
	return true
}

// mayStart reports whether there is room for one more instance, for a principal, "" for a spare.
func (s *stock) mayStart(now time.Time, b *backend, principal string) bool {
	t := &b.terms
	switch {
	case s.shut:
	case b.faults.pausing(now):
	case b.faults.row > 0 && b.begins > 0: // one try at a time
	case s.bounds.Starts > 0 && s.starting >= s.bounds.Starts:
	case s.isFull():
	case t.Max > 0 && b.count >= t.Max:
	case principal != "" && t.PerPrincipal > 0 && b.perPrincipal[principal] >= t.PerPrincipal:
	default:
		return true
	}
	return false
}

// makeRoom ends a spare where a want of another kind, or of another backend, has no room because of it.
func (s *stock) makeRoom(b *backend, x *want) {
	if s.ending() > 0 { // room comes
		return
	}
	full := b.terms.Max > 0 && b.count >= b.terms.Max
	var oldest *instance
	for _, in := range s.sorted() {
		switch {
		case in.state != ready || len(in.serves) > 0 || in.holder != "" || in.spent:
		case full && in.of != b:
		case in.of != b && in.of.terms.Isolation == Shared: // they are all that the others have
		case oldest == nil || in.used.Before(oldest.used):
			oldest = in
		}
	}
	if oldest != nil && (full || s.isFull()) {
		s.stop(oldest, Evicted)
	}
}

// trimAfter is how long an instance must have served no call to end as one too many.
const trimAfter = 2 * time.Second

// trim ends instances of a backend that serve no call where there are more than there may be, as its bounds were lowered. Those that nobody has end first,
// and then those that have rested longest. The rest end once their calls have.
func (s *stock) trim(now time.Time, b *backend) {
	t := &b.terms
	n, mine := 0, make(map[string]int)
	var resting []*instance
	for _, in := range b.sorted() {
		if in.state == stopping {
			continue
		}
		n++
		mine[in.principal]++
		if in.state == ready && len(in.serves) == 0 && now.Sub(in.used) >= trimAfter {
			resting = append(resting, in)
		}
	}
	slices.SortStableFunc(resting, func(x, y *instance) int {
		if (x.holder == "") != (y.holder == "") {
			return cmp.Compare(len(x.holder), len(y.holder))
		}
		return x.used.Compare(y.used)
	})
	for _, in := range resting {
		if t.Max > 0 && n > t.Max || in.principal != "" && t.PerPrincipal > 0 && mine[in.principal] > t.PerPrincipal {
			n--
			mine[in.principal]--
			s.stop(in, Surplus)
		}
	}
}

// isFull reports whether the node has as many instances as it may.
func (s *stock) isFull() bool { return s.bounds.Instances > 0 && len(s.all) >= s.bounds.Instances }

func (s *stock) start(now time.Time, b *backend, k Kind, holder, principal string) {
	in := s.add(b, k, now)
	in.bind(holder, principal)
	s.do(Start{in.id, k, holder, principal})
}

func (s *stock) add(b *backend, k Kind, began time.Time) *instance {
	s.last++
	in := &instance{id: s.last, kind: k, began: began, of: b, serves: make(map[WantID]*want)}
	s.all[in.id] = in
	s.starting++
	b.add(in)
	return in
}

func (s *stock) remove(in *instance) {
	s.become(in, stopping)
	delete(s.all, in.id)
	in.of.remove(in)
}

// become counts what starts.
func (s *stock) become(in *instance, to state) {
	if in.state == starting && to != starting {
		s.starting--
		in.of.begins--
	}
	in.state = to
}

// stop begins to end an instance.
func (s *stock) stop(in *instance, why Reason) {
	s.become(in, stopping)
	in.reason = why
	s.do(Stop{in.id, why})
}

func (s *stock) do(e Effect) { s.out = append(s.out, e) }

// someWait reports whether wants wait for room, and not only until a backend may be tried again.
func (s *stock) someWait(now time.Time) bool {
	for _, b := range s.backends {
		if b.waiting > 0 && !b.faults.pausing(now) {
			return true
		}
	}
	return false
}

func (s *stock) take() []Effect {
	out := s.out
	s.out = nil
	return out
}

// ending counts the instances that are about to be gone.
func (s *stock) ending() (n int) {
	for _, in := range s.all {
		if in.state == stopping {
			n++
		}
	}
	return n
}

// sorted returns all instances, the oldest first.
func (s *stock) sorted() []*instance { return slices.SortedFunc(maps.Values(s.all), byID) }

// Hold says that an instance that was adopted serves a want already. Done must follow.
func (s *stock) Hold(now time.Time, w Want, id InstanceID) {
	in := s.all[id]
	if in == nil || in.state != ready {
		return
	}
	x := &want{Want: w, since: now}
	s.wants[w.ID] = x
	in.serve(x, in.of.terms.Isolation)
	in.used = now
}
