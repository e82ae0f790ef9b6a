package sim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/troupe-run/troupe/internal/letter"
	"github.com/troupe-run/troupe/internal/store"
)

// Office carries messages between processes. Make one with NewOffice.
type Office struct {
	mu    sync.Mutex // guards the rest, and all of the boxes
	boxes map[store.Address]*Box
	fate  func(kind string) Fate
}

// NewOffice returns an office without boxes. It calls fate once for each message: There and Back are how long the message and
// its reply travel, a message that is Lost does not arrive, and the reply to one that is Stray does not. A nil fate delivers all at once.
func NewOffice(fate func(kind string) Fate) *Office {
	if fate == nil {
		fate = func(string) Fate { return Fate{} }
	}
	return &Office{boxes: make(map[store.Address]*Box), fate: fate}
}

// Box is where one boot of a node takes its messages, and from where it sends some. Its messages from one sender come in order.
type Box struct {
	office  *Office
	self    store.Address
	link    *Link // has the boot's entry; nil: the entry is there until Kill
	cut     bool  // no message passes
	dead    bool
	receive func(*store.Letter)
	missed  func(store.Address)
	lost    map[*Box]bool // messages to all from these did not arrive
	never   map[*Box]bool // these were dead when it began
	queue   []func()
	running bool
	held    []func() // what the process would send that stands still
	holding bool
}

var _ store.Mail = (*Box)(nil)

// Join returns the box of a boot, which takes messages once Listen is called.
func (o *Office) Join(node, boot string) *Box { return o.Enter(node, boot, nil) }

// Enter is Join of a boot whose entry is that of a link. While the link's process stands still, messages wait on both sides.
func (o *Office) Enter(node, boot string, link *Link) *Box {
	b := &Box{office: o, self: store.Address{Node: node, Boot: boot}, link: link, lost: make(map[*Box]bool), never: make(map[*Box]bool)}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, x := range o.boxes {
		if x.dead {
			b.never[x] = true
		}
	}
	o.boxes[b.self] = b
	return b
}

// Listen begins to take messages.
func (b *Box) Listen(receive func(*store.Letter), missed func(store.Address)) {
	b.office.mu.Lock()
	defer b.office.mu.Unlock()
	b.receive, b.missed = receive, missed
}

// Kill ends the box: its process is dead, and so is its entry, unless that has a link. Whoever sends it something learns so at
// once.
func (b *Box) Kill() {
	b.office.mu.Lock()
	defer b.office.mu.Unlock()
	b.dead = true
}

// Cut separates the box from all others, or joins it to them again.
func (b *Box) Cut(cut bool) {
	b.office.mu.Lock()
	defer b.office.mu.Unlock()
	b.cut = cut
}

// post has the box run f after all that came before. The office is locked.
func (b *Box) post(f func()) {
	b.queue = append(b.queue, f)
	if !b.running {
		b.running = true
		go b.run()
	}
}

func (b *Box) run() {
	for {
		b.office.mu.Lock()
		if len(b.queue) == 0 || b.dead {
			b.running, b.queue = false, nil
			b.office.mu.Unlock()
			return
		}
		f := b.queue[0]
		b.queue = b.queue[1:]
		b.office.mu.Unlock()
		f()
	}
}

// runs waits until the process does not stand still. It returns false if ctx ends first.
func (b *Box) runs(ctx context.Context) bool { return b.link == nil || b.link.runs(ctx) }

// hold keeps what a process would send that stands still. It reports false if it runs.
func (b *Box) hold(send func()) bool {
	b.office.mu.Lock()
	defer b.office.mu.Unlock()
	if !b.holding && (b.link == nil || b.link.stands() == nil) {
		return false
	}
	b.held = append(b.held, send)
	if !b.holding {
		b.holding = true
		go b.sendHeld()
	}
	return true
}

func (b *Box) sendHeld() {
	b.runs(context.Background())
	for {
		b.office.mu.Lock()
		if len(b.held) == 0 {
			b.holding = false
			b.office.mu.Unlock()
			return
		}
		send := b.held[0]
		b.held = b.held[1:]
		b.office.mu.Unlock()
		send()
	}
}

