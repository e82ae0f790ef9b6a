package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// driver is one client with its session, which lives across all rounds.
type driver struct {
	w   *world
	n   int
	old bool // speaks 2025-03-26, which has batches and no questions
	c   *client.Client
	rt  connections
	ids atomic.Int64

	mu         sync.Mutex // guards the rest
	open       []*call    // not answered yet
	done       []*call    // answered in this round or one of the last
	standalone *standalone
	batches    []*batch // not answered yet
	hasNever   bool     // one question is never answered

	updates atomic.Int64 // that came for the driver's resource
	wanted  atomic.Int64 // as many at least: each touch is followed by one

	tasked atomic.Bool // has made tasks, of which its standalone stream may tell

	aside sync.WaitGroup // cancels of its calls, and answers to their questions

	tasks sync.WaitGroup // what the current round has started
}

func (d *driver) String() string { return fmt.Sprintf("client %d", d.n) }

// begin opens the driver's session. Every fourth speaks an older revision.
func (d *driver) begin() error {
	if d.old = d.n%4 == 3; d.old {
		return d.c.InitializeAs(d.w.ctx, "2025-03-26", `{}`)
	}
	if err := d.c.Initialize(d.w.ctx, `{"elicitation":{}}`); err != nil {
		return err
	}
	return d.subscribe()
}

// subscribe has the driver told of its resource, on a stream that it opens.
func (d *driver) subscribe() error {
	a, err := d.c.Call(d.w.ctx, d.newID(), "resources/subscribe", `{"uri":"`+d.resource()+`"}`)
	if err != nil {
		return err
	}
	if a.Status != http.StatusOK {
		return fmt.Errorf("%s: subscribe: %d %s", d, a.Status, a.Body)
	}
	return d.listen()
}

// resource returns the URI of which only this driver wants updates.
func (d *driver) resource() string { return fmt.Sprintf("test://template/%d/data", d.n) }

// touch has the driver's resource updated, which its standalone stream has to tell
// afterwards, whatever happens to the process in between.
func (d *driver) touch() {
	before := d.updates.Load()
	boot, starting := d.w.now()
	a, err := d.c.Call(d.w.ctx, d.newID(), "tools/call", `{"name":"touch","arguments":{"uri":"`+d.resource()+`"}}`)
	if err != nil {
		if d.w.ctx.Err() == nil && !d.w.mayFail(boot, starting) {
			d.w.violated(nil, "%s: touch failed and nobody was killed: %v", d, err)
		}
		return
	}
	defer a.Close()
	if a.Status == http.StatusOK {
		d.w.tally.add("resources_touched")
		for w := d.wanted.Load(); w < before+1 && !d.wanted.CompareAndSwap(w, before+1); w = d.wanted.Load() {
		}
	}
}

// newID is the raw id of the next request; every third is a number.
func (d *driver) newID() string {
	n := d.ids.Add(1)
	if n%3 == 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf(`"c%d-%d"`, d.n, n)
}

// load starts what the driver does in the round whose harm comes after a time. All of it has been started when window is over, but that plain
// calls, and short sessions and streams beside them, go on as long as nodes are restarted in turn.
func (d *driver) load(after, window time.Duration) {
	rng := d.w.rng(uint64(d.n+1) << 16)
	within := func() time.Duration { return time.Duration(rng.Int64N(int64(window))) }
	later := func(after time.Duration, f func()) {
		d.tasks.Go(func() {
			if d.w.wait(after) {
				f()
			}
		})
	}
	var plan []*call
	if d.w.visited(ofStreams) {
		for range 2 + rng.IntN(3) {
			plan = append(plan, d.newCount(rng))
		}
		if rng.IntN(4) == 0 {
			plan = append(plan, d.newCancelled(rng))
		}
		if rng.IntN(8) == 0 && d.w.fleet == nil && d.w.harm() != byPause { // while a node stands still, the log forgets what the client has not read
			plan = append(plan, d.newFlood(rng))
		}
		for n := rng.IntN(4); d.old && n < 5; n++ {
			b := d.newBatch(rng)
			later(within(), func() { d.placeBatch(b) })
		}
	}
	if d.w.visited(ofCalls) {
		plan = append(plan, d.newSleep(rng))
	}
	if d.w.visited(ofAsks) && !d.old {
		for range 1 + rng.IntN(2) {
			plan = append(plan, d.newAsk(rng))
		}
	}
	for _, k := range plan {
		later(within(), func() { d.place(k) })
	}
	if d.w.visited(ofUpdates) && !d.old {
		tick := d.newTick(rng)
		later(time.Duration(rng.Int64N(int64(after)/2+int64(150*time.Millisecond))), func() { d.placeTick(tick) })
		for range 1 + rng.IntN(3) {
			later(within(), d.touch)
		}
	}
	end, loop := time.Now().Add(after+300*time.Millisecond), rand.New(rand.NewPCG(rng.Uint64(), 0))
	d.tasks.Go(func() {
		for i := 0; time.Now().Before(end) || d.w.rolling(); i++ {
			switch {
			case i%12 == 11:
				d.visit()
			case i%20 == 19 && d.w.rolling() && d.w.visited(ofStreams):
				d.place(d.newCount(loop))
			default:
				d.echo(i)
			}
			if !d.w.wait(time.Duration(5+loop.IntN(40)) * time.Millisecond) {
				return
			}
		}
	})
}

