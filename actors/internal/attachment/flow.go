package attachment

import "cmp"

// MaxFrame bounds the bytes of an append that is sent to another node as a frame, and those that are on the way to a reader there:
// beyond them the reader reads the log.
const MaxFrame = 256 << 10

// Send is what the reader on another node gets of an append.
type Send uint8

// What it gets.
const (
	Nothing Send = iota // it knows that it must read the log, or will be told
	AsFrame             // the append
	AsTail              // that there is an append, which it reads from the log
)

// Flow is what the writer knows of a reader on another node: how much is on the way to it. The zero value is a reader that has
// everything.
type Flow struct {
	Max    int    // bytes that are on the way at most; MaxFrame if it is 0
	Tail   uint64 // last append that was sent, or would have been
	Behind bool   // the reader must read the log, and does not know

	unread int // bytes of frames on the way
}

// AddAppend takes an append of size bytes that is stored.
func (f *Flow) AddAppend(num uint64, size int) Send {
	f.Tail = num
	switch {
	case f.Behind:
	case f.unread+size <= cmp.Or(f.Max, MaxFrame):
		f.unread += size
		return AsFrame
	case f.unread == 0: // it is too big for a frame
		return AsTail
	default:
		f.Behind = true
	}
	return Nothing
}

// Credit notes that bytes of frames have arrived. tell says that the reader must learn of Tail: it has everything that was on the
// way, and not what came since.
func (f *Flow) Credit(bytes int) (tell bool) {
	f.unread = max(0, f.unread-bytes)
	if f.Behind && f.unread == 0 {
		f.Behind = false
		return true
	}
	return false
}
