package worker

import (
	"context"
	"errors"
	"sync"
	"time"
)

// lookEvery is how often a task that somebody waits for is read again, in case another process has
// changed it.
const lookEvery = 2 * time.Second

// Follow is FollowAll of one task. ErrUnknown: there is no such task, or it is gone by now.
func (f *followers) Follow(ctx context.Context, key Key, each func(Snapshot) (more bool)) error {
	return f.FollowAll(ctx, []Key{key}, nil, each)
}

// FollowAll calls f with each task as it is and after each of its changes, until f returns false or
// ctx ends; and, after something came on again, with all of them as they are. Changes that come
// fast may be seen as one. ErrUnknown: none of the tasks is there, or they are gone by now.
func (f *followers) FollowAll(ctx context.Context, keys []Key, again <-chan struct{}, each func(Snapshot) (more bool)) error {
	me := f.addFollower(keys)
	defer f.removeFollower(me, keys)
	// Many are looked at less often, when no change was heard of.
	every := lookEvery * time.Duration(1+len(keys)/10)
	t := time.NewTimer(every)
	defer t.Stop()
	seen := make(map[Key]uint64, len(keys))
	for _, k := range keys {
		seen[k] = 0
	}
	for {
		dirty := f.takeDirty(me)
		for _, k := range keys { // in the order that the caller has
			if _, there := seen[k]; !there || !dirty[k] {
				continue
			}
			s, err := f.reader.Get(ctx, k)
			switch {
			case errors.Is(err, ErrUnknown):
				delete(seen, k)
			case err == nil && s.Rev != seen[k]:
				if seen[k] = s.Rev; !each(s) {
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
		case <-f.closing.Done():
			return ErrClosing
		}
		f.setDirty(me, seen)
	}
}

// followers are those who follow tasks.
type followers struct {
	reader  *Reader
	closing context.Context // ends with the pool

	mu sync.Mutex // guards of, and what the followers have to look at
	of map[Key]map[*follower]bool
}

// follower is somebody who follows tasks.
type follower struct {
	dirty map[Key]bool  // what may have changed since it looked
	wake  chan struct{} // has one place
}

// addFollower adds one who follows tasks, and has to look at all of them.
func (f *followers) addFollower(keys []Key) *follower {
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

func (f *followers) removeFollower(one *follower, keys []Key) {
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

// wakeFollowers has those who follow a task look at it.
func (f *followers) wakeFollowers(key Key) {
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
