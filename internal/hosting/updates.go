package hosting

import (
	"sync"
	"time"
)

// Updates are the updates of resources of backends on their way to clients: one at a time for each key, and of those that come meanwhile one
// more. The zero value has none. Its methods may be called from any goroutine.
type Updates struct {
	mu sync.Mutex // guards of
	of map[any]bool
}

// updatePause is how long updates of a resource are gathered, as those of the server's own are.
const updatePause = 100 * time.Millisecond

// Push has send, which is called on a goroutine of its own, send an update.
func (u *Updates) Push(key any, send func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, underway := u.of[key]; underway {
		u.of[key] = true
		return
	}
	if u.of == nil {
		u.of = make(map[any]bool)
	}
	u.of[key] = false
	go u.sendUpdate(key, send)
}

func (u *Updates) sendUpdate(key any, send func()) {
	for more := true; more; {
		send()
		time.Sleep(updatePause)
		u.mu.Lock()
		if more = u.of[key]; more {
			u.of[key] = false
		} else {
			delete(u.of, key)
		}
		u.mu.Unlock()
	}
}
