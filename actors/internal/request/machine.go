package request

// Phase is where a request stands.
type Phase uint8

// The phases.
const (
	Plain     Phase = iota // nothing has been sent
	Streaming              // the response is a stream, or the grace is over
	Cancelled              // the client cancelled the request; nothing more is sent
	Dropped                // the request was given up or lost its stream; it gets no response from here
	Answered               // the response has left, or the stream has it
	Parked                 // the call has asked for input, and waits for its request to be sent again
	phases
)

// Event is what happens to a request.
type Event uint8

// The events.
const (
	Emit     Event = iota // the handler has something for the client
	Grace                 // the request has run for as long as a plain response may take
	Result                // the handler returned
	Cancel                // the client cancelled
	Lost                  // the stream could not be stored, or has another writer now
	Deadline              // the request has run for as long as any call may
	GiveUp                // the node stops and waits no longer
	Ask                   // the handler needs input: the client must send the request again
	Resume                // the client sent the request again
	events
)

// Action is a set of things to do, in the order of their bits. The call's delivery decides
// what each looks like to the client.
type Action uint8

// The actions.
const (
	Open     Action = 1 << iota // make the response a stream, if the delivery has streams
	Send                        // pass on what the handler emitted
	Answer                      // deliver the response, after which nothing is sent
	StopCall                    // cancel the handler's context
	Withdraw                    // end the delivery: the client cancelled
	Abandon                     // end the delivery: the node stops
	Drop                        // ignore the event
)

// Step decides for all kinds of calls. It is a pure function over two small sets. Only
// stateless calls park, any number of times; after Resume such a call gets a plain response
// or a stream of its own.
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
