package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/troupe-run/troupe/bench/client"
)

// batch is several calls in one POST, from there to the last of their answers.
type batch struct {
	d       *driver
	members []*call
	f       follower
	boot    int64
	left    map[string]*call // by raw id: not answered yet
}

// newBatch mixes what may run again with what may not. Counts differ in how far
// they go, which is what tells their log messages apart.
func (d *driver) newBatch(rng *rand.Rand) *batch {
	b := &batch{d: d, left: make(map[string]*call)}
	for i := range 1 + rng.IntN(4) {
		var k *call
		switch rng.IntN(4) {
		case 0:
			k = d.newSleep(rng)
		case 1:
			text := fmt.Sprintf("in a batch %d", rng.IntN(1000))
			k = d.newCall(rng, "echo", `{"text":"`+text+`"}`)
			k.text = text
		default:
			to := 5 + 10*i + rng.IntN(10)
			k = d.newCall(rng, "count", fmt.Sprintf(`{"to":%d,"delay_ms":%d}`, to, 5+rng.IntN(25)))
			k.to, k.text, k.token = to, fmt.Sprintf("counted to %d", to), fmt.Sprintf(`"b%d"`, i)
			k.params = k.params[:len(k.params)-1] + `,"_meta":{"progressToken":` + k.token + `}}`
		}
		b.members = append(b.members, k)
		b.left[k.id] = k
	}
	if rng.IntN(3) == 0 { // makes no noise where nobody subscribes, and may not run again
		k := d.newCall(rng, "test_error_handling", `{}`)
		k.safe, k.fails = false, true
		b.members = append(b.members, k)
		b.left[k.id] = k
	}
	b.f = follower{d: d, rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), event: b.event, begun: make(chan struct{})}
	return b
}

func (b *batch) String() string {
	return fmt.Sprintf("batch of %d from %s", len(b.members), b.members[0])
}

// placeBatch sends a batch and follows it.
func (d *driver) placeBatch(b *batch) {
	d.mu.Lock()
	d.batches = append(d.batches, b)
	d.mu.Unlock()
	d.w.tally.add("batches")
	go func() {
		b.run()
		d.mu.Lock()
		defer d.mu.Unlock()
		for i := range d.batches {
			if d.batches[i] == b {
				d.batches = append(d.batches[:i], d.batches[i+1:]...)
				return
			}
		}
	}()
}

func (d *driver) openBatches() []*batch {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]*batch(nil), d.batches...)
}

func (b *batch) run() {
	w := b.d.w
	b.boot = w.boot.Load()
	var messages []string
	for _, k := range b.members {
		k.boot = b.boot
		messages = append(messages, `{"jsonrpc":"2.0","id":`+k.id+`,"method":"tools/call","params":`+k.params+`}`)
	}
	a, err := b.d.c.Batch(w.ctx, "["+strings.Join(messages, ",")+"]")
	switch {
	case w.ctx.Err() != nil:
	case err != nil:
		if !w.mayFail(b.boot, false) {
			w.violated(nil, "%s: %s failed and nobody was killed: %v", b.d, b, err)
		}
		w.tally.add("lost_before_acceptance")
	case a.Status >= 500:
		w.tally.add("unavailable")
		if !w.mayFail(b.boot, false) {
			w.violated(nil, "%s: %s got %d %s and nobody was killed", b.d, b, a.Status, a.Body)
		}
	case a.Status != http.StatusOK:
		w.violated(nil, "%s: %s got %d %s", b.d, b, a.Status, a.Body)
	case a.Events == nil:
		b.array(a.Body)
	case !b.f.run(a.Events, b.boot):
		w.tally.add("lost_without_an_event")
	case w.ctx.Err() == nil:
		b.verify()
		w.tally.add("answered")
		b.d.c.Forget(b.f.rec.Stream)
	}
}

// array judges a batch that was answered at once.
func (b *batch) array(body []byte) {
	var all []json.RawMessage
	var events []client.Event
	err := json.Unmarshal(body, &all)
	for _, m := range all {
		events = append(events, client.Event{Data: string(m)})
	}
	if err == nil {
		err = b.judge(events)
	}
	if err != nil {
		b.d.w.violated(nil, "%s: %s: %v: %s", b.d, b, err, body)
	}
	b.d.w.tally.add("answered")
}

// event takes the next event of the batch's stream.
func (b *batch) event(e client.Event) bool {
	m := parse(e.Data)
	for id, k := range b.left {
		if m.answers(id) {
			if m.Error != nil && m.Error.Code == codeCallLost {
				k.d.w.tally.add("calls_lost_-32010")
			}
			delete(b.left, id)
		}
	}
	return len(b.left) == 0
}

func (b *batch) verify() {
	events, err := b.f.rec.Merge()
	if err == nil {
		err = b.judge(events)
	}
	if err != nil {
		b.d.w.violated(b.f.rec, "%s: %s: %v", b.d, b, err)
	}
}

// judge gives each event to the call it belongs to, and judges each call by its
// own.
func (b *batch) judge(events []client.Event) error {
	of := make(map[*call][]client.Event)
	for _, e := range events {
		k := b.owner(parse(e.Data))
		if k == nil {
			return fmt.Errorf("event %s belongs to no call of the batch: %s", e.ID, e.Data)
		}
		of[k] = append(of[k], e)
	}
	for _, k := range b.members {
		if err := k.judge(of[k]); err != nil {
			return fmt.Errorf("%s %s: %w", k, k.params, err)
		}
	}
	return nil
}

func (b *batch) owner(m message) *call {
	for _, k := range b.members {
		switch {
		case m.answers(k.id),
			m.Method == "notifications/progress" && string(m.Params.Token) == k.token,
			m.Method == "notifications/message" && strings.HasSuffix(m.Params.Data, fmt.Sprintf(" of %d", k.to)):
			return k
		}
	}
	return nil
}
