package attachment_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/troupe-run/troupe/actors/internal/attachment"
	"github.com/troupe-run/troupe/actors/internal/stream"
)

// client is the client's side of a connection, and what it has got.
type client struct {
	events []string // without those that only prime
	primed []string // ids of those
	over   bool
	gone   []func()
}

var _ attachment.Conn = (*client)(nil)

func (c *client) Open() bool { return !c.over }
func (c *client) Event(id string, _ int, data []byte) {
	switch {
	case c.over:
	case len(data) > 0:
		c.events = append(c.events, string(data))
	default:
		c.primed = append(c.primed, id)
	}
}
func (*client) Comment()        {}
func (*client) Flush()          {}
func (c *client) Finish()       { c.Cut() }
func (c *client) Gone(f func()) { c.gone = append(c.gone, f) }
func (c *client) Cut() {
	c.over = true
	for _, f := range c.gone {
		f()
	}
	c.gone = nil
}

// said returns the n-th message of a call that counts.
func said(n int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","method":"n","params":{"n":%d}}`, n) }

// TestEachAppendOnce has a connection read a log while its writer adds to it. The log may
// already hold appends that the writer has no acknowledgement for; in any order of the
// two, each event comes once and in order.
func TestEachAppendOnce(t *testing.T) {
	const all = 12
	var among attachment.Set[string]
	var held atomic.Int64
	for seed := range uint64(2000) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		c := &client{}
		a := attachment.New(attachment.Config[string]{Among: &among, Held: &held, Conn: c, Stream: "s", Primes: true}, 1, 0, false)
		if !a.Open(false) {
			t.Fatal("not open")
		}
		entries := func(n int) []stream.Entry { return []stream.Entry{{Kind: stream.Message, Data: []byte(said(n))}} }
		// acked counts the appends that the writer has handed over, logged those that are stored.
		acked, logged, live := 0, rnd.IntN(3), false
		ack := func() {
			if acked == logged {
				logged++
			}
			acked++
			a.Frame(attachment.Frame{From: uint64(acked), Append: stream.Append{Num: uint64(acked), Entries: entries(acked), Last: acked == all}})
		}
		for acked < all {
			switch rnd.IntN(4) {
			case 0:
				logged = min(logged+1, all)
			case 1:
				ack()
			case 2:
				for n := int(a.Position()); !live && n <= logged; n++ {
					a.WriteReplayed(stream.Append{Num: uint64(n), Entries: entries(n), Last: n == all})
				}
			case 3:
				// The connection is live once it has everything that the writer had
				// when the connection asked.
				live = live || int(a.Position()) > acked && !a.CatchUp()
			}
		}
		if !live { // the replay goes on to the end
			for n := int(a.Position()); n <= all; n++ {
				a.WriteReplayed(stream.Append{Num: uint64(n), Entries: entries(n), Last: n == all})
			}
		}
		var want []string
		for n := range all {
			want = append(want, said(n+1))
		}
		if got := c.events; !slices.Equal(got, want) || !c.over {
			t.Fatalf("seed %d: got %q, over %v", seed, got, c.over)
		}
	}
	if among.Len() != 0 || held.Load() != 0 {
		t.Errorf("%d connections are open, %d are counted", among.Len(), held.Load())
	}
}

// TestRelease sends clients away that have an event id to come back with, and no others.
func TestRelease(t *testing.T) {
	for name, tt := range map[string]struct {
		primes, event, over bool
	}{
		"knows polling":                   {primes: true, over: true},
		"knows polling, and has an event": {primes: true, event: true, over: true},
		"has an event of this connection": {event: true, over: true},
		"has no event":                    {},
	} {
		var among attachment.Set[string]
		var held atomic.Int64
		c := &client{}
		a := attachment.New(attachment.Config[string]{Among: &among, Held: &held, Conn: c, Stream: "s", Primes: tt.primes}, 1, 0, true)
		a.Open(false)
		if tt.event {
			a.Frame(attachment.Frame{From: 1, Append: stream.Append{Num: 1, Entries: []stream.Entry{{Kind: stream.Message, Data: []byte(said(1))}}}})
		}
		if a.Release(); c.over != tt.over || a.IsOver() != tt.over {
			t.Errorf("a client that %s: its connection is over: %t, want %t", name, c.over, tt.over)
		}
		if tt.over && (among.Len() != 0 || held.Load() != 0) {
			t.Errorf("a client that %s: %d connections are open, and %d counted", name, among.Len(), held.Load())
		}
	}
}

// TestResumedConnectionsArePrimed has a resumed connection that was left nothing to carry end, in order or not: its client knows where to go on
// if it remembers only what its newest connection has carried.
func TestResumedConnectionsArePrimed(t *testing.T) {
	t.Parallel()
	after := stream.Position{Stream: "s", Append: 3}
	id := string(after.AppendTo(nil))
	for name, tt := range map[string]struct {
		primes, event bool
		end           func(a *attachment.Attachment[string])
		primed        []string
	}{
		"caught up":                     {primes: true, end: func(a *attachment.Attachment[string]) { a.CatchUp(); a.Cut() }, primed: []string{id}},
		"caught up, before revision":    {end: func(a *attachment.Attachment[string]) { a.CatchUp(); a.Cut() }},
		"caught up with an event":       {primes: true, event: true, end: func(a *attachment.Attachment[string]) { a.CatchUp(); a.Cut() }},
		"sent away before":              {primes: true, end: (*attachment.Attachment[string]).Reconnect, primed: []string{id}},
		"sent away after an event":      {primes: true, event: true, end: (*attachment.Attachment[string]).Reconnect},
		"to come back soon":             {primes: true, end: (*attachment.Attachment[string]).Poll, primed: []string{id}},
		"to come back soon, with event": {primes: true, event: true, end: (*attachment.Attachment[string]).Poll, primed: []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var among attachment.Set[string]
			var held atomic.Int64
			c := &client{}
			a := attachment.New(attachment.Config[string]{Among: &among, Held: &held, Conn: c, Stream: "s", After: after, Primes: tt.primes}, 4, 0, false)
			a.Open(false)
			if tt.event {
				a.WriteReplayed(stream.Append{Num: 4, Entries: []stream.Entry{{Kind: stream.Message, Data: []byte(said(4))}}})
			}
			if tt.end(a); !slices.Equal(c.primed, tt.primed) || !c.over {
				t.Errorf("it is primed with %q, want %q; it is over: %t", c.primed, tt.primed, c.over)
			}
		})
	}
}
