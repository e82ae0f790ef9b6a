package backend

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend/pool"
	"github.com/troupe-run/troupe/internal/keeper"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/upstream"
)

// poolActor has the pool of a node, and carries out what it decides.
type poolActor struct {
	kernel.Actor
	b         *Backends
	pool      *pool.Pool
	instances map[pool.InstanceID]*instance
	waiting   map[pool.WantID]*lease // without an instance yet
	ticking   bool
	measured  time.Time // when the memory of processes was asked for last
	shown     bool      // somebody has asked for it since
	closed    bool
	keeps     bool // once it is closed: processes are left to the next one
}

// Messages to the pool.
type (
	wanted    struct{ *lease }
	taken     struct{ *lease } // of an instance that has its call already
	withdrawn struct{ *lease } // its caller waits no longer, or has its answer
	cancelled struct{ id pool.WantID }
	isReady   struct{ *instance }
	isAdopted struct {
		kernel.Reply
		in *instance
	}
	didNotStart struct {
		*instance
		detail string
		reason pool.Reason
	}
	// hasBroken is an instance that serves nobody any more, and hasEnded one that is gone.
	hasBroken struct {
		*instance
		why error
	}
	hasEnded struct {
		*instance
		detail string
		reason pool.Reason
	}
	ponged     struct{ id pool.InstanceID }
	measured   struct{ all map[string]int64 } // bytes, by the names of processes
	holderGone struct {
		holder string
		why    pool.Reason
	}
	hasMoved   struct{ *instance } // another process has what it left
	configured struct {
		kernel.Reply
		all, before []Backend
	}
	// visited has a function see the pool, or do something to it, in its turn.
	visited struct {
		kernel.Reply
		visit func(a *poolActor, now time.Time)
	}
	ticked   struct{}
	shutDown struct{ keep bool }
)

// Refused implements kernel.Refusable.
func (m *wanted) Refused(error) {
	m.given <- newRefusal(m.want.Kind.Backend, &pool.Refuse{Reason: pool.Closed})
}

// Refused implements kernel.Refusable.
func (m *isAdopted) Refused(error) { m.Done() }

// Refused implements kernel.Refusable.
func (m *configured) Refused(error) { m.Done() }

// Refused implements kernel.Refusable.
func (m *visited) Refused(error) { m.Done() }

// Receive implements kernel.Behaviour.
func (a *poolActor) Receive(m any) {
	now := a.b.c.Clock.Now()
	switch m := m.(type) {
	case *wanted:
		a.waiting[m.want.ID] = m.lease
		a.carryOut(a.pool.Want(now, m.want))
	case *taken:
		a.pool.AdoptWant(now, m.want, m.in.id)
	case *withdrawn:
		delete(a.waiting, m.want.ID)
		a.carryOut(a.pool.Withdraw(now, m.want.ID))
		if m.once {
			a.carryOut(a.pool.HolderGone(now, m.want.Holder, pool.Left))
		}
	case *cancelled:
		a.pool.CallCancelled(now, m.id)
	case *isReady:
		a.b.c.Observer.Started(m.of.Name, "", now.Sub(m.began))
		if m.heir {
			a.b.c.Observer.Adopted(m.of.Name)
		}
		a.carryOut(a.pool.InstanceReady(now, m.id))
	case *isAdopted:
		id, todo := a.pool.AdoptInstance(now, m.in.kind, m.in.holder(), m.in.principal(), m.in.began)
		m.in.id = id
		a.b.c.Observer.Adopted(m.in.of.Name)
		a.instances[id] = m.in
		a.carryOut(todo)
		if a.closed {
			a.shut(a.keeps)
		}
		m.Done()
	case *didNotStart:
		delete(a.instances, m.id)
		a.b.c.Observer.Started(m.kind.Backend, m.reason, now.Sub(m.began))
		a.carryOut(a.pool.StartFailed(now, m.id, m.detail))
	case *hasBroken:
		f, ok := errors.AsType[*upstream.Failure](m.why)
		text := m.why.Error()
		if ok { // without its cause, which no client is told, as whoever is refused after this one
			text = f.Text
		}
		if ok && f.Why == upstream.ReasonSessionGone || (lifetime{m.instance}).lostKeeper() {
			pool.ExcuseInstance(a.pool, m.id)
		}
		a.carryOut(a.pool.InstanceBroke(now, m.id, m.of.mask(text)))
	case *hasEnded:
		delete(a.instances, m.id)
		a.forgetLists(m.instance)
		a.b.c.Observer.Ended(m.of.Name, m.reason)
		if (lifetime{m.instance}).lostKeeper() {
			pool.ExcuseInstance(a.pool, m.id)
		}
		a.carryOut(a.pool.InstanceExited(now, m.id, m.detail))
	case *ponged:
		a.pool.HeardFrom(now, m.id)
	case *measured:
		for id, in := range a.instances {
			if p := in.proc.Load(); p != nil {
				in.memoryBytes = m.all[p.ID()]
				a.carryOut(a.pool.MemoryMeasured(now, id, in.memoryBytes))
			}
		}
	case *holderGone:
		a.carryOut(a.pool.HolderGone(now, m.holder, m.why))
	case *hasMoved:
		a.carryOut(pool.InstanceMoved(a.pool, m.id))
	case *configured:
		a.configure(now, m)
		m.Done()
	case *visited:
		m.visit(a, now)
		m.Done()
	case *ticked:
		a.ticking = false
		a.carryOut(a.pool.Tick(now))
		a.measureMemory(now)
	case *shutDown:
		a.shut(m.keep)
	}
	a.tickLater()
}