// carry brings a message to a box. replied gets the reply; nil if none is wanted. It reports whether somebody takes it.
func (b *Box) carry(to *Box, kind string, data []byte, replied func([]byte)) (there bool) {
	o := b.office
	fate := o.fate(kind)
	data = append([]byte(nil), data...)
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case to != nil && (b.dead || b.cut || to.cut || fate.Lost || len(data) > letter.MaxData):
		to.lost[b] = true
		return true
	case to == nil || to.dead || to.receive == nil:
		return b.cut
	}
	missed := to.lost[b] && replied == nil
	if missed {
		delete(to.lost, b)
	}
	to.post(func() {
		time.Sleep(fate.There)
		if to.runs(context.Background()); to.ended() {
			return
		}
		if missed {
			to.missed(b.self)
		}
		var reply func([]byte)
		if replied != nil {
			reply = func(answer []byte) {
				if len(answer) > letter.MaxData { // what comes instead says nothing
					answer = nil
				}
				answer = append([]byte(nil), answer...)
				send := func() {
					o.mu.Lock()
					defer o.mu.Unlock()
					if !b.dead && !b.cut && !to.cut && !to.dead && !fate.Stray {
						go func() { time.Sleep(fate.Back); replied(answer) }()
					}
				}
				to.send(send)
			}
		}
		to.receive(&store.Letter{From: b.self, Kind: kind, Data: data, Reply: reply})
	})
	return true
}

func (b *Box) ended() bool {
	b.office.mu.Lock()
	defer b.office.mu.Unlock()
	return b.dead
}

func (o *Office) find(a store.Address) *Box {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.boxes[a]
}

// Ask sends a message and waits for the reply: ErrNobody if nobody takes it, ErrTooBig, and ErrUnavailable if none came within 5 s. A
// reply that is too big comes without data.
func (b *Box) Ask(ctx context.Context, to store.Address, kind string, data []byte) ([]byte, error) {
	if len(data) > letter.MaxData {
		return nil, fmt.Errorf("%w: %s, %d bytes", store.ErrTooBig, kind, len(data))
	}
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	if !b.runs(ctx) {
		return nil, store.ErrUnavailable
	}
	got := make(chan []byte, 1)
	if !b.carry(b.office.find(to), kind, data, func(answer []byte) { got <- answer }) {
		return nil, store.ErrNobody
	}
	select {
	case answer := <-got:
		if b.runs(ctx) {
			return answer, nil
		}
	case <-ctx.Done():
	}
	return nil, store.ErrUnavailable
}

// Send sends a message. One that is too big is lost.
func (b *Box) Send(to store.Address, kind string, data []byte) {
	box := b.office.find(to)
	b.send(func() { b.carry(box, kind, data, nil) })
}

// Tell sends a message to all others. One that is too big is lost.
func (b *Box) Tell(kind string, data []byte) {
	b.send(func() {
		for _, to := range b.others() {
			b.carry(to, kind, data, nil)
		}
	})
}

// send sends now, or when the process goes on.
func (b *Box) send(f func()) {
	if !b.hold(f) {
		f()
	}
}

func (b *Box) others() (all []*Box) {
	b.office.mu.Lock()
	defer b.office.mu.Unlock()
	for _, x := range b.office.boxes {
		if x != b && !x.dead {
			all = append(all, x)
		}
	}
	return all
}

// Others are the other boxes that are not dead.
func (b *Box) Others() (all []store.Address) {
	for _, x := range b.others() {
		all = append(all, x.self)
	}
	return all
}

// Heard reports whether there was such a boot since the box began.
func (b *Box) Heard(a store.Address) bool {
	b.office.mu.Lock()
	defer b.office.mu.Unlock()
	x := b.office.boxes[a]
	return x != nil && !b.never[x]
}

// Steady reports whether the box's process knows of others, as it does without a link unless it is cut off.
func (b *Box) Steady() bool {
	if b.link != nil {
		return b.link.knows()
	}
	b.office.mu.Lock()
	defer b.office.mu.Unlock()
	return !b.cut && !b.dead
}

// Gone reports whether a boot has no entry any more; see Link.Gone. Of boxes without a link, the dead have none, and one that
// is cut off cannot tell.
func (b *Box) Gone(ctx context.Context, a store.Address) (bool, error) {
	x := b.office.find(a)
	if b.link != nil && x != nil && x.link != nil {
		return b.link.Gone(ctx, x.link)
	}
	b.office.mu.Lock()
	defer b.office.mu.Unlock()
	if b.cut || b.dead || ctx.Err() != nil {
		return false, store.ErrUnavailable
	}
	return x == nil || x.dead, nil
}
