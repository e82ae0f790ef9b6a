package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// answerTime is when a question is answered.
type answerTime int

const (
	atOnce    answerTime = iota
	soon                 // within a second, be the server up or not
	afterKill            // only by the next start
	inRounds             // some rounds later
	early                // by the next start, before the stream is resumed
	never
)

// answered in time means within this much of the answer's acceptance.
const answerTakes = 15 * time.Second

// newAsk makes a question. The first of a driver is never answered.
func (d *driver) newAsk(rng *rand.Rand) *call {
	k := d.newCall(rng, "ask", fmt.Sprintf(`{"question":"q%d"}`, rng.IntN(1000)))
	k.text = fmt.Sprintf("answer %s %d", d, rng.Int64())
	k.when = answerTime(rng.IntN(int(early)))
	if d.w.o.early && rng.IntN(3) == 0 {
		k.when = early
		k.f.hold = k.awaitGiven
	}
	k.rounds = int(d.w.round.Load()) + 1
	if k.when == inRounds {
		k.rounds += rng.IntN(3)
	}
	if d.w.round.Load() == 0 && len(d.unanswered(func(o *call) bool { return o.when == never })) == 0 && !d.hasNever {
		k.when, d.hasNever = never, true
	}
	k.long = k.when >= afterKill
	return k
}

// asked gets the id of the question when it comes for the first time.
func (k *call) asked(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.question != "" {
		return // judge finds it
	}
	k.question = id
	boot, delay := k.d.w.boot.Load(), time.Duration(k.rng.IntN(1000))*time.Millisecond
	if k.when != never {
		k.d.aside.Go(func() { k.answer(boot, delay) })
	}
}

// openQuestion returns the id of the call's question while it has no answer.
func (k *call) openQuestion() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.given || k.question == "" || k.when < inRounds {
		return ""
	}
	return k.question
}

// answer answers when it is time, until the server has accepted it. It answers
// only while the question's stream is connected to the server that runs now.
func (k *call) answer(boot int64, delay time.Duration) {
	w := k.d.w
	late := func() bool { return w.round.Load() >= int64(k.rounds) }
	switch k.when {
	case soon:
		w.wait(delay)
	case afterKill, early:
		for w.boot.Load() == boot && !late() && w.wait(time.Millisecond) {
		}
	case inRounds:
		for !late() && w.wait(5*time.Millisecond) {
		}
	}
	for w.ctx.Err() == nil {
		now := k.f.attached.Load()
		if up := w.up.Load(); k.when == early && up > boot {
			now = up
		}
		if !w.connected(now) {
			w.wait(time.Millisecond)
			continue
		}
		a, err := k.d.c.Answer(w.ctx, k.question, `{"action":"accept","content":{"answer":"`+k.text+`"}}`)
		switch {
		case err != nil && w.ctx.Err() == nil && !w.mayFail(now, false) && !w.mayBreak(now):
			w.violated(k.f.rec, "%s: answer to %s failed and nobody was killed: %v", k.d, k, err)
			return
		case err == nil && a.Status != http.StatusAccepted:
			a.Close()
			w.violated(k.f.rec, "%s: answer to %s got %d %s", k.d, k, a.Status, a.Body)
			return
		case err == nil && w.connected(now):
			k.accepted()
			return
		}
		w.tally.add("answers_again")
	}
}

// awaitGiven holds a resume back until the question has been answered.
func (k *call) awaitGiven() {
	k.d.w.until(func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.question == "" || k.given
	})
}

// accepted waits for the call's answer, which has to come now.
func (k *call) accepted() {
	w := k.d.w
	w.tally.add("answers_given")
	k.mu.Lock()
	k.given = true
	k.mu.Unlock()
	patient := answerTakes
	if w.fleet != nil || w.harm() == byPause { // the connection may be to a node that stands still
		patient += 20 * time.Second
	}
	t := time.NewTimer(patient)
	defer t.Stop()
	select {
	case <-k.ended:
	case <-w.ctx.Done():
	case <-t.C:
		w.violated(k.f.rec, "%s: %s: the answer was accepted (202) and the call goes on waiting", k.d, k)
	}
}
