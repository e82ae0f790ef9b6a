package recovery

import (
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/test/histories"
)

// listen is a client's standalone stream.
type listen struct {
	At     span
	Breaks []span `json:",omitempty"` // times after which the connection breaks, one after the other
}

// listenOn is for how long a client listens after the last call and the last fault.
const listenOn = 2 * time.Minute

// ear is what a client knows of its standalone stream.
type ear struct {
	*client
	ids  []string // event ids that it got of the stream
	stop chan struct{}
}

// listens keeps the session's standalone stream open until stop is closed.
func (cl *client) listens(stop chan struct{}) {
	if !cl.Pause(time.Duration(cl.plan.Listen.At)) {
		return
	}
	e := &ear{client: cl, stop: stop}
	for visits := 0; !e.stopped(); visits++ {
		from := ""
		if n := len(e.ids); n > 0 {
			from = e.ids[n-1]
		}
		c := cl.patient(cl.Reach().get(cl.Session(), from))
		if c == nil || !c.begun(e.stop) || refused(c) {
			cl.Pause(700 * time.Millisecond)
			continue
		}
		switch {
		case c.open:
			if breaks := cl.plan.Listen.Breaks; visits < len(breaks) {
				t := time.AfterFunc(time.Duration(breaks[visits]), c.breaks)
				c.Gone(func() { t.Stop() })
			}
			e.reads(c, from)
			c.breaks()
			cl.Pause(100 * time.Millisecond)
		case c.status == 404:
			cl.w.judge.forgets(cl)
			return
		case c.status == 400 || c.status == 204: // it has been replaced, or evicted
			cl.w.judge.Note("the standalone stream of client %d is over with %s: %d", cl.n, histories.Short(from), c.status)
			e.ids = nil
			cl.Pause(time.Second)
		default:
			cl.w.judge.Fault("a GET with %q was answered with %d %s", histories.Short(from), c.status, c.body)
			return
		}
	}
	cl.w.judge.listened(cl)
}

func (e *ear) stopped() bool {
	select {
	case <-e.stop:
		return true
	default:
		return e.Over()
	}
}

// reads takes what comes over a connection that begins after from.
func (e *ear) reads(c *conn, from string) {
	j := e.w.judge
	if from == "" {
		j.opens(e.client)
	}
	for {
		x, ok := c.next(e.stop)
		if !ok {
			return
		}
		if x.id == "" {
			continue
		}
		stream, _, _ := strings.Cut(x.id, ".")
		if len(e.ids) == 0 {
			j.hears(e.client, stream)
		}
		if n := len(e.ids); n == 0 || e.ids[n-1] != x.id {
			e.ids = append(e.ids, x.id)
		}
		if len(x.data) > 0 {
			j.event(stream, x, from)
			from = x.id
		} else {
			j.primes(stream, x.id, from)
		}
	}
}

// hearing is what the judge knows of a client's standalone stream.
type hearing struct {
	streams int       // that the client has opened
	since   time.Time // when it opened the last one
	tale    *streamTale
	told    []telling
}

// telling is a message to a session.
type telling struct {
	what       string
	began, end time.Time
	stored     bool // its sender was told so
}

// opens notes that a client has opened a new standalone stream.
func (j *judge) opens(cl *client) {
	j.mu.Lock()
	defer j.mu.Unlock()
	h := j.hearing(cl.n)
	h.streams++
	h.since, h.tale = time.Now(), nil
	j.Note("client %d listens", cl.n)
}

// hears notes the id of a client's standalone stream.
func (j *judge) hears(cl *client, id string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.tales[id] == nil {
		j.tales[id] = &streamTale{bytes: map[string]string{}, began: time.Now(), standalone: true}
	}
	j.hearing(cl.n).tale = j.tales[id]
}

func (j *judge) hearing(client int) *hearing {
	h := j.hearings[client]
	if h == nil {
		h = &hearing{}
		j.hearings[client] = h
	}
	return h
}

// told notes that a handler has sent a message to its session, and what it learned of it.
func (j *judge) told(client int, what string, began time.Time, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.Note("%s is told: %v", what, err)
	if err == nil {
		j.Count("messages to sessions")
	}
	h := j.hearing(client)
	h.told = append(h.told, telling{what, began, time.Now(), err == nil})
}

// inOrder judges that the i-th event of a standalone stream comes after what its handler sent before it, and before the rest.
func (j *judge) inOrder(s *streamTale, i int) {
	if !s.standalone {
		return
	}
	split := func(what string) (of string, n int) {
		of, num, _ := strings.Cut(what, ": ")
		n, _ = strconv.Atoi(num)
		return of, n
	}
	of, n := split(s.events[i].what)
	for k, x := range s.events {
		if run, m := split(x.what); run == of && (k < i && m > n || k > i && m < n) {
			j.Fault("event %s, %s, is out of order with %s, %s", histories.Short(s.events[i].id), s.events[i].what, histories.Short(x.id), x.what)
		}
	}
}

// listened judges that a client got every message that was stored on its standalone stream.
func (j *judge) listened(cl *client) {
	j.mu.Lock()
	defer j.mu.Unlock()
	h := j.hearing(cl.n)
	if h.streams == 0 || j.gone[cl.n] {
		return
	}
	since := h.since
	if h.streams > 1 { // who still knows of the stream before it may have stored the message there
		since = since.Add(time.Minute)
	}
	got := map[string]bool{}
	if h.tale != nil {
		for _, e := range h.tale.events {
			got[e.what] = true
		}
	}
	for _, m := range h.told {
		if onWay := time.Since(m.end) < promptly; m.stored && !onWay && m.began.After(since) && !got[m.what] && !j.lost(m.began) {
			j.Fault("client %d has not got %s, which was stored on its standalone stream", cl.n, m.what)
		}
	}
}
