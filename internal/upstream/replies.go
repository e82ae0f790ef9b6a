package upstream

import (
	"context"
	"sync"
	"time"
)

// replies are short messages on their way to a backend: answers to pings, refusals, cancellations. Somebody sends them as long as there are some.
type replies struct {
	c *Conn

	mu    sync.Mutex // guards the rest
	queue [][]byte
	sends bool
	over  bool // the connection ends
}

// replyTime bounds how long one reply may take, so that those behind it get their turn.
const replyTime = 10 * time.Second

// send has a message sent soon. It reports false if too many wait.
func (q *replies) send(message []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.over:
		return true // it goes nowhere any more
	case len(q.queue) >= MostReplies:
		return false
	}
	if q.queue = append(q.queue, message); !q.sends {
		q.sends = true
		q.c.running.Go(q.sendAll)
	}
	return true
}

// end has nothing more be sent but what is on its way.
func (q *replies) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue, q.over = nil, true
}

func (q *replies) sendAll() {
	c := q.c
	for message, ok := q.next(); ok; message, ok = q.next() {
		ctx, cancel := withTimeout(c.life, c.clock, replyTime, context.DeadlineExceeded)
		_ = c.link.Send(ctx, Outgoing{Body: message, Revision: c.spokenRevision()}) // a backend that misses one asks again, or not
		cancel()
	}
}

func (q *replies) next() ([]byte, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) == 0 {
		q.queue, q.sends = nil, false
		return nil, false
	}
	message := q.queue[0]
	q.queue[0] = nil
	q.queue = q.queue[1:]
	return message, true
}
