package kernel

import (
	"log/slog"
	"sync/atomic"
)

// Kind says what an actor stands for: it is an index into the names that [New] got.
type Kind uint8

// Kernel is the actor system of one process. [New] makes one; the zero value is not
// usable. The methods are safe for concurrent use.
type Kernel struct {
	log    *slog.Logger
	kinds  []string
	live   []atomic.Int64 // by kind
	panics atomic.Int64
	named  atomic.Uint64 // actors that were started without a key

	deepest, before atomic.Int64 // most messages that waited in a mailbox, since the last Roll and before it
}

// Live is the number of actors of a kind that have started and not stopped, without
// those at rest.
func (k *Kernel) Live(kind Kind) int64 { return k.live[kind].Load() }

// Kinds calls f with the name of each kind and its number of live actors.
func (k *Kernel) Kinds(f func(kind string, live int64)) {
	for i, kind := range k.kinds {
		f(kind, k.live[i].Load())
	}
}

// Panics is the number of panics that were contained since the start.
func (k *Kernel) Panics() int64 { return k.panics.Load() }

// Deepest is the most messages that waited in one mailbox since the last [Kernel.Roll] but one.
func (k *Kernel) Deepest() int64 { return max(k.deepest.Load(), k.before.Load()) }

// Roll has Deepest forget what was before the last Roll. One goroutine at a time calls it.
func (k *Kernel) Roll() { k.before.Store(k.deepest.Swap(0)) }

// waits notes that a mailbox has n messages.
func (k *Kernel) waits(n int) {
	for most := k.deepest.Load(); int64(n) > most && !k.deepest.CompareAndSwap(most, int64(n)); {
		most = k.deepest.Load()
	}
}

// CountPanic adds one to [Kernel.Panics], for a panic that an owner contained outside its
// actors.
func (k *Kernel) CountPanic() { k.panics.Add(1) }
