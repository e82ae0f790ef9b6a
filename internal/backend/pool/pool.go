package pool

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Pool is the machine. Make one with New; one goroutine may use it at a time. Its methods return what is to be done, in
// this order. Tick must be called about once a second as long as Busy.
type Pool struct {
	stock
}

// New returns a pool without backends.
func New(b Bounds) *Pool {
	return &Pool{stock{bounds: b, backends: make(map[string]*backend), instances: make(map[InstanceID]*instance), wants: make(map[WantID]*want)}}
}

// A want as the pool knows it: it waits as long as on is nil.
type want struct {
	Want
	since     time.Time
	servedBy  *instance
	cancelled time.Time // zero if it is not
}

// needsOwnStart reports whether an instance that starts for a want can serve no other one that waits.
func (x *want) needsOwnStart(b *backend) bool { return x.Askable || b.terms.Isolation == ByCall }

// ConfigureBackend adds a backend, or gives it other terms. Instances of another digest end when they serve no call.
func (p *Pool) ConfigureBackend(now time.Time, name, digest string, t Terms) []Effect {
	b := p.backends[name]
	if b == nil {
		b = newBackend(name)
		p.backends[name] = b
	}
	if b.digest != digest {
		b.digest, b.faults = digest, faults{}
		clear(b.wanted)
	}
	b.terms, b.gone = t, false
	p.settle(now, b)
	return p.takeEffects()
}

// RemoveBackend removes a backend. Its wants that wait are refused, and its instances end when they serve no call.
func (p *Pool) RemoveBackend(now time.Time, name string) []Effect {
	b := p.backends[name]
	if b == nil {
		return nil
	}
	b.gone, b.digest = true, ""
	clear(b.wanted)
	p.settle(now, b)
	return p.takeEffects()
}

// Want asks for an instance. It is given one, at once or later, or is refused, exactly once, unless it is withdrawn before.
func (p *Pool) Want(now time.Time, w Want) []Effect {
	b := p.backends[w.Kind.Backend]
	x := &want{Want: w, since: now}
	switch {
	case p.shut:
		return []Effect{Refuse{Want: w.ID, Reason: Closed}}
	case b == nil || b.gone || b.digest != w.Kind.Digest:
		return []Effect{Refuse{Want: w.ID, Reason: Replaced}}
	}
	if b.terms.Warm > 0 {
		b.wanted[w.Kind] = now
	}
	p.wants[w.ID] = x
	if p.giveInstance(now, b, x) { // what is there is for none of those who wait, or they would have it
		p.settle(now, b) // another spare may be due
		return p.takeEffects()
	}
	if b.waiting >= b.terms.Queue && b.terms.Queue > 0 {
		p.refuse(x, QueueFull, "", 0)
		return p.takeEffects()
	}
	b.enqueue(x)
	p.settle(now, b)
	return p.takeEffects()
}

// Withdraw ends a want that waits, or is CallEnded for one that was given an instance meanwhile.
func (p *Pool) Withdraw(now time.Time, id WantID) []Effect {
	x := p.wants[id]
	if x == nil || x.servedBy != nil {
		return p.CallEnded(now, id)
	}
	b := p.backends[x.Kind.Backend]
	b.dequeue(x)
	delete(p.wants, id)
	return p.takeEffects()
}

// CallCancelled says that the call of a want was cancelled, and CallEnded has still to follow.
func (p *Pool) CallCancelled(now time.Time, id WantID) {
	if x := p.wants[id]; x != nil && x.servedBy != nil {
		x.cancelled = now
	}
}

// CallEnded says that the call of a want has ended at its instance.
func (p *Pool) CallEnded(now time.Time, id WantID) []Effect {
	x := p.wants[id]
	if x == nil || x.servedBy == nil {
		return nil
	}
	in := x.servedBy
	delete(p.wants, id)
	in.release(x, now)
	if len(in.serves) == 0 {
		p.restOrStop(now, in.backend, in)
	}
	p.settle(now, in.backend)
	return p.takeEffects()
}

// InstanceReady says that an instance may be given.
func (p *Pool) InstanceReady(now time.Time, id InstanceID) []Effect {
	in := p.instances[id]
	if in == nil || in.state != starting {
		return nil
	}
	p.setState(in, ready)
	in.ready, in.used, in.heard = now, now, now
	p.settleAll(now, in.backend)
	return p.takeEffects()
}

// StartFailed says that an instance did not start, and is gone. detail says why, for whoever waits for it.
func (p *Pool) StartFailed(now time.Time, id InstanceID, detail string) []Effect {
	in := p.instances[id]
	if in == nil {
		return nil
	}
	if in.state != starting {
		return p.InstanceExited(now, id, detail)
	}
	p.noteFailedStart(now, in, FailedTo, detail)
	p.removeInstance(in)
	p.settleAll(now, in.backend)
	return p.takeEffects()
}

