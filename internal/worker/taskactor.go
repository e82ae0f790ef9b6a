package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/task"
)

// taskActor is a task that this node holds: it is about to have work, its work is looked at, its
// handler runs here, or waits here for the client. It decides by the record, which package task
// changes; others read and write the store for it, and post what came of that.
type taskActor struct {
	kernel.Actor
	p   *Pool
	key Key

	offer    *offer      // work that is being made here; nil: none is
	opening  *assignment // work that is looked at; nil: none is
	pending  *opening    // what asks to look at it, and waits for the record; nil: nothing does
	revoked  bool        // the client has cancelled the task while its work was looked at
	attempts []*Attempt  // that have not concluded: the newest, last, may have the task

	checking   bool // the record is being read, to see whether another process has changed it
	checkAgain bool // it may have been changed since
	keepsNext  bool // the work is kept once it was read
}

// errBroken reports that the actor of a task has panicked.
var errBroken = errors.New("worker: the actor of a task has panicked")

// The messages of a task's actor.
type (
	// offerBegun and offerSettled say that work is being made, and that its record is stored too,
	// or never will be.
	offerBegun   struct{ o *offer }
	offerSettled struct{ o *offer }
	// opening asks whether the work may be looked at, which is granted to one at a time, once the
	// record of work that is being made is stored, too, or after recordWait, or with the end of the
	// mount.
	opening struct {
		answered
		w         *assignment
		granted   bool
		stopTimer func() // nil: it does not wait
	}
	// recordWaited says that work is looked at, whether or not its record is stored by now.
	recordWaited struct{ m *opening }
	// matching asks what work is to an attempt that is here, by the record as it was read.
	matching struct {
		answered
		a    *Attempt // nil: the newest, if there is one
		w    *assignment
		r    *task.Record
		fate fate
	}
	// resumed says that the task of a handler that waits runs again, by work that has a place.
	resumed struct {
		answered
		a *Attempt
		w *assignment
	}
	// returning says that a handler has returned: from here on it neither parks nor resumes.
	returning struct {
		answered
		a      *Attempt
		parked bool
		work   *assignment
	}
	// opened says what became of work: a is the attempt that has begun, nil if none has. w is nil
	// for an adopted one.
	opened struct {
		answered
		w *assignment
		a *Attempt
	}
	// concluded says that an attempt is over. Its sender waits until the place is given back.
	concluded struct {
		answered
		a *Attempt
	}
	// asking asks for the answers to questions.
	asking struct {
		answered
		a       *Attempt
		qs      []Question
		answers []task.Reply
		missing []task.Question // that were never asked
		wake    chan struct{}   // closed once all that was asked has answers; nil: it has
	}
	// taskCancelled says that the client has cancelled the task.
	taskCancelled struct{}
	// changeHeard says that another process may have changed the task.
	changeHeard struct{}
	// recordChecked says that the record was read.
	recordChecked struct{}
	// keepWork has the work be kept: after a look at the record if look is set.
	keepWork struct{ look bool }
	// viewing asks what the actor is about.
	viewing struct {
		answered
		offered bool // work is being made
		adopted bool // it runs, and was not given its work yet
	}
)

// answered is embedded in a message whose sender waits.
type answered struct {
	kernel.Reply
	err error // the actor has panicked
}

func (m *answered) Refused(err error) {
	m.err = err
	m.Done()
}

func (m *answered) refusal() error { return m.err }

// askActor posts m and waits for the answer. An error says that there is none.
func (t *taskActor) askActor(m interface {
	Init()
	Wait()
	refusal() error
}) error {
	m.Init()
	if err := t.Post(m); err != nil {
		return err
	}
	m.Wait()
	return m.refusal()
}

