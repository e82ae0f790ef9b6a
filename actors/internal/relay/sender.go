package relay

// sender numbers the frames of one exchange, and keeps to the window. The zero value but for id is ready.
type sender struct {
	id     ID
	num    uint64 // of the last frame
	sent   uint64 // weight of all frames
	credit uint64 // the weight that the other side has taken
	queue  []Frame
	queued int // bytes in it
}

// putMessage queues a message. Its data are the sender's.
func (s *sender) putMessage(k Kind, status int, data []byte) {
	s.queue = append(s.queue, Frame{ID: s.id, Kind: k, Status: status, Data: data})
	s.queued += len(data)
}

// nextLetter returns the next letter, if there is one and the window has room for it, and how many queued bytes it has.
func (s *sender) nextLetter() (letter []byte, taken int, ok bool) {
	if len(s.queue) == 0 {
		return nil, 0, false
	}
	head := &s.queue[0]
	f := *head
	f.Data = f.Data[:min(len(f.Data), MaxPart)]
	f.Rest = len(head.Data) - len(f.Data)
	// Cut may be sent whatever is on its way: it takes back the rest.
	if f.Kind != Cut && s.sent-s.credit+f.windowWeight() > Window {
		return nil, 0, false
	}
	s.num++
	f.Num = s.num
	s.sent += f.windowWeight()
	s.queued -= len(f.Data)
	if head.Data = head.Data[len(f.Data):]; f.Rest == 0 {
		s.queue[0] = Frame{}
		s.queue = s.queue[1:]
	}
	return f.Append(make([]byte, 0, around+len(f.Data))), len(f.Data), true
}

// dropQueue forgets what is queued, and returns how many bytes that were.
func (s *sender) dropQueue() (bytes int) {
	bytes = s.queued
	s.queue, s.queued = nil, 0
	return bytes
}

// noteTaken notes how much the other side has taken. What it cannot have taken is no news.
func (s *sender) noteTaken(credit uint64) {
	if credit <= s.sent {
		s.credit = max(s.credit, credit)
	}
}