// InstanceExited says that an instance is gone.
func (p *Pool) InstanceExited(now time.Time, id InstanceID, detail string) []Effect {
	in := p.instances[id]
	if in == nil {
		return nil
	}
	if in.state == starting {
		return p.StartFailed(now, id, detail)
	}
	b, reason := in.backend, in.reason
	if in.state == ready {
		reason = Exited
		if !in.excused {
			b.faults.noteEnd(now, in.ready, detail)
		}
	}
	p.removeInstance(in)
	if !in.ready.IsZero() && (in.holder != "" || len(in.serves) > 0) {
		lost := Lost{Instance: id, Kind: in.kind, Holder: in.holder, Reason: reason, Detail: detail}
		for _, x := range in.servedWants() {
			lost.Wants = append(lost.Wants, x.ID)
			delete(p.wants, x.ID)
		}
		if reason != Kept && reason != Moved && (reason != Spent && reason != Left || len(lost.Wants) > 0) {
			p.addEffect(lost)
		}
	}
	p.settleAll(now, b)
	return p.takeEffects()
}

// ExcuseInstance says that an instance ends by no fault of its backend: what has it has ended, or the backend has forgotten it, as after a restart. What InstanceBroke and
// InstanceExited say of it is no failure then.
func ExcuseInstance(p *Pool, id InstanceID) {
	if in := p.instances[id]; in != nil {
		in.excused = true
	}
}

// InstanceBroke says that an instance can serve nobody any more, though it is not gone yet. Exited must follow.
func (p *Pool) InstanceBroke(now time.Time, id InstanceID, detail string) []Effect {
	in := p.instances[id]
	if in == nil || in.state != ready {
		return nil
	}
	if !in.excused {
		in.backend.faults.noteEnd(now, in.ready, detail)
	}
	p.setState(in, stopping)
	in.reason = Exited
	p.settle(now, in.backend)
	return p.takeEffects()
}

// HeardFrom says that an instance has answered a ping, or has said anything else.
func (p *Pool) HeardFrom(now time.Time, id InstanceID) {
	if in := p.instances[id]; in != nil {
		in.heard, in.pinged = now, time.Time{}
	}
}

// MemoryMeasured says how many bytes an instance holds.
func (p *Pool) MemoryMeasured(now time.Time, id InstanceID, bytes int64) []Effect {
	in := p.instances[id]
	if in == nil || in.state == stopping {
		return nil
	}
	if most := in.backend.terms.Memory; most > 0 && bytes > most {
		p.stopInstance(in, Heavy)
	}
	return p.takeEffects()
}

// InstanceMoved says that another process has an instance now.
func InstanceMoved(p *Pool, id InstanceID) []Effect {
	if in := p.instances[id]; in != nil && in.state != stopping {
		p.stopInstance(in, Moved)
	}
	return p.takeEffects()
}

// HolderGone says that nobody will want for a holder again here: it is Left, or Moved. Its instances end, and what waits for it is refused.
func (p *Pool) HolderGone(now time.Time, holder string, why Reason) []Effect {
	if holder == "" {
		return nil
	}
	for _, in := range p.sortedInstances() {
		if in.holder == holder && in.state != stopping {
			p.stopInstance(in, why)
		}
	}
	for _, x := range p.waitingWants() {
		if x.Holder == holder {
			p.backends[x.Kind.Backend].dequeue(x)
			p.refuse(x, why, "", 0)
		}
	}
	return p.takeEffects()
}

// Shut ends all instances, and refuses all wants from now on: nothing begins any more. keeps says of which instances the
// next process has them: no holder has lost those.
func (p *Pool) Shut(keeps func(InstanceID) bool) []Effect {
	p.shut = true
	for _, x := range p.waitingWants() {
		p.backends[x.Kind.Backend].dequeue(x)
		p.refuse(x, Closed, "", 0)
	}
	for _, in := range p.sortedInstances() {
		switch {
		case in.state == stopping:
		case keeps(in.id):
			p.stopInstance(in, Kept)
		default:
			p.stopInstance(in, Closed)
		}
	}
	return p.takeEffects()
}

// AdoptInstance takes in an instance that runs already, such as one of a process before this one. Holder is "" for a spare.
func (p *Pool) AdoptInstance(now time.Time, k Kind, holder, principal string, began time.Time) (InstanceID, []Effect) {
	b := p.backends[k.Backend]
	if b == nil {
		b = newBackend(k.Backend)
		b.gone = true
		p.backends[k.Backend] = b
	}
	in := p.addInstance(b, k, began)
	p.setState(in, ready)
	in.ready, in.used, in.heard = began, now, now
	in.bind(holder, principal)
	p.settle(now, b)
	return in.id, p.takeEffects()
}