// visitPool calls visit in the turn of the pool, unless its actor has stopped, and returns when it has.
func (a *poolActor) visitPool(visit func(a *poolActor, now time.Time)) {
	m := &visited{visit: visit}
	m.Init()
	if a.Post(m) == nil {
		m.Wait()
	}
}

// Failed implements kernel.Behaviour. Whoever waits for an instance is refused.
func (a *poolActor) Failed(m any, last bool) {
	switch m := m.(type) {
	case *wanted:
		if a.waiting[m.want.ID] != nil {
			delete(a.waiting, m.want.ID)
			m.Refused(nil)
		}
	case *isAdopted:
		m.Done()
	case *configured:
		m.Done()
	case *visited:
		m.Done()
	}
	if !last {
		return
	}
	for id, l := range a.waiting {
		delete(a.waiting, id)
		(&wanted{l}).Refused(nil)
	}
	for _, in := range a.instances {
		in.stop(errStopping{pool.Closed})
	}
}

// configure has the pool know exactly these backends.
func (a *poolActor) configure(now time.Time, m *configured) {
	m.before = *a.b.all.Swap(&m.all)
	for i := range m.all {
		of := &m.all[i]
		a.carryOut(a.pool.ConfigureBackend(now, of.Name, of.Digest, of.terms()))
	}
	for i := range m.before {
		if name := m.before[i].Name; !slices.ContainsFunc(m.all, func(of Backend) bool { return of.Name == name }) {
			a.carryOut(a.pool.RemoveBackend(now, name))
		}
	}
}

// findAll returns the instances that serve a holder.
func (a *poolActor) findAll(backend, holder string) (all []*instance) {
	for _, in := range a.instances {
		if in.of.Name == backend && in.holder() == holder && in.life.Err() == nil {
			all = append(all, in)
		}
	}
	return all
}

// forgetLists drops what an instance has listed for its holder, unless that has another one of the kind.
func (a *poolActor) forgetLists(in *instance) {
	holder := in.holder()
	if holder == "" || slices.ContainsFunc(a.findAll(in.of.Name, holder), func(other *instance) bool { return other.kind == in.kind }) {
		return
	}
	a.b.catalogues.forgetHolding(in.kind, holder)
}

// tickLater has time pass for the pool as long as it has something to look after.
func (a *poolActor) tickLater() {
	if a.ticking || !a.pool.Busy() {
		return
	}
	a.ticking = true
	a.b.c.Clock.AfterFunc(time.Second, func() { a.b.tellPool(&ticked{}) })
}

