package cluster

import (
	"errors"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/troupe-run/troupe/internal/letter"
	"github.com/troupe-run/troupe/internal/store"
)

// maxOutbox caps the letters that wait to be handed to the connection.
const maxOutbox = 32 << 20

// errOutbox reports that too many letters wait: the servers do not take them.
var errOutbox = errors.New("too many letters wait to be sent")

// outbox holds letters until a goroutine hands them to the connection, which may block when the servers do not read.
type outbox struct {
	ready chan struct{} // holds one: there are letters

	mu      sync.Mutex // guards the fields below
	queue   []*nats.Msg
	bytes   int
	told    uint64            // the number of the last letter to all
	sent    uint64            // how many letters and hearts there were
	serials map[string]uint64 // of the last ones, by their subjects
	closed  bool
}

func newOutbox() *outbox {
	return &outbox{ready: make(chan struct{}, 1), serials: make(map[string]uint64)}
}

// queueLetter queues a letter or a reply. A letter to all gets the next number, and a heart that of the last one, in the order in which they are sent. The number of a
// letter that is not sent is used up: so others notice that they missed it. Each subject has serials of its own.
func (o *outbox) queueLetter(m *nats.Msg, form letter.Form) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if form == letter.All {
		o.told++
	}
	switch form {
	case letter.To:
		letter.Number(m.Data, 0, o.nextSerial(m.Subject))
	case letter.All, letter.Heart, letter.Bye:
		letter.Number(m.Data, o.told, o.nextSerial(m.Subject))
	}
	switch {
	case o.closed:
		return store.ErrClosed
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

// nextSerial returns the next serial of a subject. What is known of subjects is bounded: one that is forgotten goes on with a number that is higher than any
// before, as no subject has had more letters than all together. The lock is held.
func (o *outbox) nextSerial(subject string) uint64 {
	last, known := o.serials[subject]
	if !known {
		if len(o.serials) >= maxHeard {
			clear(o.serials)
		}
		last = o.sent
	}
	o.sent++
	o.serials[subject] = last + 1
	return last + 1
}

// skipNumber uses up the number of a letter to all that cannot be sent.
func (o *outbox) skipNumber() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.told++
}

// takeLetters removes all letters.
func (o *outbox) takeLetters() []*nats.Msg {
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
