package actors

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/codec"
)

// How a node ends:
//
//	serving ──Finish──▶ serves on ──HandOver──▶ hands over ──▶ takes nothing ──Close──▶ stopped
//
// A call is the node's own if nobody else can end it: it may not run again, or its client could not come back for it.
// Finish waits for those, while everybody is served. HandOver leaves the others to who resumes them.

const (
	// quick is how long a call may have run, or may still run, without being worth the wait of Finish: those that
	// answer at once are under way all the time.
	quick = 250 * time.Millisecond
	// look is how often a node that ends looks at what is left.
	look = 10 * time.Millisecond
)

// Finish waits until no call runs that only this node can end, or ctx ends. Everything is served meanwhile, but that
// in the second half of the time until the deadline of ctx such calls are refused: they could not be sure to end.
func (n *Node) Finish(ctx context.Context) {
	if end, ok := ctx.Deadline(); ok {
		time.AfterFunc(time.Until(end)/2, func() { n.drain.sparing.Store(true) })
	}
	for {
		began := time.Now()
		if !n.drain.ownCalls(began.Add(-quick)) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(look, 10*time.Since(began))): // which is long where there are many sessions
		}
	}
}

// HandOver ends what the node has left, once nobody new comes to it. Idle connections are closed so that their clients
// come back elsewhere, streams of calls that may run again are left to who resumes them, and it waits until every other
// call is answered or ctx ends. What comes meanwhile is served and treated alike. Of the calls that still run at the
// end of ctx those that may run again are left to who resumes them, too, and the others end with -32010.
//
// It returns when there is nothing left and idle, which may be nil, returns true; from then on everything is refused.
func (n *Node) HandOver(ctx context.Context, idle func() bool) {
	n.drain.handing.Store(true)
	for {
		n.drain.closeIdle()
		n.drain.passOn()
		if !n.drain.busy() && (n.drain.over.Load() || idle == nil || idle()) {
			if n.drain.over.Swap(true) {
				return
			}
			continue // something may just have come
		}
		select {
		case <-ctx.Done():
			n.drain.over.Store(true)
			n.drain.giveUp(ctx)
			return
		case <-time.After(look):
		}
	}
}

// Refuse makes the node refuse everything that comes from now on, as it does once HandOver has returned: for a drain
// that cannot keep new requests from coming, so that HandOver ends.
func (n *Node) Refuse() { n.drain.over.Store(true) }

// refuses reports whether a request is refused because the node ends.
func (d *draining) refuses(svc *Service, m *codec.Message) bool {
	return d.over.Load() || d.sparing.Load() && !svc.Handler.Safe(m.Method, m.Name)
}

// closeIdle ends the connections of those who wait for no answer, but for the streams of
// sessions: Close ends those, as late as may be. Older clients count from then on how
// long nobody serves, and try no more than twice.
func (d *draining) closeIdle() {
	for _, s := range d.node.bound.snapshot() {
		_ = s.Post(endIdle{})
	}
	d.node.listeners.end("the server is shutting down", func(*listenActor) bool { return true })
}

// passOn hands over the calls that can go on elsewhere.
func (d *draining) passOn() {
	if d.node.accounts.InFlight() == 0 {
		return
	}
	begun := time.Now().Add(-quick)
	d.node.sessions.Each(func(s *sessionActor) { _ = s.Post(hastenCalls{begun}) })
	d.node.streams.Each(func(s *streamActor) { _ = s.Post(passOn{}) })
}

// ownCalls reports whether a call of the node's own runs that began at begun or before.
func (d *draining) ownCalls(begun time.Time) bool {
	m := &tally{begun: begun}
	ask := func(post func(any) error) {
		m.Init()
		if m.own == 0 && post(m) == nil {
			m.Wait()
		}
	}
	for _, r := range d.node.statelessCalls.snapshot(nil) {
		ask(func(t any) error { return r.r.Post(called{r.generation, t}) })
	}
	if d.node.accounts.InFlight() > 0 {
		d.node.sessions.Each(func(s *sessionActor) { ask(s.Post) })
	}
	return m.own > 0
}

// giveUp ends the calls that still run: see HandOver.
func (d *draining) giveUp(ctx context.Context) {
	d.node.sessions.Each(func(s *sessionActor) { _ = s.Post(giveUpCalls{}) })
	d.node.statelessCalls.giveUp(nil, ErrClosing)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	d.quiet(last)
}

// running reports that a call runs here that nobody else can go on with.
func (d *draining) running() bool { return d.node.accounts.InFlight() > d.handed.Load() }

// busy reports that a call runs, or that an answer has not yet been stored and handed to its connection.
func (d *draining) busy() bool {
	busy := d.running()
	d.node.streams.Each(func(s *streamActor) { busy = busy || len(s.rec.Calls) > 0 })
	return busy
}

// quiet waits until the node is not busy; it reports whether that came before the end of ctx.
func (d *draining) quiet(ctx context.Context) bool {
	for d.busy() {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(5 * time.Millisecond):
		}
	}
	return true
}

// Close ends every call as HandOver does at its end, and stops the node's actors.
// Handlers that do not heed their context are waited for until ctx ends, but not
// those whose calls HandOver has handed over.
func (n *Node) Close(ctx context.Context) error {
	if n.drain.closing.Swap(true) {
		return nil
	}
	n.drain.over.Store(true)
	n.timer.Stop()
	if n.accounts.InFlight() > 0 {
		n.drain.giveUp(ctx)
	}
	n.statelessCalls.giveUp(nil, ErrClosing) // those that wait for input, too
	n.stopAll(ErrClosing)
	var err error
	for began := time.Now(); (n.accounts.InFlight() > 0 || !n.statelessCalls.empty()) && err == nil; {
		if n.drain.handing.Load() && !n.drain.running() && n.statelessCalls.empty() && time.Since(began) > quick {
			break
		}
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
	for _, a := range n.attachments.snapshot() {
		a.reconnect()
	}
	n.listeners.end("the server is shutting down", func(*listenActor) bool { return true })
	for _, s := range n.bound.snapshot() {
		s.endSession()
	}
	n.streams.Each(func(s *streamActor) { _ = s.Post(quitStream{}) })
	n.sessions.Each(func(s *sessionActor) {
		s.timer.Stop()
		n.sessions.Drop(s.key, s) // or whoever finds it would look for another one for ever
		s.Actor.Stop()
	})
	n.calls.close()
	n.heart.Stop()
	return err
}

// Unmount takes a service off this node. Its calls end as those that a drain no
// longer waits for, with ErrUnmounted as the cause; its sessions and streams leave
// memory and stay in the store. A request for it that is on its way finds no
// session. Unmount does not wait for handlers.
func (n *Node) Unmount(svc *Service) {
	if svc.life.over.Swap(true) {
		return
	}
	close(svc.life.done)
	n.sessions.Each(func(s *sessionActor) {
		if s.svc == svc {
			_ = s.Post(unmountSession{})
		}
	})
	n.streams.Each(func(st *streamActor) {
		if st.svc == svc {
			st.unmount()
		}
	})
	n.statelessCalls.giveUp(svc, ErrUnmounted)
	n.listeners.end("the server has been taken away", func(l *listenActor) bool { return l.svc == svc })
}
