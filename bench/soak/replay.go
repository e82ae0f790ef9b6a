package main

import (
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/troupe-run/troupe/bench/client"
)

// replays resumes answered calls from events they had: all of one call, and a
// few of the others.
func (d *driver) replays(rng *rand.Rand) {
	w, done := d.w, d.answered()
	if len(done) == 0 {
		return
	}
	whole := done[rng.IntN(len(done))]
	for _, k := range done {
		ids := k.f.ids[max(0, len(k.f.ids)-recent):]
		if k != whole {
			ids = []string{k.f.earlier(rng)}
		}
		if len(k.f.ids) > 1200 { // some share an append, but not that many
			w.tally.add("evicted_ids_refused")
			if !refused(w, d.c, k.f.ids[0]) && w.ctx.Err() == nil {
				w.violated(k.f.rec, "%s: %s: an event that is gone can be resumed from", d, k)
			}
		}
		for _, id := range ids {
			if w.ctx.Err() != nil {
				return
			}
			k.replay(id)
		}
		k.verify()
	}
}

// replay resumes an answered call after one of its events: the rest comes, and
// the response ends.
func (k *call) replay(id string) {
	rest, ok := k.rest(id)
	last := id
	if len(rest) > 0 {
		last = rest[len(rest)-1].ID
	}
	if end := k.f.ids[len(k.f.ids)-1]; ok && last != end {
		k.d.w.violated(k.f.rec, "%s: %s: replay after %s ended with %s and not with %s", k.d, k, id, last, end)
	}
}

// afterCancel resumes a cancelled call after the last of its events: what the log was
// just taking when the cancel came may be there, but nothing that came later, and no
// answer.
func (k *call) afterCancel(id string) {
	rest, _ := k.rest(id)
	for _, e := range rest {
		seen, _ := client.ParseID(id)
		p, _ := client.ParseID(e.ID) // Next has looked at it
		if m := parse(e.Data); m.answers(k.id) || p.Append > seen.Append+1 {
			k.d.w.violated(k.f.rec, "%s: %s: event %s comes of a cancelled call of which %s came last", k.d, k, e.ID, id)
		}
	}
}

// rest is what comes when the call is resumed after an event; ok is false if that was
// not as it should be, or the process was killed meanwhile.
func (k *call) rest(id string) (rest []client.Event, ok bool) {
	w := k.d.w
	w.tally.add("replays_of_answered")
	boot, starting := w.now()
	a, err := k.d.c.Resume(w.ctx, id)
	if err != nil && (w.mayFail(boot, starting) || w.mayBreak(boot)) {
		return nil, false
	}
	if err != nil {
		w.violated(k.f.rec, "%s: %s: replay after %s: %v", k.d, k, id, err)
		return nil, false
	}
	defer a.Close()
	if a.Status == http.StatusNoContent && id == k.f.ids[len(k.f.ids)-1] {
		return nil, true // nothing more is to come
	}
	if a.Events == nil || a.Status != http.StatusOK {
		w.violated(k.f.rec, "%s: %s: replay after %s got %d %s", k.d, k, id, a.Status, a.Body)
		return nil, false
	}
	for {
		e, err := a.Events.Next()
		if errors.Is(err, io.EOF) {
			return rest, true
		}
		if err != nil && w.mayBreak(boot) {
			return nil, false
		}
		if err != nil {
			w.violated(k.f.rec, "%s: %s: replay after %s: %v", k.d, k, id, err)
			return nil, false
		}
		w.tally.add("events")
		rest = append(rest, e)
	}
}

// swap tries what one client has in another's session, and compares with what
// an id out of thin air gets.
func (d *driver) swap(other *driver, rng *rand.Rand) {
	w := d.w
	mine := d.someEventID(rng)
	if mine == "" {
		return
	}
	stray := randomID(rng) + mine[strings.IndexByte(mine, '.'):]
	nobody := other.c.WithSession(randomID(rng))
	w.same("an event id", func(x *probe) { x.resume(other.c, mine) }, func(x *probe) { x.resume(other.c, stray) }, http.StatusBadRequest, badEventID)
	w.same("a session id with an event id", func(x *probe) { x.resume(nobody, mine) }, func(x *probe) { x.resume(nobody, stray) }, http.StatusNotFound, "")
	for _, k := range d.unanswered(func(k *call) bool { return k.openQuestion() != "" }) {
		id := k.openQuestion()
		if id == "" {
			continue
		}
		stranger := `"` + randomID(rng) + `.` + randomID(rng)[:8] + `.1"`
		w.same("an answer", func(x *probe) { x.answer(other.c, id) }, func(x *probe) { x.answer(other.c, stranger) }, http.StatusAccepted, "")
		w.same("an answer without a session", func(x *probe) { x.answer(nobody, id) }, func(x *probe) { x.answer(nobody, stranger) }, http.StatusNotFound, "")
		if strings.HasPrefix(k.id, `"`) {
			w.same("a cancel", func(x *probe) { x.cancel(other.c, k.id) }, func(x *probe) { x.cancel(other.c, stranger) }, http.StatusAccepted, "")
		}
	}
}

// someEventID is an event id that the driver has received.
func (d *driver) someEventID(rng *rand.Rand) string {
	if done := d.answered(); len(done) > 0 {
		return done[rng.IntN(len(done))].f.earlier(rng)
	}
	if d.old {
		return ""
	}
	events, err := d.standalone.f.rec.Merge()
	if err != nil {
		d.w.violated(d.standalone.f.rec, "%s: standalone stream: %v", d, err)
	}
	return events[0].ID
}

func randomID(rng *rand.Rand) string {
	const alphabet = "abcdefghijklmnopqrstuvwxyz234567"
	b := make([]byte, 26)
	for i := range b {
		b[i] = alphabet[rng.IntN(len(alphabet))]
	}
	return string(b)
}
