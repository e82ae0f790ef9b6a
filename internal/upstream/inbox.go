package upstream

import (
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// inbox is the side of a Conn that its link sees.
type inbox struct{ c *Conn }

func (in inbox) Receive(message []byte, on int64) bool {
	c := in.c
	var room [2]effect
	c.calling.Lock()
	fx := c.calls.receive(room[:0], message, on)
	answered := on != 0 && c.calls.open[on] == nil
	c.calling.Unlock()
	for i := range fx {
		in.perform(&fx[i])
	}
	return answered
}

func (in inbox) perform(e *effect) {
	c := in.c
	switch e.do {
	case finishCall:
		if e.call.response, e.call.failure = e.response, e.failure; e.failure == nil && e.call.q.Answered != nil {
			e.call.q.Answered(e.response)
		}
		close(e.call.done)
	case tellProgress:
		e.call.q.Progress(e.params)
	case tellLate:
		if e.call.q.Late != nil {
			e.call.q.Late()
		}
	case tellEvent:
		in.deliverEvent(e.call, e.event)
	case sendReply:
		in.queueReply(e.reply)
	case tellOddity:
		if c.o.Odd != nil {
			c.o.Odd(e.odd)
		}
	}
}

// deliverEvent gives an event to whom it belongs. A question that nobody takes is refused.
func (in inbox) deliverEvent(one *call, e Event) {
	c := in.c
	switch {
	case one != nil:
		one.q.Event(e)
	case c.o.Event != nil:
		c.o.Event(e)
	case e.ID != nil:
		c.calling.Lock()
		c.calls.takeQuestion(e.ID)
		c.calling.Unlock()
		in.queueReply(codec.AppendError(nil, e.ID, mcp.CodeMethodNotFound, "this client answers no questions", nil))
	}
}

func (in inbox) Passed(on int64, event string) {
	c := in.c
	c.calling.Lock()
	if on == 0 {
		c.calls.standing = event
	}
	one := c.calls.open[on]
	if one != nil {
		one.event = event
	}
	c.calling.Unlock()
	switch {
	case on == 0 && c.o.Passed != nil:
		c.o.Passed(event)
	case one != nil && one.q.Passed != nil:
		one.q.Passed(event)
	}
}

func (in inbox) Ended(f *Failure) {
	c := in.c
	c.calling.Lock()
	ready := c.calls.ready // before, Open says it
	c.calling.Unlock()
	if c.failCalls(f) && ready && c.o.Ended != nil {
		c.o.Ended(f)
	}
}

// queueReply queues a short message. A backend that lets too many of them wait does not read, and its connection ends.
func (in inbox) queueReply(message []byte) {
	if !in.c.replies.send(message) {
		in.Ended(&Failure{Why: ReasonFull, Text: "the backend does not read what it is sent"})
	}
}
