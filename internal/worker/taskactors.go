package worker

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/internal/kernel"
)

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

// beginOffer begins to make work. Until it is settled, the workers of this process wait before they look
// at the record.
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
