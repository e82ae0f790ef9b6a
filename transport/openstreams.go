package transport

import "sync"

// openStreams is the list of a Handler's open streams, through the links that each Exchange has.
type openStreams struct {
	mu      sync.Mutex // guards the fields below and the links
	first   *Exchange
	open    int
	closing bool
	idle    chan struct{} // closed when the last stream ends; made by refuseStreams
}

// refuseStreams lets no stream be added any more. It returns a channel that is closed when the last
// one has ended, or nil if none is open.
func (o *openStreams) refuseStreams() (idle <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closing = true
	if o.open > 0 && o.idle == nil {
		o.idle = make(chan struct{})
	}
	return o.idle
}

func (o *openStreams) isClosing() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closing
}

func (o *openStreams) listStreams() []*Exchange {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make([]*Exchange, 0, o.open)
	for x := o.first; x != nil; x = x.next {
		out = append(out, x)
	}
	return out
}

// addStream adds x to the list. It returns false if the handler is being closed.
func (o *openStreams) addStream(x *Exchange) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closing {
		return false
	}
	x.next = o.first
	if x.next != nil {
		x.next.prev = x
	}
	o.first = x
	o.open++
	return true
}

func (o *openStreams) removeStream(x *Exchange) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if x.prev != nil {
		x.prev.next = x.next
	} else {
		o.first = x.next
	}
	if x.next != nil {
		x.next.prev = x.prev
	}
	x.prev, x.next = nil, nil
	o.open--
	if o.open == 0 && o.idle != nil {
		close(o.idle)
		o.idle = nil
	}
}