func (t *taskActor) Receive(m any) {
	switch m := m.(type) {
	case offerBegun:
		t.offer = m.o
	case offerSettled:
		if t.offer == m.o { // not one that came later
			t.offer = nil
			t.grantOpening()
		}
	case *opening:
		t.openWork(m)
	case recordWaited:
		if t.pending == m.m {
			t.grantOpening()
		}
	case *matching:
		m.fate = t.matchWork(m)
		m.Done()
	case *resumed:
		m.a.resumeHandler(m.w)
		m.Done()
	case *returning:
		m.a.returned.Store(true)
		m.parked, m.work = m.a.isParked(), m.a.work
		m.Done()
	case *opened:
		t.endOpening(m)
	case *asking:
		m.a.findAnswers(m)
		m.Done()
	case *concluded:
		t.removeAttempt(m.a)
		m.Done()
	case taskCancelled:
		t.revoked = t.opening != nil
		if a := t.newestAttempt(); a != nil {
			a.cancel(ErrCancelled)
		}
	case changeHeard:
		t.checkRecord(false)
	case recordChecked:
		t.endCheck()
	case keepWork:
		t.keepWork(m.look)
	case *viewing:
		a := t.newestAttempt()
		m.offered, m.adopted = t.offer != nil, a != nil && a.work.Seq() == 0
		m.Done()
	}
	if t.offer == nil && t.opening == nil && len(t.attempts) == 0 && t.StopIdle() {
		t.p.actors.Drop(t.key, t)
	}
}

// Failed answers whoever waits. The attempts of an actor that ends have lost their task: their work
// is kept no more, and comes again.
func (t *taskActor) Failed(m any, last bool) {
	if m, ok := m.(kernel.Refusable); ok {
		m.Refused(errBroken)
	}
	switch m := m.(type) {
	case *opening:
		t.closeOpening(m.w)
	case *opened: // its sender gives the attempt up
		t.closeOpening(m.w)
		t.attempts = slices.DeleteFunc(t.attempts, func(a *Attempt) bool { return a == m.a })
	case offerSettled, recordWaited:
		t.refuseOpening()
	}
	if !last {
		return
	}
	t.p.actors.Drop(t.key, t)
	t.refuseOpening()
	for len(t.attempts) > 0 {
		a := t.attempts[0]
		a.left.Store(true)
		a.cancel(ErrTakenOver)
		t.Contain(func() { t.removeAttempt(a) })
	}
}

// newestAttempt is the attempt that may have the task, nil if none has.
func (t *taskActor) newestAttempt() *Attempt {
	if len(t.attempts) == 0 {
		return nil
	}
	return t.attempts[len(t.attempts)-1]
}

// openWork has work be looked at, or says at once that other work is.
func (t *taskActor) openWork(m *opening) {
	if t.opening != nil {
		m.Done()
		return
	}
	t.opening, t.pending = m.w, m
	if t.offer == nil {
		t.grantOpening()
		return
	}
	waited := func() { _ = t.Post(recordWaited{m}) }
	timer, unmount := time.AfterFunc(recordWait, waited), context.AfterFunc(m.w.s.ctx, waited)
	m.stopTimer = func() {
		timer.Stop()
		unmount()
	}
}

// grantOpening lets work be looked at that has waited for its record.
func (t *taskActor) grantOpening() {
	if m := t.pending; m != nil {
		if m.stopTimer != nil {
			m.stopTimer()
		}
		t.pending, m.granted = nil, true // last: after a panic it is refused
		m.Done()
	}
}

// refuseOpening has work come again that waits for its record, after a panic.
func (t *taskActor) refuseOpening() {
	if m := t.pending; m != nil {
		t.closeOpening(m.w)
		m.Refused(errBroken)
	}
}

// matchWork says what work is to an attempt that is here: fateBegins if it is not for it. Where it
// says fateResumes of a task that is queued, the attempt has to begin anew.
func (t *taskActor) matchWork(m *matching) fate {
	if m.a == nil {
		m.a = t.newestAttempt()
	}
	a := m.a
	if a == nil {
		return fateBegins
	}
	there, returned := a.ctx.Err() == nil, a.returned.Load()
	switch {
	case a.left.Load():
		return fateBegins
	case m.r.State == task.Queued && there && !returned && a.isParked():
		return fateResumes
	case t.p.Shared && m.r.State == task.Running && m.r.Boot == t.p.Boot && m.r.Work != m.w.Seq():
		return fateRunsHere
	case m.r.State == task.Running && there && a.known.Load().epoch == m.r.Epoch:
		if returned { // its outcome is on its way to the store
			return fateRunsHere
		}
		// It was given out again although it runs here.
		a.work = m.w
		m.w.freePlace() // the attempt has its own place
		return fateResumes
	}
	return fateBegins
}

// endOpening ends the look at work, with the attempt that has begun.
func (t *taskActor) endOpening(m *opened) {
	if m.a != nil {
		if !slices.Contains(t.attempts, m.a) { // it comes again where an actor has ended beside it
			t.attempts = append(t.attempts, m.a)
			m.a.actor = t
		}
		if t.revoked { // its client was quicker
			m.a.cancel(ErrCancelled)
		}
	}
	t.closeOpening(m.w)
	m.Done()
}

