package cluster

import (
	"hash"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/troupe-run/troupe/internal/letter"
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

// checkMAC reports whether a letter has a valid MAC for the subject that it came on. One whose key is not known yet is given to again once the key ring was
// read; without again there is no second time. With again it returns no sooner than those before it are read: the connection keeps what comes meanwhile,
// and drops what is too much of that.
func (m *Mail) checkMAC(msg *nats.Msg, h *letter.Head, on string, again func(*nats.Msg)) (ok bool) {
	ring := m.node.keyring
	key, known := ring.keyOf(h.Epoch)
	if known {
		key.withMAC(func(mac hash.Hash) { ok = letter.Sealed(msg.Data, mac, on, msg.Reply) })
	}
	switch {
	case again == nil:
	case ok:
		m.waiting.waitUntilRead()
	case !known && h.Epoch > ring.newestEpoch():
		kept, begin := m.waiting.keepLetter(waitingLetter{msg, again}, time.Now())
		if begin {
			m.aside.Go(m.readRing)
		}
		if kept {
			return false
		}
	}
	if !ok {
		m.counts.forged.Add(1)
		m.hits.Rarely(slog.LevelWarn, "messages that no other node has sent are dropped: somebody else may publish to the subjects of the nodes", slog.String("says_from", h.Node))
	}
	return ok
}

// readRing reads the key ring, and then the letters that wait for it.
func (m *Mail) readRing() {
	ring := m.node.keyring
	before := ring.newestEpoch()
	joined, err := ring.readKeys(false)
	if joined && err == nil { // It may have begun before the key was made.
		_, err = ring.readKeys(false)
	}
	if err != nil {
		m.hits.Rarely(slog.LevelWarn, "the key of messages from other nodes cannot be read", slog.Any("error", err))
	}
	defer m.waiting.endReading()
	for _, l := range m.waiting.takeLetters(ring.newestEpoch() > before, time.Now()) {
		l.again(l.msg)
	}
}
