package worker

import (
	"context"
	"errors"
	"sync"
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
	me := p.followers.add(keys)
	defer p.followers.remove(me, keys)
	// Many are looked at less often, when no change was heard of.
	every := lookEvery * time.Duration(1+len(keys)/10)
	t := time.NewTimer(every)
	defer t.Stop()
	seen := make(map[Key]uint64, len(keys))
	for _, k := range keys {
		seen[k] = 0
	}
	for {
		dirty := p.followers.takeDirty(me)
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
		p.followers.setDirty(me, seen)
	}
}

// followers are those who follow tasks.
type followers struct {
	mu sync.Mutex // guards of, and what the followers have to look at
	of map[Key]map[*follower]bool
}

// follower is somebody who follows tasks.
type follower struct {
	dirty map[Key]bool  // what may have changed since it looked
	wake  chan struct{} // has one place
}

// add adds one who follows tasks, and has to look at all of them.
func (f *followers) add(keys []Key) *follower {
	one := &follower{dirty: make(map[Key]bool, len(keys)), wake: make(chan struct{}, 1)}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, k := range keys {
		one.dirty[k] = true
		if f.of[k] == nil {
			f.of[k] = make(map[*follower]bool)
		}
		f.of[k][one] = true
	}
	return one
}

func (f *followers) remove(one *follower, keys []Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, k := range keys {
		if delete(f.of[k], one); len(f.of[k]) == 0 {
			delete(f.of, k)
		}
	}
}

// takeDirty returns the tasks that a follower has to look at, which it does.
func (f *followers) takeDirty(one *follower) (dirty map[Key]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	dirty, one.dirty = one.dirty, make(map[Key]bool)
	return dirty
}

// setDirty has a follower look at tasks.
func (f *followers) setDirty(one *follower, keys map[Key]uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for k := range keys {
		one.dirty[k] = true
	}
}

// wake has those who follow a task look at it.
func (f *followers) wake(key Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for one := range f.of[key] {
		one.setDirty(key)
	}
}

// wakeAll has all look at all that they follow.
func (f *followers) wakeAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, all := range f.of {
		for one := range all {
			one.setDirty(key)
		}
	}
}

// setDirty has the follower look at a task. The lock of the followers is held.
func (one *follower) setDirty(key Key) {
	one.dirty[key] = true
	select {
	case one.wake <- struct{}{}:
	default:
	}
}

// changed tells those who follow a task that it has changed.
func (p *Pool) changed(key Key, rev uint64, r *task.Record) {
	p.followers.wake(key)
	if r.State == task.Ended {
		p.books.taskEnded(key, r.How())
	}
	if p.Changed != nil {
		p.Changed(key, rev, r)
	}
}

// Heard says that another process has made or changed a task: those who follow it look at it now, and so does a run of it here. From the first task of a server on
// its work is taken here, too. ended is how the task ended, 0 if it has not.
func (p *Pool) Heard(key Key, ended task.Kind) {
	if ended != 0 {
		p.books.taskEnded(key, ended)
	} else {
		p.Serve(key.Server)
	}
	p.followers.wake(key)
	p.tellHeld(key, heard{})
}

// LookAgain has those who follow tasks look at all of them: other processes may have changed some, or have made the first ones of a server.
func (p *Pool) LookAgain() {
	p.followers.wakeAll()
	if p.Shared {
		p.start(func() { _ = p.serveWorking() }) // an error: it is asked for again with the next comparison
	}
}
