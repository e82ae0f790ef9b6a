package hosted

import (
	"sync"

	"github.com/troupe-run/troupe/actors"
)

// Watch wakes those who wait for a client's task when the client says that it has changed. The zero value is ready to use.
type Watch struct{ tasks sync.Map } // chan struct{} by watched

type watched struct {
	session actors.SessionKey
	id      string
}

// Changed wakes whoever waits for a task of a session's client.
func (w *Watch) Changed(session actors.SessionKey, params []byte) {
	s, err := read(params)
	if err != nil {
		return
	}
	if c, ok := w.tasks.Load(watched{session, s.id}); ok {
		select {
		case c.(chan struct{}) <- struct{}{}:
		default: // it has been told already
		}
	}
}

// on returns a channel that gets a value when the task has changed, until stop is called.
func (w *Watch) on(session actors.SessionKey, id string) (changed <-chan struct{}, stop func()) {
	key, c := watched{session, id}, make(chan struct{}, 1)
	w.tasks.Store(key, c)
	return c, func() { w.tasks.CompareAndDelete(key, c) }
}
