package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// call is one tools/call from its POST to its answer.
type call struct {
	d      *driver
	id     string
	tool   string
	params string
	safe   bool
	fails  bool // its result is an error of the tool
	long   bool // may take longer than its round
	rounds int  // the round from which on it must be answered, for what is long
	f      follower
	rng    *rand.Rand
	ended  chan struct{}

	// The content of a right response.
	text  string
	to    int
	token string // raw, "" for no progress

	boot int64 // the start that took it

	cancelAfter time.Duration // 0: never
	final       *message

	// Of a question.
	mu       sync.Mutex // guards question and given
	question string     // raw id, "" before it was asked
	given    bool       // the server has accepted the answer
	when     answerTime
}

func (d *driver) newCall(rng *rand.Rand, tool, arguments string) *call {
	k := &call{d: d, id: d.newID(), tool: tool, safe: true, rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), ended: make(chan struct{})}
	k.params = `{"name":"` + tool + `","arguments":` + arguments + `}`
	k.f = follower{d: d, rng: k.rng, event: k.event, begun: make(chan struct{})}
	return k
}

func (d *driver) newCount(rng *rand.Rand) *call {
	to, delay, long := 1+rng.IntN(15), 0, false
	switch rng.IntN(5) {
	case 0, 1, 2:
		to, delay = 5+rng.IntN(20), 15+rng.IntN(25)
	case 3:
		to, delay, long = 30+rng.IntN(30), 40+rng.IntN(60), true
	}
	k := d.newCall(rng, "count", fmt.Sprintf(`{"to":%d,"delay_ms":%d}`, to, delay))
	k.to, k.text, k.long, k.rounds = to, fmt.Sprintf("counted to %d", to), long, int(d.w.round.Load())+6
	k.f.paced = true
	if rng.IntN(5) > 0 {
		k.token = `"t` + fmt.Sprint(rng.IntN(1000)) + `"`
		k.params = k.params[:len(k.params)-1] + `,"_meta":{"progressToken":` + k.token + `}}`
	}
	return k
}

func (d *driver) newSleep(rng *rand.Rand) *call {
	ms := 240 + rng.IntN(20) // about the grace period
	if rng.IntN(2) == 0 {
		ms = 300 + rng.IntN(900)
	}
	k := d.newCall(rng, "sleep", fmt.Sprintf(`{"ms":%d}`, ms))
	k.text = fmt.Sprintf("slept %d ms", ms)
	return k
}

// newFlood counts further than the log reaches back, so that what a re-run must
// not repeat is no longer there to be read.
func (d *driver) newFlood(rng *rand.Rand) *call {
	to := 1500 + rng.IntN(1500)
	k := d.newCall(rng, "count", fmt.Sprintf(`{"to":%d,"delay_ms":1}`, to))
	k.to, k.text, k.long, k.rounds = to, fmt.Sprintf("counted to %d", to), true, int(d.w.round.Load())+6
	return k
}

// newCancelled is a count that the client takes back.
func (d *driver) newCancelled(rng *rand.Rand) *call {
	k := d.newCount(rng)
	k.cancelAfter = time.Duration(1+rng.IntN(800)) * time.Millisecond
	return k
}

// cancel takes the call back when it is time. A cancel that a kill may have
// swallowed is not repeated: the call is answered then.
func (k *call) cancel() {
	w := k.d.w
	if !w.wait(k.cancelAfter) {
		return
	}
	boot, starting := w.now()
	k.f.cancelled.Store(true)
	err := k.d.c.Notify(w.ctx, "notifications/cancelled", `{"requestId":`+k.id+`}`)
	if err != nil && w.ctx.Err() == nil && !w.mayFail(boot, starting) {
		w.violated(k.f.rec, "%s: cancel of %s: %v", k.d, k, err)
	}
}

// run sends the call and follows it to its answer. It returns false when there
// is nothing of it to resume later.
func (k *call) run() bool {
	w := k.d.w
	k.boot = w.boot.Load()
	if k.cancelAfter > 0 {
		k.d.aside.Go(k.cancel)
	}
	a, err := k.d.c.Call(w.ctx, k.id, "tools/call", k.params)
	switch {
	case w.ctx.Err() != nil:
		return false
	case err != nil:
		if !w.mayFail(k.boot, false) {
			w.violated(nil, "%s: %s failed and nobody was killed: %v", k.d, k, err)
		}
		w.tally.add("lost_before_acceptance")
		return false
	case a.Status >= 500:
		w.tally.add("unavailable")
		if !w.mayFail(k.boot, false) {
			w.violated(nil, "%s: %s got %d %s and nobody was killed", k.d, k, a.Status, a.Body)
		}
		return false
	case a.Status != http.StatusOK:
		w.violated(nil, "%s: %s got %d %s", k.d, k, a.Status, a.Body)
		return false
	case a.Events == nil:
		m := parse(string(a.Body))
		k.final = &m
		if err := k.judge([]client.Event{{Data: string(a.Body)}}); err != nil {
			w.violated(nil, "%s: %s: %v: %s", k.d, k, err, a.Body)
		}
		w.tally.add("answered")
		return false
	}
	if !k.f.run(a.Events, k.boot) {
		w.tally.add("lost_without_an_event")
		return false
	}
	if w.ctx.Err() != nil || k.f.replaced.Load() {
		return false
	}
	if k.f.cancelled.Load() && !k.f.over {
		w.tally.add("cancelled")
		if k.f.rec != nil {
			k.afterCancel(k.f.ids[len(k.f.ids)-1])
		}
		return false
	}
	k.verify()
	w.tally.add("answered")
	if w.boot.Load() > k.boot && k.safe && len(k.f.rec.Connections()) > 1 {
		w.tally.add("safe_calls_over_a_restart")
	}
	return true
}

func (k *call) String() string { return k.tool + " " + k.id }

// event takes the next event of the call's stream.
func (k *call) event(e client.Event) bool {
	if e.Data == "" {
		return false
	}
	m := parse(e.Data)
	switch {
	case m.answers(k.id):
		k.final = &m
		return true
	case m.Method == "elicitation/create":
		k.asked(string(m.ID))
	}
	return false
}

// verify judges the whole of a call's stream.
func (k *call) verify() {
	events, err := k.f.rec.Merge()
	if err == nil {
		err = k.judge(events)
	}
	if err != nil {
		k.d.w.violated(k.f.rec, "%s: %s %s: %v", k.d, k, k.params, err)
	}
}
