package cluster

import (
	"errors"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/troupe-run/troupe/internal/letter"
)

// maxOutbox caps the letters that wait to be handed to the connection.
const maxOutbox = 32 << 20

// errOutbox reports that too many letters wait: the servers do not take them.
var errOutbox = errors.New("too many letters wait to be sent")

// outbox holds letters until a goroutine hands them to the connection, which may block when the servers do not read.
type outbox struct {
	ready chan struct{} // holds one: there are letters

	mu     sync.Mutex // guards the fields below
	queue  []*nats.Msg
	bytes  int
	told   uint64 // the number of the last letter to all
	serial uint64 // of the last letter or heart
	closed bool
}

func newOutbox() *outbox { return &outbox{ready: make(chan struct{}, 1)} }

// put queues a letter or a reply. A letter to all gets the next number, and a heart that of the last one, in the order in which they are sent. The number of a
// letter that is not sent is used up: so others notice that they missed it.
func (o *outbox) put(m *nats.Msg, form letter.Form) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if form == letter.All {
		o.told++
	}
	switch form {
	case letter.To:
		o.serial++
		letter.Number(m.Data, 0, o.serial)
	case letter.All, letter.Heart, letter.Bye:
		o.serial++
		letter.Number(m.Data, o.told, o.serial)
	}
	switch {
	case o.closed:
		return ErrClosed
	case o.bytes+len(m.Data) > maxOutbox:
		return errOutbox
	}
	o.queue = append(o.queue, m)
	o.bytes += len(m.Data)
	select {
	case o.ready <- struct{}{}:
	default:
	}
	return nil
}

// skip uses up the number of a letter to all that cannot be sent.
func (o *outbox) skip() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.told++
}

// take removes all letters.
func (o *outbox) take() []*nats.Msg {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.queue
	o.queue, o.bytes = nil, 0
	return all
}

// close refuses further letters.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
}
