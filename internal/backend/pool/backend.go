package pool

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// backend has what the pool knows of one backend.
type backend struct {
	name, digest string
	terms        Terms
	gone         bool // it is not configured any more
	faults       faults
	instances    map[group][]*instance // by whose they are, the oldest first
	count        int                   // of them
	starting     int                   // of them, that start
	perPrincipal map[string]int
	wanted       map[Kind]time.Time // when each kind was wanted last, as long as spares are kept

	queues  map[string][]*want // by principal, in the order in which they came
	turns   []string           // principals with a queue, who comes next first
	waiting int
}

func newBackend(name string) *backend {
	return &backend{name: name, instances: make(map[group][]*instance), perPrincipal: make(map[string]int), wanted: make(map[Kind]time.Time), queues: make(map[string][]*want)}
}

func (b *backend) add(in *instance) {
	b.addToGroup(in)
	b.count++
	b.starting++
}

func (b *backend) remove(in *instance) {
	b.removeFromGroup(in)
	b.count--
	in.countFor("")
}

func (b *backend) lowerPrincipalCount(principal string) {
	if b.perPrincipal[principal]--; b.perPrincipal[principal] == 0 {
		delete(b.perPrincipal, principal)
	}
}

func (b *backend) addToGroup(in *instance) {
	g := group{in.kind, in.holder}
	at, _ := slices.BinarySearchFunc(b.instances[g], in, byID)
	b.instances[g] = slices.Insert(b.instances[g], at, in)
}

func (b *backend) removeFromGroup(in *instance) {
	g := group{in.kind, in.holder}
	at, _ := slices.BinarySearchFunc(b.instances[g], in, byID)
	if b.instances[g] = slices.Delete(b.instances[g], at, at+1); len(b.instances[g]) == 0 {
		delete(b.instances, g)
	}
}

// sortedInstances returns the instances, the oldest first.
func (b *backend) sortedInstances() []*instance {
	return slices.SortedFunc(func(yield func(*instance) bool) {
		for _, of := range b.instances {
			for _, in := range of {
				if !yield(in) {
					return
				}
			}
		}
	}, byID)
}

// findInstance returns the instance that a want should have of those that are there, nil if there is none: its holder's oldest, so
// that what its calls have left there is found by the next one, and otherwise the oldest spare. Of those that all share it is
// the one that serves least.
func (b *backend) findInstance(w *Want) *instance {
	g := groupOf(b, w)
	most := b.terms.PerPrincipal
	full := most > 0 && b.perPrincipal[w.Principal] >= most
	if full && b.terms.Isolation == ByCall {
		return nil
	}
	var found *instance
	for _, in := range b.instances[g] {
		if in.canServe(w, b.terms.Isolation) && (found == nil || b.terms.Isolation == Shared && len(in.serves) < len(found.serves)) {
			found = in
		}
	}
	if found != nil || g.holder == "" || full || w.Heir {
		return found
	}
	for _, in := range b.instances[group{kind: w.Kind}] {
		if in.canServe(w, b.terms.Isolation) {
			return in
		}
	}
	return nil
}

// countSpares counts the instances of a kind that nobody has, and that start for nobody.
func (b *backend) countSpares(k Kind) (n int) {
	for _, in := range b.instances[group{kind: k}] {
		if in.isSpare(b.terms.Isolation) {
			n++
		}
	}
	return n
}

// keepsAsSpare reports whether an instance that nobody uses is one of the spares to keep.
func (b *backend) keepsAsSpare(now time.Time, in *instance) bool {
	last, lately := b.wanted[in.kind]
	return in.isSpare(b.terms.Isolation) && lately && (b.terms.Idle <= 0 || now.Sub(last) < b.terms.Idle) && b.countSpares(in.kind) <= b.terms.Warm
}

