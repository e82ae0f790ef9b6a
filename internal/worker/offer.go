package worker

import (
	"context"
	"time"
)

// offer is work that is stored before the record says that there is any.
type offer struct {
	p    *Pool
	key  Key
	from string // who made the task, among those who share its tenant
	seq  uint64 // of the work; 0: it is not made
}

// offer begins to make work. Until it is settled, the workers of this process wait before they look
// at the record.
func (ts taskActors) offer(key Key, from string) *offer {
	o := &offer{p: ts.p, key: key, from: token(from)}
	ts.tell(key, offering{o})
	return o
}

func (o *offer) settled() { o.p.actors.tellHeld(o.key, offered{o}) }

// make stores the work, once.
func (o *offer) make(ctx context.Context, left time.Duration) (err error) {
	if o.seq == 0 {
		if s, err := o.p.findService(o.key.Server); err == nil {
			_ = s.Post(expected{o.key, time.Now()}) // before a worker can see it
		}
		o.seq, err = o.p.Store.Offer(ctx, o.key.Tenant, o.key.Server, o.key.ID, o.from, left)
	}
	return err
}
