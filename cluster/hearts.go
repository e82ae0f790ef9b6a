package cluster

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/internal/letter"
	"github.com/troupe-run/troupe/internal/store"
)

const (
	// heartEvery is how often a node says that it is there.
	heartEvery = time.Second
	// maxHeard caps the boots whose numbers are known. The one that was silent for longest is forgotten.
	maxHeard = 1024
)

// beat is what a heart says beside its number. Fields are only ever added, at the end.
type beat struct {
	entry    uint64 // the revision of the first entry of this boot: a later boot of the same node has a higher one
	serves   uint64 // digest of the ids of its servers, see Node.Serves
	age      uint64 // milliseconds since the last renewal of its lease was sent
	load     *Load  // nil: its release does not say, or nobody told it, see Mail.Says
	programs uint64 // digest of what the servers are; 0: its release does not say
}

// Load is what a node tells others of itself.
type Load struct {
	Draining bool
	// Calls are those in flight, Streams the event streams that it writes, and Sessions those in its memory.
	Calls, Streams, Sessions int
	Release                  string // at most 64 bytes are sent
}

// The flags of a load.
const (
	flagLoad = 1 << iota // there is one
	flagDraining
)

// maxRelease bounds the release in a heart.
const maxRelease = 64

func (b beat) encode() []byte {
	out := binary.AppendUvarint(binary.AppendUvarint(nil, b.entry), b.serves)
	out = binary.AppendUvarint(out, b.age)
	var l Load
	flags := uint64(0)
	if b.load != nil {
		l, flags = *b.load, flagLoad
	}
	if l.Draining {
		flags |= flagDraining
	}
	for _, field := range []uint64{flags, uint64(max(l.Calls, 0)), uint64(max(l.Streams, 0)), uint64(max(l.Sessions, 0))} {
		out = binary.AppendUvarint(out, field)
	}
	release := l.Release[:min(len(l.Release), maxRelease)]
	out = append(binary.AppendUvarint(out, uint64(len(release))), release...)
	return binary.AppendUvarint(out, b.programs)
}

// readBeat reads what an older or newer release may have said: what is not there is 0.
func readBeat(data []byte) (b beat) {
	var flags, calls, streams, sessions, release uint64
	for _, field := range []*uint64{&b.entry, &b.serves, &b.age, &flags, &calls, &streams, &sessions, &release} {
		var n int
		if *field, n = binary.Uvarint(data); n <= 0 {
			return b
		}
		data = data[n:]
	}
	if release > uint64(len(data)) {
		return b
	}
	if flags&flagLoad != 0 {
		b.load = &Load{flags&flagDraining != 0, clampCount(calls), clampCount(streams), clampCount(sessions), strings.ToValidUTF8(string(data[:release]), "")}
	}
	b.programs, _ = binary.Uvarint(data[release:])
	return b
}

// clampCount is a number of another node, which may say anything.
func clampCount(n uint64) int { return int(min(n, math.MaxInt32)) }

// hearts knows the boots that were heard, and how far.
type hearts struct {
	since time.Time  // when this node began to hear; zero: it has missed nothing
	mu    sync.Mutex // guards heard
	heard map[store.Address]*heard
}

// heard is what is known of a boot.
type heard struct {
	told     uint64    // the highest number of its letters to all
	last     time.Time // when anything numbered came
	heart    time.Time // when its last heart came, or zero
	beat     beat
	over     bool // it was taken for dead, and what it may have told last for missed
	replaced bool // the same, as a later boot was heard: it may have told more since it fell silent
}

