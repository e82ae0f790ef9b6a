package quota

import (
	"context"
	"sync/atomic"
	"time"
)

// paceLeast is the part of a pace's amount that each client may take of it whatever others took: one in so many.
const paceLeast = 32

// Pace spaces out something that costs bytes which come back by themselves after a time, such as what the store has just written and
// keeps in memory for a while. Up to an amount nobody waits. Beyond it those who took much of it go on one after the other, by turns
// of their keys, as fast as the amount comes back; who took little goes on as before. Make it with NewPace. The methods are safe for
// concurrent use.
type Pace[K comparable] struct {
	amount int64
	life   time.Duration
	all    Usage
	turns  *Turns[K]
	wait   atomic.Int64 // calls of TakeInTurn
}

// NewPace returns a Pace of an amount that comes back after life. With an amount of 0 nobody waits.
func NewPace[K comparable](amount int64, life time.Duration) *Pace[K] {
	return &Pace[K]{amount: amount, life: life, turns: NewTurns[K](1)}
}

// Take takes n bytes for a client whose own usage is given, unless the client must wait; then it takes nothing. It allocates nothing.
func (p *Pace[K]) Take(now time.Time, own *Usage, n int64) bool {
	if p.amount > 0 && p.all.Amount(now)+n > p.amount && own.Amount(now)+n > p.amount/paceLeast {
		return false
	}
	p.countTaken(now, own, n)
	return true
}

// TakeInTurn waits for k's turn, takes n bytes, and waits for as long as so many need to come back. It reports whether ctx was still
// wanted by then: otherwise the bytes are taken all the same.
func (p *Pace[K]) TakeInTurn(ctx context.Context, k K, own *Usage, n int64) bool {
	p.wait.Add(1)
	defer p.wait.Add(-1)
	turn := p.turns.Take(ctx, k)
	if turn {
		defer p.turns.Leave()
	}
	p.countTaken(time.Now(), own, n)
	if !turn {
		return false
	}
	t := time.NewTimer(time.Duration(float64(n) / float64(p.amount) * float64(p.life)))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Taken is about how much of the amount has not come back yet.
func (p *Pace[K]) Taken(now time.Time) int64 { return p.all.Amount(now) }

// Waiting is how many wait for their turn, or in it.
func (p *Pace[K]) Waiting() int { return int(p.wait.Load()) }

func (p *Pace[K]) countTaken(now time.Time, own *Usage, n int64) {
	p.all.Add(now, n, p.life)
	own.Add(now, n, p.life)
}