// wantedKinds returns the kinds that were wanted lately, in a fixed order.
func (b *backend) wantedKinds() []Kind {
	return slices.SortedFunc(maps.Keys(b.wanted), func(x, y Kind) int { return cmp.Or(cmp.Compare(x.Digest, y.Digest), cmp.Compare(x.Client, y.Client)) })
}

func (b *backend) enqueue(x *want) {
	if len(b.queues[x.Principal]) == 0 {
		b.turns = append(b.turns, x.Principal)
	}
	b.queues[x.Principal] = append(b.queues[x.Principal], x)
	b.waiting++
}

func (b *backend) dequeue(x *want) {
	q := b.queues[x.Principal]
	i := slices.Index(q, x)
	if i < 0 {
		return
	}
	b.waiting--
	if q = slices.Delete(q, i, i+1); len(q) > 0 {
		b.queues[x.Principal] = q
		return
	}
	delete(b.queues, x.Principal)
	b.turns = slices.DeleteFunc(b.turns, func(name string) bool { return name == x.Principal })
}

// fairOrder returns the wants that wait: the first of each principal, then the second of each, and so on. Who is first changes with each call.
func (b *backend) fairOrder() []*want {
	if b.waiting == 0 {
		return nil
	}
	if len(b.turns) > 1 {
		b.turns = append(b.turns[1:], b.turns[0])
	}
	all := make([]*want, 0, b.waiting)
	for i := 0; len(all) < b.waiting; i++ {
		for _, name := range b.turns {
			if q := b.queues[name]; i < len(q) {
				all = append(all, q[i])
			}
		}
	}
	return all
}

// group is whom instances that start are for.
type group struct {
	kind   Kind
	holder string
}

func groupOf(b *backend, w *Want) group {
	if b.terms.Isolation == ByCall || b.terms.Isolation == Shared {
		return group{kind: w.Kind}
	}
	return group{w.Kind, w.Holder}
}

// begun counts the instances that start, by group, and how many of them are for somebody alone.
type begun map[group]*struct{ all, alone int }

func (b *backend) countStarting() begun {
	of := make(begun)
	for g, all := range b.instances {
		for _, in := range all {
			if in.state == starting {
				of.countsOf(g).all++
			}
		}
	}
	return of
}

func (of begun) countsOf(g group) *struct{ all, alone int } {
	if of[g] == nil {
		of[g] = new(struct{ all, alone int })
	}
	return of[g]
}

// claimStart reports whether one of the instances that start will do for a want of a group.
func (of begun) claimStart(g group, alone bool) bool {
	n := of.countsOf(g)
	if !alone {
		return n.all > 0
	}
	if n.alone < n.all {
		n.alone++
		return true
	}
	return false
}

func (of begun) add(g group, alone bool) {
	n := of.countsOf(g)
	n.all++
	if alone {
		n.alone++
	}
}

// faults says when a backend may be started after it has failed.
type faults struct {
	failures int       // failures without an instance that has lived for long
	last     time.Time // of them
	until    time.Time // no start before
	detail   string    // of the last one
}

func (f *faults) noteFailure(now time.Time, detail string) {
	pause := firstPause << min(f.failures, 6)
	f.failures++
	f.last, f.until, f.detail = now, now.Add(min(pause, mostPause)), detail
}

// noteEnd notes that an instance has ended by itself.
func (f *faults) noteEnd(now, ready time.Time, detail string) {
	if now.Sub(ready) < provenAfter {
		f.noteFailure(now, detail)
		return
	}
	f.resetIfBefore(ready)
}

// resetIfBefore forgets the failures that were before an instance became ready which has lived for long.
func (f *faults) resetIfBefore(since time.Time) {
	if !f.last.After(since) {
		*f = faults{}
	}
}

func (f *faults) mustPause(now time.Time) bool { return f.failures > 0 && now.Before(f.until) }

// isBreakerOpen reports whether whoever wants the backend is refused at once.
func (f *faults) isBreakerOpen(now time.Time) bool {
	return f.failures >= openAfter && now.Before(f.until)
}