// hearLetter notes a numbered letter. gap reports that letters to all before it did not come, or may not have come of an earlier boot that has not
// said goodbye. first says that this is the first heart of its sender. A sender that was not heard before has a gap if it began while this
// node could not hear it: who has just begun has told nothing yet, and to a node that has just begun itself nothing was told.
func (l *hearts) hearLetter(from store.Address, h letter.Head, data []byte, now time.Time) (gap, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.heard[from]
	if e == nil {
		l.makeRoom()
		e = &heard{told: h.Num}
		if !l.since.IsZero() && now.Sub(l.since) > 3*heartEvery {
			e.told = 0
		}
		l.heard[from] = e
	}
	e.last, e.over = now, false
	next := e.told
	if h.Form == letter.All {
		next++
	}
	// A lower number came late, by another way, and is no news.
	gap = h.Num > next
	e.told = max(e.told, h.Num)
	switch h.Form {
	case letter.Heart:
		first = e.heart.IsZero()
		e.heart, e.beat = now, readBeat(data)
		gap = first && l.endEarlierBoots(from, e) || gap
	case letter.Bye:
		delete(l.heard, from)
	}
	return gap, first
}

// endEarlierBoots notes the end of earlier boots of a node, and reports whether one of them had not ended before. The lock is held.
func (l *hearts) endEarlierBoots(from store.Address, by *heard) (any bool) {
	for p, e := range l.heard {
		if p.Node == from.Node && e != by && e.beat.entry < by.beat.entry && !e.replaced && !e.heart.IsZero() {
			e.over, e.replaced, any = true, true, true
		}
	}
	return any
}

// takeSilent returns the boots that were not heard for longer than a time, and have not said goodbye. Their last letters may not have come,
// which nothing that comes later would show. Each is returned once, unless it is heard again.
func (l *hearts) takeSilent(longer time.Duration, now time.Time) (all []store.Address) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p, e := range l.heard {
		if !e.over && !e.heart.IsZero() && now.Sub(e.last) > longer {
			e.over = true
			all = append(all, p)
		}
	}
	return all
}

// makeRoom forgets a boot if there are too many. The lock is held.
func (l *hearts) makeRoom() {
	if len(l.heard) < maxHeard {
		return
	}
	var oldest store.Address
	var when time.Time
	for p, e := range l.heard {
		if when.IsZero() || e.last.Before(when) {
			oldest, when = p, e.last
		}
	}
	delete(l.heard, oldest)
}

// otherNodes lists the boots whose hearts came within the time given, of each node the latest. self is not among them, nor is an earlier boot of it.
func (l *hearts) otherNodes(self string, within time.Duration, now time.Time) []store.Address {
	l.mu.Lock()
	defer l.mu.Unlock()
	latest := make(map[string]store.Address)
	for p, e := range l.heard {
		if e.heart.IsZero() || now.Sub(e.heart) > within || p.Node == self {
			continue
		}
		if q, ok := latest[p.Node]; !ok || l.heard[q].beat.entry < e.beat.entry {
			latest[p.Node] = p
		}
	}
	all := make([]store.Address, 0, len(latest))
	for _, p := range latest {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b store.Address) int { return strings.Compare(a.Node, b.Node) })
	return all
}

// hasHeard reports whether a boot has been heard, and has not said goodbye.
func (l *hearts) hasHeard(p store.Address) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heard[p] != nil
}

// servingOtherwise returns what those of some boots say that serve others than self does, as far as they say.
func (l *hearts) servingOtherwise(self beat, of []store.Address) map[store.Address]beat {
	differ := func(here, there uint64) bool { return here != 0 && there != 0 && here != there }
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[store.Address]beat)
	for _, p := range of {
		if e := l.heard[p]; e != nil && (differ(self.serves, e.beat.serves) || differ(self.programs, e.beat.programs)) {
			all[p] = e.beat
		}
	}
	return all
}

// known is what is known of a boot that was heard.
type known struct {
	ago  time.Duration // since its last heart
	beat beat
}

// heardWithin returns the boots whose hearts came within the time given.
func (l *hearts) heardWithin(within time.Duration, now time.Time) map[store.Address]known {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[store.Address]known, len(l.heard))
	for p, e := range l.heard {
		if ago := now.Sub(e.heart); !e.heart.IsZero() && ago <= within {
			all[p] = known{ago, e.beat}
		}
	}
	return all
}
