package request

// Phase is where a request stands.
type Phase uint8

// The phases.
const (
	Plain     Phase = iota // nothing has been sent
	Streaming              // the answer is a stream, or the grace is over
	Cancelled              // the client took it back; nothing more is sent
	Dropped                // it was given up or lost its stream; nobody hears it
	Answered               // the answer has left, or is in the stream's hands
	Parked                 // it has asked for input, and waits for a request that brings it
	phases
)

// Event is what happens to a request.
type Event uint8

// The events.
const (
	Emit     Event = iota // the handler has something for the client
	Grace                 // it has run for as long as a plain answer may wait
	Result                // it returned
	Cancel                // the client cancelled
	Lost                  // its stream could not be stored, or is another's now
	Deadline              // it has run for as long as any call may
	GiveUp                // the node stops and waits no longer
	Ask                   // the handler needs input, and the client is to call again
	Resume                // it has
	events
)

// Action is a set of things to do, in the order of their bits. What each looks like to
// the client is up to the way in which the call is delivered.
type Action uint8

// The actions.
const (
	Open     Action = 1 << iota // make the answer a stream, where the call's delivery has such
	Send                        // pass on what was emitted
	Answer                      // deliver the response, after which nothing is sent
	StopCall                    // cancel the handler's context
	Withdraw                    // end the delivery: the client took the request back
	Abandon                     // end the delivery: the node stops
	Drop                        // what came is for nobody
)

// Step decides, for calls of all kinds. It is a pure function over two small sets. Only
// calls of stateless requests park, any number of times; a call that is sent again after
// Resume is answered plainly or by a stream of its own.
//
//	Plain ──Emit, Grace──▶ Streaming ──Result──▶ Answered
//	  │  ▲                    │  └─────Lost────▶ Dropped
//	  │  └──Resume── Parked ◀─┤ Ask
//	  ├─Ask─────────▶         └────Cancel──────▶ Cancelled
//	  ├─Result──▶ Answered
//	  └─Cancel──▶ Cancelled
func Step(p Phase, e Event) (Phase, Action) {
	switch p {
	case Plain:
		switch e {
		case Emit:
			return Streaming, Open | Send
		case Grace:
			return Streaming, Open
		case Result:
			return Answered, Answer
		case Ask:
			return Parked, Answer
		case Cancel:
			return Cancelled, StopCall | Withdraw
		case Deadline:
			return Plain, StopCall
		case GiveUp:
			return Dropped, StopCall | Abandon
		}
	case Streaming:
		switch e {
		case Emit:
			return Streaming, Send
		case Result:
			return Answered, Answer
		case Ask:
			return Parked, Answer
		case Cancel:
			return Cancelled, StopCall | Withdraw
		case Lost:
			return Dropped, StopCall
		case Deadline:
			return Streaming, StopCall
		case GiveUp:
			return Dropped, StopCall | Abandon
		}
	case Parked:
		switch e {
		case Resume:
			return Plain, 0
		case Result:
			return Dropped, 0
		case GiveUp:
			return Dropped, StopCall | Abandon
		}
	}
	return p, Drop
}
