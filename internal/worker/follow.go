package worker

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-run/troupe/internal/task"
)

// lookEvery is how often a task that somebody waits for is read again, in case another process has changed it.
const lookEvery = 2 * time.Second

// Follow is FollowAll of one task. ErrUnknown: there is no such task, or it is gone by now.
func (p *Pool) Follow(ctx context.Context, key Key, f func(Snapshot) (more bool)) error {
	return p.FollowAll(ctx, []Key{key}, nil, f)
}

// FollowAll calls f with each task as it is and after each of its changes, until f returns false or ctx ends; and, after something came
// on again, with all of them as they are. Changes that come fast may be seen as one. ErrUnknown: none of the tasks is there, or they
// are gone by now.
func (p *Pool) FollowAll(ctx context.Context, keys []Key, again <-chan struct{}, f func(Snapshot) (more bool)) error {
	me := &follower{dirty: make(map[Key]bool, len(keys)), wake: make(chan struct{}, 1)}
	p.mu.Lock()
	for _, k := range keys {
		me.dirty[k] = true
		if p.followers[k] == nil {
			p.followers[k] = make(map[*follower]bool)
		}
		p.followers[k][me] = true
	}
	p.mu.Unlock()
	defer p.unfollow(me, keys)
	// Many are looked at less often, when no change was heard of.
	every := lookEvery * time.Duration(1+len(keys)/10)
	t := time.NewTimer(every)
	defer t.Stop()
	seen := make(map[Key]uint64, len(keys))
	for _, k := range keys {
		seen[k] = 0
	}
	for {
		p.mu.Lock()
		dirty := me.dirty
		me.dirty = make(map[Key]bool)
		p.mu.Unlock()
		for _, k := range keys { // in the order that the caller has
			if _, there := seen[k]; !there || !dirty[k] {
				continue
			}
			s, err := p.Get(ctx, k)
			switch {
			case errors.Is(err, ErrUnknown):
				delete(seen, k)
			case err == nil && s.Rev != seen[k]:
				if seen[k] = s.Rev; !f(s) {
					return nil
				}
			}
		}
		if len(seen) == 0 {
			return ErrUnknown
		}
		t.Reset(every)
		select {
		case <-me.wake:
			continue
		case <-t.C:
		case <-again:
			for k := range seen {
				seen[k] = 0
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-p.base.Done():
			return ErrClosing
		}
		p.mu.Lock()
		for k := range seen {
			me.dirty[k] = true
		}
		p.mu.Unlock()
	}
}

func (p *Pool) unfollow(f *follower, keys []Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range keys {
		if delete(p.followers[k], f); len(p.followers[k]) == 0 {
			delete(p.followers, k)
		}
	}
}

// changed tells those who follow a task that it has changed.
func (p *Pool) changed(key Key, rev uint64, r *task.Record) {
	p.mu.Lock()
	p.look(key)
	p.mu.Unlock()
	if r.State == task.Ended {
		p.over(key, r.How())
	}
	if p.Changed != nil {
		p.Changed(key, rev, r)
	}
}

// look has those who follow a task look at it. mu is held.
func (p *Pool) look(key Key) {
	for f := range p.followers[key] {
		f.dirty[key] = true
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
}

// Heard says that another process has made or changed a task: those who follow it look at it now, and so does a run of it here. From the first task of a server on
// its work is taken here, too. ended is how the task ended, 0 if it has not.
func (p *Pool) Heard(key Key, ended task.Kind) {
	if ended != 0 {
		p.over(key, ended)
	} else {
		p.Serve(key.Server)
	}
	p.mu.Lock()
	p.look(key)
	p.mu.Unlock()
	p.tellHeld(key, heard{})
}

// LookAgain has those who follow tasks look at all of them: other processes may have changed some, or have made the first ones of a server.
func (p *Pool) LookAgain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range p.followers {
		p.look(key)
	}
	if p.Shared && !p.closed {
		p.tasks.Go(func() { _ = p.serveWorking() }) // an error: it is asked for again with the next comparison
	}
}
