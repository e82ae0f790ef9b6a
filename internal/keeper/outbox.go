package keeper

// An outbox is what a client has for its keeper. The client's mutex guards it.
type outbox struct {
	wire   *wire      // of the connection, nil between two
	frames []byte     // what the keeper is to be told beside lines
	ready  []*Process // that may have something for it
}

// sendControl tells the keeper something, if there is a connection. The caller holds the mutex of the client.
func (q *outbox) sendControl(k kind, v any) {
	frames, err := appendControl(q.frames, k, v)
	if err != nil || q.wire == nil {
		return // what is too long was refused before; what is asked for without a connection is asked for with the next
	}
	q.frames = frames
	q.wire.wakeWriter()
}

// remember has a text of a process for the keeper, and returns the connection that it goes by, nil if there is none. The caller
// holds the mutex of the client, and then tries to write.
func (q *outbox) remember(handle uint64, name string, text []byte) *wire {
	if q.wire != nil {
		q.frames = appendText(q.frames, kindRemember, handle, name, text)
	}
	return q.wire
}

// scheduleSend says that a process may have something for the keeper: now, or when there is more. The caller holds the mutex of the client.
func (q *outbox) scheduleSend(p *Process, now bool) {
	if !q.enqueue(p) {
		return
	}
	if now {
		q.wire.wakeWriter()
	} else {
		q.wire.scheduleWrite()
	}
}

// enqueue has what a process has for the keeper gathered the next time. It reports whether there is a connection for it.
func (q *outbox) enqueue(p *Process) bool {
	if !p.attached || q.wire == nil {
		return false
	}
	if !p.queued {
		p.queued = true
		q.ready = append(q.ready, p)
	}
	return true
}