// closeOpening ends the look at work, if it is that work which is looked at.
func (t *taskActor) closeOpening(w *assignment) {
	if w == t.opening {
		t.opening, t.pending, t.revoked = nil, nil, false
	}
}

// removeAttempt forgets an attempt that is over, and gives its place back.
func (t *taskActor) removeAttempt(a *Attempt) {
	i := slices.Index(t.attempts, a)
	if i < 0 {
		return
	}
	t.attempts = slices.Delete(t.attempts, i, i+1)
	a.left.Store(true)
	a.endSuspicion()
	if a.isParked() {
		t.p.parked.Add(-1)
	} else {
		a.work.freePlace()
	}
}

// checkRecord has the record be read, as another process may have changed it, and the work be kept
// then. An attempt that has lost the task ends.
func (t *taskActor) checkRecord(keeps bool) {
	a := t.newestAttempt()
	if a == nil {
		return
	}
	t.keepsNext = t.keepsNext || keeps
	if t.checkAgain = t.checking; t.checking {
		return
	}
	t.checking = true
	go func() {
		_ = a.takeTurn(func() error {
			ctx, cancel := context.WithTimeout(a.ctx, keepEvery)
			defer cancel()
			return a.checkEpoch(ctx)
		})
		_ = t.Post(recordChecked{})
	}()
}

// endCheck keeps the work, and reads the record again if it may have changed since.
func (t *taskActor) endCheck() {
	keeps, again := t.keepsNext, t.checkAgain
	t.checking, t.checkAgain, t.keepsNext = false, false, false
	if a := t.newestAttempt(); keeps && a != nil {
		a.keepWork()
	}
	if again {
		t.checkRecord(false)
	}
}

// keepWork says that the work is being done. Work that has not begun is not kept where a look comes
// first, so that it is not fresh.
func (t *taskActor) keepWork(look bool) {
	if look {
		t.checkRecord(true)
		return
	}
	if t.opening != nil && t.opening.isFresh() { // otherwise another may have it
		t.opening.keepWork()
	}
	if a := t.newestAttempt(); a != nil {
		a.keepWork()
	}
}

// taskActors are the actors of the tasks that this node holds.
type taskActors struct {
	*kernel.Directory[Key, *taskActor]
	p *Pool
}

// tellActor posts m to the actor of a task, which it makes if there is none.
func (ts taskActors) tellActor(key Key, m any) *taskActor {
	for {
		t, _ := ts.Obtain(key, func() (*taskActor, error) {
			t := &taskActor{p: ts.p, key: key}
			ts.p.Kernel.Start(&t.Actor, ts.p.TaskKind, key.ID, t)
			return t, nil
		})
		if t.Post(m) == nil {
			return t
		}
		ts.Drop(key, t) // it has just ended
	}
}

// tellIfHeld posts m to the actor of a task that this node holds, and reports whether it does.
func (ts taskActors) tellIfHeld(key Key, m any) bool {
	t, ok := ts.Get(key)
	return ok && t.Post(m) == nil
}

// viewTask says what the actor of a task is about.
func (ts taskActors) viewTask(key Key) (offered, adopted bool) {
	m := new(viewing)
	if t, ok := ts.Get(key); ok {
		_ = t.askActor(m)
	}
	return m.offered, m.adopted
}

// offer is work that is stored before the record says that there is any.
type offer struct {
	p    *Pool
	key  Key
	from string // who made the task, among those who share its tenant
	seq  uint64 // of the work; 0: it is not made
}

// beginOffer begins to make work. Until it is settled, the workers of this process wait before they
// look at the record.
func (ts taskActors) beginOffer(key Key, from string) *offer {
	o := &offer{p: ts.p, key: key, from: clientToken(from)}
	ts.tellActor(key, offerBegun{o})
	return o
}

func (o *offer) settleOffer() { o.p.actors.tellIfHeld(o.key, offerSettled{o}) }

// makeWork stores the work, once.
func (o *offer) makeWork(ctx context.Context, left time.Duration) (err error) {
	if o.seq == 0 {
		if s, err := o.p.findService(o.key.Server); err == nil {
			_ = s.Post(workExpected{o.key, time.Now()}) // before a worker can see it
		}
		o.seq, err = o.p.Store.Offer(ctx, o.key.Tenant, o.key.Server, o.key.ID, o.from, left)
	}
	return err
}
