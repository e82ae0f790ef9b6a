package pool

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// stock is the instances that there are, what room there is for more, and what is to be done about them.
type stock struct {
	bounds    Bounds
	backends  map[string]*backend
	instances map[InstanceID]*instance
	wants     map[WantID]*want // that wait or are served
	starting  int
	shut      bool // nothing begins any more
	last      InstanceID
	effects   []Effect
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
		s.stopInstance(in, Spent)
	case in.replaced:
		s.stopInstance(in, Restarted)
	case b.gone || in.kind.Digest != b.digest:
		s.stopInstance(in, Replaced)
	case t.MaxLife > 0 && now.Sub(in.began) >= t.MaxLife:
		s.stopInstance(in, Old)
	case b.keepsAsSpare(now, in):
	case t.Idle > 0 && now.Sub(in.used) >= t.Idle, now.Sub(in.used) >= spareFor && in.isSpare(t.Isolation) && t.Isolation != Shared:
		s.stopInstance(in, Unused)
	}
}

// pingOrStop asks an instance that serves no call whether it lives, and ends one that has not answered.
func (s *stock) pingOrStop(now time.Time, t *Terms, in *instance) {
	switch {
	case in.state != ready || t.PingEvery <= 0:
	case !in.pinged.IsZero():
		if now.Sub(in.pinged) >= t.PingWait {
			s.stopInstance(in, Wedged)
		}
	case now.Sub(in.heard) >= t.PingEvery:
		in.pinged = now
		s.addEffect(Ping{in.id})
	}
}

// keepSpares begins as many spares as each kind should have that was wanted lately, unless somebody waits for the room.
func (s *stock) keepSpares(now time.Time, b *backend) {
	if b.terms.Warm <= 0 || b.gone || s.someWait(now) {
		return
	}
	for _, k := range b.wantedKinds() {
		if idle := b.terms.Idle; idle > 0 && now.Sub(b.wanted[k]) >= idle {
			delete(b.wanted, k)
			continue
		}
		for n := b.countSpares(k); n < b.terms.Warm && s.mayStart(now, b, ""); n++ {
			s.startInstance(now, b, k, "", "")
		}
	}
}

// giveInstance gives a want an instance that is there, and reports whether there was one.
func (s *stock) giveInstance(now time.Time, b *backend, x *want) bool {
	in := b.findInstance(&x.Want)
	if in == nil {
		return false
	}
	in.serve(x, b.terms.Isolation)
	in.used = now
	s.addEffect(Give{x.ID, in.id})
	return true
}

// mayStart reports whether there is room for one more instance, for a principal, "" for one that counts for nobody.
func (s *stock) mayStart(now time.Time, b *backend, principal string) bool {
	t := &b.terms
	switch {
	case s.shut:
	case b.faults.mustPause(now):
	case b.faults.failures > 0 && b.starting > 0: // one try at a time
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
	if s.countStopping() > 0 { // room comes
		return
	}
	full := b.terms.Max > 0 && b.count >= b.terms.Max
	var oldest *instance
	for _, in := range s.sortedInstances() {
		switch {
		case in.state != ready || len(in.serves) > 0 || in.holder != "" || in.spent:
		case full && in.backend != b:
		case in.backend != b && in.backend.terms.Isolation == Shared: // they are all that the others have
		case oldest == nil || in.used.Before(oldest.used):
			oldest = in
		}
	}
	if oldest != nil && (full || s.isFull()) {
		s.stopInstance(oldest, Evicted)
	}
}

// surplusAfter is how long an instance must have served no call to end as one too many.
const surplusAfter = 2 * time.Second

// endSurplus ends instances of a backend that serve no call where there are more than there may be, as its bounds were lowered. Those that nobody has end first,
// and then those that have rested longest. The rest end once their calls have.
func (s *stock) endSurplus(now time.Time, b *backend) {
	t := &b.terms
	n, mine := 0, make(map[string]int)
	var resting []*instance
	for _, in := range b.sortedInstances() {
		if in.state == stopping {
			continue
		}
		n++
		mine[in.principal]++
		if in.state == ready && len(in.serves) == 0 && now.Sub(in.used) >= surplusAfter {
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
			s.stopInstance(in, Surplus)
		}
	}
}

// isFull reports whether the node has as many instances as it may.
func (s *stock) isFull() bool {
	return s.bounds.Instances > 0 && len(s.instances) >= s.bounds.Instances
}

func (s *stock) startInstance(now time.Time, b *backend, k Kind, holder, principal string) {
	in := s.addInstance(b, k, now)
	in.bind(holder, principal)
	s.addEffect(Start{in.id, k, holder, principal})
}

func (s *stock) addInstance(b *backend, k Kind, began time.Time) *instance {
	s.last++
	in := &instance{id: s.last, kind: k, began: began, backend: b, serves: make(map[WantID]*want)}
	s.instances[in.id] = in
	s.starting++
	b.add(in)
	return in
}

func (s *stock) removeInstance(in *instance) {
	s.setState(in, stopping)
	delete(s.instances, in.id)
	in.backend.remove(in)
}

// setState gives an instance its state, and counts those that start.
func (s *stock) setState(in *instance, to state) {
	if in.state == starting && to != starting {
		s.starting--
		in.backend.starting--
	}
	in.state = to
}

// stopInstance begins to end an instance.
func (s *stock) stopInstance(in *instance, why Reason) {
	s.setState(in, stopping)
	in.reason = why
	s.addEffect(Stop{in.id, why})
}

func (s *stock) addEffect(e Effect) { s.effects = append(s.effects, e) }

// someWait reports whether wants wait for room, and not only until a backend may be tried again.
func (s *stock) someWait(now time.Time) bool {
	for _, b := range s.backends {
		if b.waiting > 0 && !b.faults.mustPause(now) {
			return true
		}
	}
	return false
}

func (s *stock) takeEffects() []Effect {
	out := s.effects
	s.effects = nil
	return out
}

// countStopping counts the instances that are about to be gone.
func (s *stock) countStopping() (n int) {
	for _, in := range s.instances {
		if in.state == stopping {
			n++
		}
	}
	return n
}

// sortedInstances returns all instances, the oldest first.
func (s *stock) sortedInstances() []*instance {
	return slices.SortedFunc(maps.Values(s.instances), byID)
}

// AdoptWant says that an instance that was adopted serves a want already. CallEnded must follow.
func (s *stock) AdoptWant(now time.Time, w Want, id InstanceID) {
	in := s.instances[id]
	if in == nil || in.state != ready {
		return
	}
	x := &want{Want: w, since: now}
	s.wants[w.ID] = x
	in.serve(x, in.backend.terms.Isolation)
	in.used = now
}
