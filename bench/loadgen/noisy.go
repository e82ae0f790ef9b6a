package loadgen

import (
	"context"
	"fmt"
	"time"
)

const (
	// noiseClients is how many operations of the noisy client are under way at most.
	noiseClients = 256
	// noiseTime is how long each of them may take at the rate of the noise, with fewer clients than
	// that.
	noiseTime = 50 * time.Millisecond
)

// runNoisy measures a quiet client, whose operations begin at a rate, beside one of another address
// that asks for far more than its share.
func runNoisy(ctx context.Context, o *Options, l *ledger) error {
	loud := *o
	loud.Rate, loud.Clients, loud.From, loud.PIDs, loud.Progress = o.Noise, min(noiseClients, max(o.Clients, int(o.Noise*noiseTime.Seconds()))), o.NoiseFrom, nil, nil
	n := &noise{l: newLedger(&loud), others: l}
	n.r = newLoop(&loud, &echoing, n.l)
	return runBeside(ctx, o, l, n)
}

// noise is a client that asks for far more than its share, whatever it gets.
type noise struct {
	r      *loop
	l      *ledger
	others *ledger
}

func (n *noise) prepare(ctx context.Context) error {
	if err := n.r.beginClients(ctx); err != nil {
		return fmt.Errorf("the noisy client at %s: %w", n.r.o.From, err)
	}
	return nil
}

func (n *noise) disturb(ctx context.Context, ready func()) error {
	ready()
	return n.r.runOnce(ctx)
}

// addResult says what the client got. Refusals are what it has to expect, and wrong answers are
// not.
func (n *noise) addResult(b *Beside) {
	p := n.l.report
	b.Served, b.Offered, b.Refused = p.PerSecond, n.r.o.Rate, p.Errors
	if wrong := "wrong answer"; p.Errors[wrong] > 0 {
		n.others.addError(&Failure{"wrong answer to the noise", p.Examples[wrong]})
	}
}

func (n *noise) end(ctx context.Context) {
	n.r.clients.endSessions(ctx)
	n.r.clients.closeConnections()
}
