package request

// StepAlone decides for a request that stands for itself: it has no session, its
// stream cannot be resumed, and the end of its connection is its cancellation
// (2026-07-28, basic/transports/streamable-http). It may park any number of times.
//
//	Plain ──Emit, Grace──▶ Streaming ──Result──▶ Answered
//	  │  ▲                    │
//	  │  └──Resume── Parked ◀─┤ Ask
//	  ├─Ask──────────▶        │
//	  ├─Result──▶ Answered    │
//	  └─Cancel──▶ Cancelled ◀─┘ Cancel
func StepAlone(p Phase, e Event) (Phase, Action) {
	switch p {
	case Plain:
		switch e {
		case Emit:
			return Streaming, Headers | Send
		case Grace:
			return Streaming, Headers
		case Result:
			return Answered, Answer
		case Ask:
			return Parked, Answer
		case Cancel, Lost:
			return Cancelled, StopCall
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
		case Ask:
			return Parked, Final
		case Cancel, Lost:
			return Cancelled, StopCall
		case Deadline:
			return Streaming, StopCall
		case GiveUp:
			return Dropped, StopCall | Lose
		}
	case Parked:
		switch e {
		case Resume:
			return Plain, 0
		case Result:
			return Dropped, 0
		case GiveUp:
			return Dropped, StopCall
		}
	}
	return p, Drop
}
