package letter

// lateLetters is how far behind the newest letter of its sender to the same subject one may come: servers keep the order of what comes over one connection, and
// when its sender connects to another server, what it sends there may overtake the last ones.
const lateLetters = 64

// window knows which serials of one boot have come on one subject: the highest, and those of the 64 up to it.
type window struct{ top, seen uint64 }

// take reports whether a serial comes for the first time, and notes it. One that is too old to tell does not.
func (w *window) take(serial uint64) bool {
	if serial > w.top {
		w.seen = w.seen<<min(serial-w.top, lateLetters) | 1
		w.top = serial
		return true
	}
	bit := uint64(1) << min(w.top-serial, lateLetters) // 0 beyond the window
	if bit == 0 || w.seen&bit != 0 {
		return false
	}
	w.seen |= bit
	return true
}

// sender is a boot of a node.
type sender struct{ node, boot string }

// Replays finds letters that come again: somebody who reads what nodes send has the letters, though not the key. Make it with NewReplays. One goroutine may use it at a
// time.
type Replays struct {
	most  int
	boots map[sender]*windows
	turn  uint64
}

// NewReplays returns Replays that knows the letters of so many boots at most.
func NewReplays(most int) *Replays { return &Replays{most: most, boots: make(map[sender]*windows)} }

// windows are those of a boot. What is for one node and what is for all come on subjects of their own, and may overtake each other.
type windows struct {
	own, all window
	used     uint64
}

// First reports whether a letter comes for the first time. Of too many boots, the one that was not heard for longest is forgotten.
func (r *Replays) First(h *Head) bool {
	p := sender{h.Node, h.Boot}
	w := r.boots[p]
	if w == nil {
		if len(r.boots) >= r.most {
			r.forget()
		}
		w = &windows{}
		r.boots[p] = w
	}
	r.turn++
	w.used = r.turn
	if h.Form == To {
		return w.own.take(h.Serial)
	}
	return w.all.take(h.Serial)
}

func (r *Replays) forget() {
	var oldest sender
	least := ^uint64(0)
	for p, w := range r.boots {
		if w.used < least {
			oldest, least = p, w.used
		}
	}
	delete(r.boots, oldest)
}
