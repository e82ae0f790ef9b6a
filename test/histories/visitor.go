package histories

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Visitor is what the client of a history goes by: its session, which process it asks next, and the answers that it has given. Its
// program goes on whatever happens. Any goroutine may use it; [NewVisitor] makes one.
type Visitor[Process any] struct {
	choose  func(r *rand.Rand) Process
	tooLate <-chan struct{}

	mu      sync.Mutex // guards the rest
	session string
	answers int
	route   *rand.Rand
}

// NewVisitor returns a client of a history, which has lasted too long once over is closed. choose chooses the process of a request by
// route.
func NewVisitor[Process any](choose func(r *rand.Rand) Process, route *rand.Rand, over <-chan struct{}) *Visitor[Process] {
	return &Visitor[Process]{choose: choose, route: route, tooLate: over}
}

// Reach is the process that the client's next request goes to.
func (v *Visitor[Process]) Reach() Process {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.choose(v.route)
}

// Draw has f draw from what chooses the client's processes.
func (v *Visitor[Process]) Draw(f func(r *rand.Rand)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f(v.route)
}

// Session is the id of the client's session, "" before it has one.
func (v *Visitor[Process]) Session() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.session
}

// Begin gives the client a session.
func (v *Visitor[Process]) Begin(session string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.session = session
}

// NextAnswer is the number of an answer that the client has not given before.
func (v *Visitor[Process]) NextAnswer() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.answers++
	return v.answers
}

// Over reports whether the history has lasted too long.
func (v *Visitor[Process]) Over() bool { return Closed(v.tooLate) }

// Pause waits for d. It returns false if the history has lasted too long before.
func (v *Visitor[Process]) Pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-v.tooLate:
		return false
	}
}