// visit begins another session, makes a call in it, and ends it.
func (d *driver) visit() {
	boot, starting := d.w.now()
	other := client.New(d.w.p.url(0), d.rt)
	err := other.Initialize(d.w.ctx, `{}`)
	if err == nil {
		err = answeredWith("a short session")(other.Call(d.w.ctx, "1", "tools/call", `{"name":"echo","arguments":{"text":"a short session"}}`))
	}
	if err == nil {
		err = answeredWith("")(other.Delete(d.w.ctx))
	}
	if err != nil && d.w.ctx.Err() == nil && !d.w.mayFail(boot, starting) {
		d.w.violated(nil, "%s: a short session: %v", d, err)
	}
	d.w.tally.add("short_sessions")
}

// echo makes one plain call; it reports whether it was answered.
func (d *driver) echo(i int) bool {
	boot, starting := d.w.now()
	id := d.newID()
	plain := fmt.Sprintf("%d.%d.%d", d.w.round.Load(), d.n, i)
	text, want := plain+` \u00e4\"`, plain+` ä\"`
	a, err := d.c.Call(d.w.ctx, id, "tools/call", `{"name":"echo","arguments":{"text":"`+text+`"}}`)
	if err != nil {
		if d.w.ctx.Err() == nil && !d.w.mayFail(boot, starting) {
			d.w.violated(nil, "%s: a plain call failed and nobody was killed: %v", d, err)
		}
		return false
	}
	defer a.Close()
	if a.Status != http.StatusOK || !strings.HasPrefix(string(a.Body), `{"jsonrpc":"2.0","id":`+id+`,`) || !strings.Contains(string(a.Body), `"text":"`+want+`"`) {
		d.w.violated(nil, "%s: echo %s of %q got %d %s", d, id, want, a.Status, a.Body)
	}
	d.w.tally.add("echoes")
	return true
}

// place begins a call and follows it.
func (d *driver) place(k *call) {
	d.mu.Lock()
	d.open = append(d.open, k)
	d.mu.Unlock()
	d.w.tally.add("calls")
	go func() {
		kept := k.run()
		d.mu.Lock()
		for i := range d.open {
			if d.open[i] == k {
				d.open = append(d.open[:i], d.open[i+1:]...)
				break
			}
		}
		if kept {
			d.done = append(d.done, k)
		}
		d.mu.Unlock()
		close(k.ended)
	}()
}

// unanswered returns the calls that are still open and match.
func (d *driver) unanswered(match func(*call) bool) []*call {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []*call
	for _, k := range d.open {
		if match(k) {
			all = append(all, k)
		}
	}
	return all
}

// answered returns the calls that were answered of late.
func (d *driver) answered() []*call {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]*call(nil), d.done...)
}

// doneKept is how many answered calls a driver goes on resuming.
const doneKept = 24

// forget drops what was answered long ago.
func (d *driver) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.done) > doneKept {
		if d.done[0].f.rec != nil {
			d.c.Forget(d.done[0].f.rec.Stream)
		}
		d.done = d.done[1:]
	}
}
