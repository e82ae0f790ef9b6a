package cluster

import (
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// maxWaitingBytes caps the bytes of letters that wait until the key ring was read.
	maxWaitingBytes = 8 << 20
	// pauseFirst and pauseMost bound the pause after a read of the key ring that found no new key. The longest one is shorter than
	// a key is known before it is used: see keySettling.
	pauseFirst, pauseMost = time.Second, keySettling / 2
)

// waitingLetters keeps letters whose key this node does not know, until it has read the key ring. Anybody who may send can make up the number of a
// key. So one read serves all that came until it ends, each read that finds no new key makes the pause before the next one longer, and
// what comes in a pause is dropped. Letters whose key is known have no part in its room: they wait where they arrive, so that none overtakes another.
type waitingLetters struct {
	mu    sync.Mutex // guards the fields below
	queue []waitingLetter
	bytes int
	busy  chan struct{} // closed when all of queue was read; nil: nothing waits
	read  bool          // the ring was read: queue takes no more
	pause time.Duration
	next  time.Time // when the ring may be read again
}

type waitingLetter struct {
	msg   *nats.Msg
	again func(*nats.Msg) // what to do with it once the ring was read
}

// keepLetter keeps a letter of a key that is not known. begin says that the ring must be read now.
func (u *waitingLetters) keepLetter(l waitingLetter, now time.Time) (kept, begin bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now.Before(u.next) || u.read || u.bytes+len(l.msg.Data) > maxWaitingBytes {
		return false, false
	}
	if begin = u.busy == nil; begin {
		u.busy = make(chan struct{})
	}
	u.queue = append(u.queue, l)
	u.bytes += len(l.msg.Data)
	return true, begin
}

// takeLetters returns what waits, when the ring was read and had a new key or not. The caller calls over when it has read all of that.
func (u *waitingLetters) takeLetters(found bool, now time.Time) []waitingLetter {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.pause = min(max(2*u.pause, pauseFirst), pauseMost); found {
		u.pause = 0
	}
	u.next = now.Add(u.pause)
	all := u.queue
	u.queue, u.bytes, u.read = nil, 0, true
	return all
}

func (u *waitingLetters) endReading() {
	u.mu.Lock()
	defer u.mu.Unlock()
	close(u.busy)
	u.busy, u.read = nil, false
}

// waitUntilRead returns when nothing waits that has come before.
func (u *waitingLetters) waitUntilRead() {
	u.mu.Lock()
	busy := u.busy
	u.mu.Unlock()
	if busy != nil {
		<-busy
	}
}
