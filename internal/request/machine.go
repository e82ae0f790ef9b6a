package request

// Phase is where a request stands.
type Phase uint8

// The phases.
const (
	Plain     Phase = iota // nothing has been sent
	Streaming              // the answer is an event stream
	Cancelled              // the client took it back; nothing more is sent
	Dropped                // its stream was lost; nobody hears it
	Answered               // the answer has left, or is in the stream's hands
	Parked                 // it has asked for input, and waits for a request that brings it
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
)

// Action is a set of things to do, in the order of their bits.
type Action uint16

// The actions.
const (
	Upgrade  Action = 1 << iota // store the call record, then send headers
	Send                        // push what was emitted to the stream
	Answer                      // send the plain answer
	Final                       // push the answer, which ends the stream
	StopCall                    // cancel the handler's context
	EmptyEnd                    // headers of a stream, no event, the end
	MarkEnd                     // push the end mark: no answer comes
	Refuse                      // answer 503: it may be sent again
	HandOver                    // leave the stream to the next node, or say that the call is lost
	Drop                        // what came is for nobody
	Headers                     // send the headers of a stream; nothing is stored
	Lose                        // say that the call is lost, which ends the stream
)

// Step decides. It is a pure function over two small sets.
//
//	Plain ──Emit, Grace──▶ Streaming ──Result──▶ Answered
//	  │                       │  └──Lost──▶ Dropped
//	  └─Result──▶ Answered    └──Cancel──▶ Cancelled
//	  └─Cancel──▶ Cancelled
func Step(p Phase, e Event) (Phase, Action) {
	switch p {
	case Plain:
		switch e {
		case Emit:
			return Streaming, Upgrade | Send
		case Grace:
			return Streaming, Upgrade
		case Result:
			return Answered, Answer
		case Cancel:
			return Cancelled, StopCall | EmptyEnd
		case Deadline:
			return Plain, StopCall
		case GiveUp:
			return Dropped, StopCall | Refuse
		}
	case Streaming:
		switch e {
		case Emit:
			return Streaming, Send
		case Result:
			return Answered, Final
		case Cancel:
			return Cancelled, StopCall | MarkEnd
		case Lost:
			return Dropped, StopCall
		case Deadline:
			return Streaming, StopCall
		case GiveUp:
			return Dropped, HandOver | StopCall
		}
	}
	return p, Drop
}