// measureEvery is how often the memory of processes is looked at, at most.
const measureEvery = 5 * time.Second

// measureMemory asks for the memory of processes, if one of them may not have all, or somebody wants to know.
func (a *poolActor) measureMemory(now time.Time) {
	if now.Sub(a.measured) < measureEvery || a.closed {
		return
	}
	wanted := false
	for _, in := range a.instances {
		wanted = wanted || (a.shown || in.of.Options.Pool.MaxMemory > 0) && in.proc.Load() != nil
	}
	if !wanted {
		return
	}
	a.measured, a.shown = now, false
	a.b.runInBackground(func(ctx context.Context) {
		if client, err := a.b.keeperClient(ctx); err == nil {
			measureProcesses(ctx, a.b, client)
		}
	})
}

// measureProcesses tells the pool what memory the processes of a keeper have.
func measureProcesses(ctx context.Context, b *Backends, client *keeper.Client) {
	all, err := client.ListWithMemory(ctx)
	if err != nil {
		if ctx.Err() == nil {
			b.c.Log.Warn("what memory the processes of backends have is unknown", "error", err)
		}
		return
	}
	m := &measured{make(map[string]int64, len(all))}
	for _, kept := range all {
		m.all[kept.ID] = kept.Memory
	}
	b.tellPool(m)
}

// carryOut does what the pool has decided.
func (a *poolActor) carryOut(todo []pool.Effect) {
	for _, e := range todo {
		switch e := e.(type) {
		case pool.Start:
			a.startInstance(&e)
		case pool.Give:
			a.giveInstance(&e)
		case pool.Refuse:
			if l := a.waiting[e.Want]; l != nil {
				delete(a.waiting, e.Want)
				if l.once { // an instance that begins for it is nobody's
					a.b.tellPool(&holderGone{l.want.Holder, pool.Left})
				}
				l.given <- newRefusal(l.want.Kind.Backend, &e)
			}
		case pool.Stop:
			if in := a.instances[e.Instance]; in != nil {
				in.stop(errStopping{e.Reason})
			}
		case pool.Ping:
			if in := a.instances[e.Instance]; in != nil {
				go in.ping()
			}
		case pool.Lost:
			a.tellLost(&e)
		}
	}
}

// startInstance begins an instance.
func (a *poolActor) startInstance(e *pool.Start) {
	of, ok := a.b.find(e.Kind.Backend)
	if !ok || of.Digest != e.Kind.Digest { // it was configured otherwise meanwhile
		go a.b.tellPool(&didNotStart{&instance{id: e.Instance, kind: e.Kind, began: a.b.c.Clock.Now()}, refusals[pool.Replaced], pool.Replaced})
		return
	}
	in := a.b.newInstance(of, e.Kind, a.b.c.Clock.Now())
	in.id = e.Instance
	in.setOwner(e.Holder, e.Principal)
	a.instances[e.Instance] = in
	a.b.lives.Go(lifetime{in}.openAndRun)
}

// giveInstance lends an instance to the call that wanted one.
func (a *poolActor) giveInstance(e *pool.Give) {
	l, in := a.waiting[e.Want], a.instances[e.Instance]
	if l == nil {
		return
	}
	delete(a.waiting, e.Want)
	if in.holder() == "" && l.want.Holder != "" { // a spare has found whose it is
		in.setOwner(l.want.Holder, l.want.Principal)
		l.noteIt = true
	}
	l.noteIt = l.noteIt || in.of.Options.Isolation == host.ByCall && !l.want.Looks
	if !l.want.Looks {
		in.served.Store(true)
	}
	l.in = in
	l.given <- nil
}

// tellLost tells that the instance of a holder is gone with what it held.
func (a *poolActor) tellLost(e *pool.Lost) {
	if session := sessionOf(e.Holder); session != "" && a.b.c.Lost != nil {
		go a.b.c.Lost(e.Kind.Backend, session, e.Reason)
	}
}