// Tick says that time has passed.
func (p *Pool) Tick(now time.Time) []Effect {
	for _, in := range p.sortedInstances() {
		p.tickInstance(now, in.backend, in)
	}
	for _, name := range slices.Sorted(maps.Keys(p.backends)) {
		p.endSurplus(now, p.backends[name])
	}
	for _, x := range p.waitingWants() {
		b := p.backends[x.Kind.Backend]
		if most := b.terms.StartTimeout; most > 0 && now.Sub(x.since) >= most {
			b.dequeue(x)
			if p.isFull() {
				p.refuse(x, NodeFull, "", 0)
			} else {
				p.refuse(x, NoRoom, b.faults.detail, 0)
			}
		}
	}
	for name, b := range p.backends {
		if b.gone && b.count == 0 && b.waiting == 0 {
			delete(p.backends, name)
		}
	}
	p.settleAll(now, nil)
	return p.takeEffects()
}

// Busy reports whether Tick has anything to look after.
func (p *Pool) Busy() bool { return len(p.instances) > 0 || len(p.wants) > 0 }

// tickInstance does what time brings about for one instance.
func (p *Pool) tickInstance(now time.Time, b *backend, in *instance) {
	t := &b.terms
	switch in.state {
	case starting:
		if t.StartTimeout > 0 && now.Sub(in.began) >= t.StartTimeout {
			p.noteFailedStart(now, in, TooSlow, "it was not ready within "+t.StartTimeout.String())
			p.stopInstance(in, TooSlow)
		}
	case ready:
		if now.Sub(in.ready) >= provenAfter {
			b.faults.resetIfBefore(in.ready)
		}
		in.suspect = in.hasOverdueCancel(now, t.CancelWait)
		if in.suspect && in.onlyCancelled() {
			p.stopInstance(in, Suspect)
			return
		}
		if len(in.serves) == 0 {
			p.restOrStop(now, b, in)
			p.pingOrStop(now, t, in)
		}
	}
}

// settleAll is settle for all backends, as room for them may have come about.
func (p *Pool) settleAll(now time.Time, first *backend) {
	if first != nil { // whose turn it is
		p.serveWaiting(now, first)
	}
	rest := slices.Sorted(maps.Keys(p.backends))
	for _, name := range rest {
		if b := p.backends[name]; b != first {
			p.serveWaiting(now, b)
		}
	}
	for _, name := range rest {
		p.keepSpares(now, p.backends[name])
	}
}

// settle gives waiting wants of a backend what there is, begins what they need, and keeps spares.
func (p *Pool) settle(now time.Time, b *backend) {
	p.serveWaiting(now, b)
	p.keepSpares(now, b)
}

// abandon refuses the wants of a backend that is not configured any more, and ends what serves nobody.
func (p *Pool) abandon(now time.Time, b *backend) {
	for _, x := range b.fairOrder() {
		b.dequeue(x)
		p.refuse(x, Replaced, "", 0)
	}
	for _, in := range b.sortedInstances() {
		if len(in.serves) == 0 {
			p.restOrStop(now, b, in)
		}
	}
}

func (p *Pool) serveWaiting(now time.Time, b *backend) {
	switch {
	case b.gone:
		p.abandon(now, b)
		return
	case b.waiting == 0:
		return
	}
	begun := b.countStarting()
	for _, x := range b.fairOrder() {
		if x.Kind.Digest != b.digest {
			b.dequeue(x)
			p.refuse(x, Replaced, "", 0)
			continue
		}
		if p.giveInstance(now, b, x) {
			b.dequeue(x)
			continue
		}
		g := groupOf(b, &x.Want)
		if begun.claimStart(g, x.needsOwnStart(b)) {
			continue
		}
		switch {
		case p.mayStart(now, b, x.Principal):
			p.startInstance(now, b, x.Kind, g.holder, x.Principal)
			begun.add(g, x.needsOwnStart(b))
		case b.faults.isBreakerOpen(now):
			b.dequeue(x)
			p.refuse(x, Broken, b.faults.detail, b.faults.until.Sub(now))
		default:
			p.makeRoom(b, x)
		}
	}
}

// noteFailedStart notes that an instance did not start, and refuses whoever waited for it.
func (p *Pool) noteFailedStart(now time.Time, in *instance, why Reason, detail string) {
	b := in.backend
	b.faults.noteFailure(now, detail)
	for _, x := range b.fairOrder() {
		g := groupOf(b, &x.Want)
		if x.Kind == in.kind && g.holder == in.holder {
			b.dequeue(x)
			p.refuse(x, why, detail, b.faults.until.Sub(now))
			if x.needsOwnStart(b) {
				break // others have instances of their own that start
			}
		}
	}
}

func (p *Pool) refuse(x *want, why Reason, detail string, after time.Duration) {
	delete(p.wants, x.ID)
	p.addEffect(Refuse{x.ID, why, detail, max(after, 0)})
}

// waitingWants returns the wants that wait, by their ids.
func (p *Pool) waitingWants() []*want {
	var all []*want
	for _, x := range p.wants {
		if x.servedBy == nil {
			all = append(all, x)
		}
	}
	slices.SortFunc(all, func(a, b *want) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

func byID(a, b *instance) int { return cmp.Compare(a.id, b.id) }
