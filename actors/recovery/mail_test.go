package recovery

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/internal/sim"
)

// letters says what happens to messages between nodes.
type letters struct {
	Lost int  `json:",omitempty"` // of 1,000 letters
	Slow int  `json:",omitempty"` // of 1,000 letters and replies
	Late span `json:",omitempty"` // by how much, at most
}

// newLetters draws what happens to letters. In most histories all arrive soon.
func newLetters(r *rand.Rand) (l letters) {
	switch pick(r, 60, 15, 15, 10) {
	case 1:
		l.Lost = []int{10, 100, 500}[r.IntN(3)]
	case 2:
		l.Slow, l.Late = []int{10, 100}[r.IntN(2)], span(between(r, 10*time.Millisecond, 8*time.Second))
	case 3:
		l = letters{Lost: 50, Slow: 50, Late: span(between(r, 10*time.Millisecond, 3*time.Second))}
	}
	return l
}

// sure reports whether every letter arrives soon, unless a node is in trouble.
func (l *letters) sure() bool { return l.Lost == 0 && l.Slow == 0 }

// letters returns the fate of letters.
func (w *world) letters() func(kind string) sim.Fate {
	l, r := w.plan.Letters, w.plan.rng("letters")
	var mu sync.Mutex // guards r
	way := func() time.Duration {
		d := between(r, 20*time.Microsecond, 2*time.Millisecond)
		if r.IntN(1000) < l.Slow {
			d += between(r, 0, time.Duration(l.Late))
		}
		return d
	}
	return func(kind string) sim.Fate {
		w.judge.Count("letters " + kind)
		mu.Lock()
		defer mu.Unlock()
		return sim.Fate{There: way(), Back: way(), Lost: r.IntN(1000) < l.Lost}
	}
}

// mail returns the actors' errors, as package cluster does.
type mail struct{ box *sim.Box }

var _ actors.Mail = mail{}

func (m mail) Listen(receive func(*actors.Letter), missed func(actors.Address)) {
	m.box.Listen(func(node, boot, kind string, data []byte, reply func([]byte)) {
		receive(&actors.Letter{From: actors.Address{Node: node, Boot: boot}, Kind: kind, Data: data, Reply: reply})
	}, func(node, boot string) { missed(actors.Address{Node: node, Boot: boot}) })
}

func (m mail) Ask(ctx context.Context, to actors.Address, kind string, data []byte) ([]byte, error) {
	answer, err := m.box.Ask(ctx, to.Node, to.Boot, kind, data)
	switch {
	case errors.Is(err, sim.ErrNobody):
		err = actors.ErrNobody
	case err != nil:
		err = fmt.Errorf("%w: %w", actors.ErrUnavailable, err)
	}
	return answer, err
}

func (m mail) Send(to actors.Address, kind string, data []byte) {
	m.box.Send(to.Node, to.Boot, kind, data)
}

func (m mail) Tell(kind string, data []byte) { m.box.Tell(kind, data) }

func (m mail) Others() (all []actors.Address) {
	m.box.Others(func(node, boot string) { all = append(all, actors.Address{Node: node, Boot: boot}) })
	return all
}

func (m mail) Heard(a actors.Address) bool { return m.box.Heard(a.Node, a.Boot) }

func (m mail) Gone(ctx context.Context, a actors.Address) (bool, error) {
	gone, err := m.box.Gone(ctx, a.Node, a.Boot)
	if err != nil {
		err = fmt.Errorf("%w: %w", actors.ErrUnavailable, err)
	}
	return gone, err
}
