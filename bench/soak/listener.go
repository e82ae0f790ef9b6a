package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// listener keeps a subscriptions/listen stream open for a stateless client, and opens another
// when it breaks.
type listener struct {
	v       *statelessClient
	rng     *rand.Rand
	serial  int64        // of the stream that is, or was last, open
	open    atomic.Int64 // the serial of the stream that is acknowledged and open, 0 if none is
	boot    atomic.Int64 // the start that has it
	updates atomic.Int64
}

// resource returns the URI of which only this stateless client wants updates.
func (l *listener) resource() string { return fmt.Sprintf("test://template/v%d/data", l.v.n) }

// run listens until the run ends.
func (l *listener) run() {
	w := l.v.w
	for w.ctx.Err() == nil {
		id, before := l.v.newID(), w.boot.Load()
		a, boot := l.v.try(id, "subscriptions/listen", `"notifications":{"resourceSubscriptions":["`+l.resource()+`"]}`)
		if a != nil && a.Events == nil {
			w.violated(nil, "%s: listen got %d %s", l.v, a.Status, a.Body)
			return
		}
		if a != nil {
			err := l.read(a.Events, id, boot)
			a.Close()
			l.open.Store(0)
			switch {
			case w.ctx.Err() != nil, errors.Is(err, errDropped):
			case client.Failed(err) == client.Broken && w.mayBreak(before):
			case errors.Is(err, errToldToLeave) && w.mayEnd(before): // the node ends in order, or others live without it
			default:
				w.violated(nil, "%s: a listener ended and nobody was killed: %v", l.v, err)
			}
		}
		w.wait(time.Duration(1+l.rng.IntN(20)) * time.Millisecond)
	}
}

// errToldToLeave reports that the server has ended a listener because it ends itself, or cannot know of updates.
var errToldToLeave = errors.New("the server has sent the client away")

// read reads the messages of a listener. The client goes away now and then.
func (l *listener) read(events *client.Events, id string, boot int64) error {
	meta := `"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `},`
	for n := 0; ; n++ {
		e, err := events.Next()
		if err != nil {
			return err
		}
		want := `{"jsonrpc":"2.0","method":"notifications/resources/updated",` + meta + `"uri":"` + l.resource() + `"}}`
		if n == 0 {
			want = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged",` + meta + `"notifications":{"resourceSubscriptions":["` + l.resource() + `"]}}}`
		}
		if strings.Contains(e.Data, `"reason":"the server is shutting down"`) || strings.Contains(e.Data, `"reason":"this node has lost its store: listen again"`) {
			return errToldToLeave
		}
		if e.Data != want {
			return fmt.Errorf("message %d is %s, want %s", n, e.Data, want)
		}
		if n > 0 {
			l.updates.Add(1)
			l.v.w.tally.add("stateless_updates")
			if l.rng.IntN(8) == 0 {
				return errDropped
			}
			continue
		}
		l.serial++
		l.v.w.tally.add("stateless_listeners")
		if l.serial > 1 {
			l.v.w.tally.add("stateless_listeners_again")
		}
		if boot != 0 {
			l.boot.Store(boot)
			l.open.Store(l.serial)
		}
	}
}

// touch has the stateless client's resource updated. The stream that was open before and is
// open afterwards has to tell.
func (l *listener) touch() {
	w := l.v.w
	serial, boot, before := l.open.Load(), l.boot.Load(), l.updates.Load()
	if serial == 0 {
		return
	}
	id := l.v.newID()
	a, at := l.v.try(id, "tools/call", `"name":"touch","arguments":{"uri":"`+l.resource()+`"}`)
	if a == nil {
		return
	}
	defer a.Close()
	if !strings.Contains(string(a.Body), `"text":"touched `) {
		w.violated(nil, "%s: touch got %d %s", l.v, a.Status, a.Body)
	}
	told := func() bool { return l.updates.Load() > before || l.open.Load() != serial }
	if at == boot && !w.until(told) && w.ctx.Err() == nil {
		w.violated(nil, "%s: %s was touched and no update came", l.v, l.resource())
	}
}
