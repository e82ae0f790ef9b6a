package worker

import (
	"context"
	"time"
)

// offer is work that is stored before the record says that there is any.
type offer struct {
	p    *Pool
	key  Key
	from string        // who made the task, among those who share its tenant
	seq  uint64        // of the work; 0: it is not made
	over chan struct{} // closed when the record is stored too, or never will be
}

// offer begins to make work. Until it is settled, the workers of this process wait before they look at the record.
func (p *Pool) offer(key Key, from string) *offer {
	o := &offer{p: p, key: key, from: token(from), over: make(chan struct{})}
	p.tell(key, offering{o})
	return o
}

func (o *offer) settled() {
	o.p.tellHeld(o.key, offered{o})
	close(o.over)
}

// await waits until the record of the work is stored.
func (o *offer) await(ctx context.Context) {
	t := time.NewTimer(recordWait)
	defer t.Stop()
	select {
	case <-o.over:
	case <-t.C:
	case <-ctx.Done():
	}
}

// make stores the work, once.
func (o *offer) make(ctx context.Context, left time.Duration) (err error) {
	if o.seq == 0 {
		o.p.expect(o.key, time.Now()) // before a worker can see it
		o.seq, err = o.p.Store.Offer(ctx, o.key.Tenant, o.key.Server, o.key.ID, o.from, left)
	}
	return err
}

// Work that was made here is asked for when no worker of the process has seen it for pokeAfter, and again after twice as long each time,
// until it has been unseen for so long that another process must have it.
const (
	pokeAfter = 3 * time.Millisecond
	unseenFor = 10 * time.Second
)

// expect notes that work is being made here.
func (p *Pool) expect(key Key, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.services[key.Server]
	if s == nil || p.closed {
		return
	}
	s.unseen[key] = now
	if !s.poking {
		s.poking = true
		time.AfterFunc(pokeAfter, func() { p.poke(s, pokeAfter) })
	}
}

// poke asks a queue once more whose work has not come, and does so again later.
func (p *Pool) poke(s *serving, after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, made := range s.unseen {
		if time.Since(made) > unseenFor {
			delete(s.unseen, k)
		}
	}
	if len(s.unseen) == 0 || s.ctx.Err() != nil || p.closed {
		s.poking = false
		return
	}
	p.ask(s)
	after = min(2*after, keepEvery)
	time.AfterFunc(after, func() { p.poke(s, after) })
}

// ask takes all work that the store has and has not given out. It does not wait for any. mu is held.
func (p *Pool) ask(s *serving) {
	q := s.queue.Load()
	if q == nil || p.closed || s.asking.Swap(true) {
		return
	}
	p.tasks.Go(func() {
		defer s.asking.Store(false)
		for s.ctx.Err() == nil {
			w, err := (*q).Poke()
			if w == nil || err != nil {
				return
			}
			p.assign(s, w)
		}
	})
}

// seen notes that the work of a task has come.
func (p *Pool) seen(s *serving, key Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(s.unseen, key)
}