// shut ends all instances, or leaves those that a keeper has, and sessions at URLs that lie in the store, to the next process.
func (a *poolActor) shut(keep bool) {
	a.closed, a.keeps = true, keep
	a.carryOut(a.pool.Shut(func(id pool.InstanceID) bool {
		in := a.instances[id]
		return in != nil && (keep && in.proc.Load() != nil || in.place.stores.Load() != nil)
	}))
}

// lease is a call's claim to an instance.
type lease struct {
	want pool.Want
	once bool // its holder is nobody any more when it ends
	in   *instance
	// noteIt says that the keeper has to know of this before anything is asked: the next process must give the instance to nobody else.
	noteIt bool
	given  chan error // gets nil once in is there, or why there will be none
}

// leaseInstance waits until a caller has an instance of a backend.
func (b *Backends) leaseInstance(ctx context.Context, name string, c *Caller, q *Request) (*lease, error) {
	if err := b.awaitAdoption(ctx); err != nil {
		return nil, err
	}
	for digest := ""; ; {
		of, ok := b.find(name)
		if !ok || of.Digest == digest {
			return nil, newRefusal(name, &pool.Refuse{Reason: pool.Replaced})
		}
		l, err := leaseFrom(ctx, b, of, c, q)
		if reasonIn(err) != pool.Replaced {
			return l, err
		}
		digest = of.Digest // it was configured otherwise meanwhile, and what it is now may serve
	}
}

// leaseFrom is lend for a backend as it is configured at the moment.
func leaseFrom(ctx context.Context, b *Backends, of *Backend, c *Caller, q *Request) (*lease, error) {
	id := pool.WantID(b.wants.Add(1))
	l := &lease{given: make(chan error, 1), want: pool.Want{ID: id, Kind: c.kindOf(of), Principal: c.Principal}}
	l.want.Holder, l.once = c.holderOf(of.Options.Isolation, id)
	session := l.want.Holder == sessionHolder(c.Session) && c.Session != ""
	if q.looks {
		l.want.Looks, l.want.Holder, l.want.Principal, l.once = true, "", "", false
	}
	l.want.Askable = q.Asks && of.hasLines() && !session && b.catalogues.eraOf(of.Digest) != upstream.EraModern
	q.told, q.modern = c.toldCapabilities(&of.Options), c.Modern
	if !q.looks {
		left, err := b.deposits.hasDeposit(ctx, depositName(of, l.want.Kind, l.want.Holder, b.c.Node))
		if err != nil {
			return nil, unknownLeft(of.Name, err)
		}
		l.want.Heir = left
	}
	if b.pool.Post(&wanted{l}) != nil {
		return nil, newRefusal(of.Name, &pool.Refuse{Reason: pool.Closed})
	}
	began := b.c.Clock.Now()
	select {
	case err := <-l.given:
		b.c.Observer.Waited(of.Name, b.c.Clock.Now().Sub(began), reasonIn(err))
		if err != nil {
			return nil, err
		}
		if l.noteIt {
			estate{l.in}.refreshPlace()
			estate{l.in}.leaveStanding()
		}
		return l, nil
	case <-ctx.Done():
		b.tellPool(&withdrawn{l})
		return nil, context.Cause(ctx)
	}
}

// reasonIn is why a want was refused, "" if it was not.
func reasonIn(err error) pool.Reason {
	if e, ok := errors.AsType[*Error](err); ok {
		return pool.Reason(e.Reason)
	}
	return ""
}

// giveBack ends a lease. An instance that was told to give up its call is in doubt until that has ended, as the next question could
// still be of it: a late answer ends the doubt, or an answer to a ping, as a server that is done answers one.
func (b *Backends) giveBack(l *lease, doubt bool) {
	if !doubt {
		b.tellPool(&withdrawn{l})
		return
	}
	b.tellPool(&cancelled{l.want.ID})
	b.c.Clock.AfterFunc(cancelWait/2, func() {
		ctx, cancel := context.WithTimeout(l.in.life, cancelWait/2)
		defer cancel()
		if l.in.conn.Ping(ctx) == nil {
			b.tellPool(&withdrawn{l})
		}
	})
}
