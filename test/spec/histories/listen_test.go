package histories

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/test/histories"
)

const (
	updated = "notifications/resources/updated"
	changed = "notifications/tools/list_changed"
)

// hearing is a connection on which a client listens.
type hearing struct {
	client  int
	session bool
	p       *process
	from    time.Time // since when it listens
	to      time.Time // when it ended; zero: not yet
	heard   []heard
}

type heard struct {
	at   time.Time
	what string
}

// hears has a session subscribe, and reads its standalone stream until stop.
func (cl *client) hears(stop chan struct{}) {
	j, r := cl.w.judge, cl.w.plan.rng(fmt.Sprint("listen ", cl.n))
	from, subscribed := "", false
	for visit := 0; !histories.Closed(stop) && !cl.Over(); {
		p := cl.Reach()
		c := cl.w.send(p, "GET", "/mcp", "", "Mcp-Session-Id", cl.Session(), "Last-Event-ID", from)
		switch j.served(c, "a standalone stream"); {
		case c.open:
		case c.status == 404:
			j.unknown(cl, "GET", c)
			return
		case c.status == 400 && from != "":
			j.refuses(strings.SplitN(from, ".", 2)[0], "", from)
			from = ""
			continue
		case c.status == 204:
			from = ""
			continue
		default:
			if c.status != 0 && !c.refused() {
				j.Fault("a standalone stream is refused: %d %s", c.status, c.body)
			}
			cl.Pause(between(r, 100*time.Millisecond, 2*time.Second))
			continue
		}
		if visit < len(cl.plan.Breaks) {
			c.breaksAfter(time.Duration(cl.plan.Breaks[visit]))
		}
		visit++
		fresh := from == ""
		var reading sync.WaitGroup
		reading.Go(func() {
			if !subscribed {
				subscribed = cl.tells(`{"jsonrpc":"2.0","id":"sub","method":"resources/subscribe","params":{"uri":"`+resource+`"}}`) == 200
			}
			if subscribed {
				j.listens(c, cl, true)
			}
			select {
			case <-stop:
				c.breaks()
			case <-c.gone:
			}
		})
		for {
			e, ok := c.next()
			if !ok {
				break
			}
			if id, _, _ := strings.Cut(e.id, "."); e.id != "" && fresh {
				j.standalone(id, cl)
				fresh = false
			}
			if e.id != "" && e.data != "" {
				m := j.event(strings.SplitN(e.id, ".", 2)[0], e, from, "")
				j.hears(c, m)
			}
			if e.id != "" {
				from = e.id
			}
		}
		j.deaf(c)
		j.stops(c, "a standalone stream")
		reading.Wait()
		cl.Pause(between(r, 10*time.Millisecond, 3*time.Second))
	}
}

// listens opens a listener of a stateless client, again and again, until stop.
func (cl *client) listens(stop chan struct{}) {
	j, r := cl.w.judge, cl.w.plan.rng(fmt.Sprint("listen ", cl.n))
	for visit := 0; !histories.Closed(stop) && !cl.Over(); {
		c := cl.state(cl.Reach(), fmt.Sprintf("L%d.%d", cl.n, visit), "subscriptions/listen", "", `{}`, `"notifications":{"toolsListChanged":true,"resourceSubscriptions":["`+resource+`"]}`)
		if j.served(c, "a listener"); !c.open {
			if c.status != 0 && !c.refused() {
				j.Fault("a listener is refused: %d %s", c.status, c.body)
			}
			cl.Pause(between(r, 100*time.Millisecond, 2*time.Second))
			continue
		}
		if visit < len(cl.plan.Breaks) {
			c.breaksAfter(time.Duration(cl.plan.Breaks[visit]))
		}
		visit++
		go func() {
			select {
			case <-stop:
				c.breaks()
			case <-c.gone:
			}
		}()
		for {
			e, ok := c.next()
			if !ok {
				break
			}
			switch m, ok := read(e.data); {
			case !ok || e.id != "":
				j.Fault("a listener gets %q %s", e.id, e.data)
			case strings.HasSuffix(m.Method, "/acknowledged"):
				j.listens(c, cl, false)
			case m.Method == "":
			default:
				j.hears(c, m)
			}
		}
		j.deaf(c)
		j.stops(c, "a listener")
		cl.Pause(between(r, 10*time.Millisecond, 3*time.Second))
	}
}

// listens notes that a client listens over a connection from now on.
func (j *judge) listens(c *reply, cl *client, session bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.Note("client %d listens at %s", cl.n, c.p.name)
	h := &hearing{client: cl.n, session: session, p: c.p, from: time.Now()}
	j.hearings[c] = h
	j.order = append(j.order, h)
}

// hears notes what came over a connection.
func (j *judge) hears(c *reply, m message) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if h := j.hearings[c]; h != nil && (m.Method == updated || m.Method == changed) {
		h.heard = append(h.heard, heard{time.Now(), m.Method})
		j.Note("client %d hears %s at %s", h.client, m.Method, c.p.name)
		j.Count("news")
	}
	if m.Method == "notifications/message" && m.Request == "" {
		j.heardTold[m.What]++
		if n := j.heardTold[m.What]; n > 1 && len(j.cutsAll) == 0 {
			j.Note("%s came %d times", m.What, n)
		}
	}
}

// deaf notes that a connection has ended.
func (j *judge) deaf(c *reply) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if h := j.hearings[c]; h != nil {
		h.to = time.Now()
	}
}

// news is a change at a process.
type news struct {
	what string
	p    *process
	at   time.Time
}

// changes notes that something is about to change at a process.
func (j *judge) changes(what string, p *process) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.Note("%s at %s", what, p.name)
	j.news = append(j.news, news{what, p, time.Now()})
}

// toldMessage is a message to a session that was stored.
type toldMessage struct {
	client int
	what   string
	at     time.Time
}

// heardAllTold judges the messages to sessions: who listens while nothing is wrong gets them.
func (j *judge) heardAllTold() {
	for _, x := range j.toldAll {
		until := x.at.Add(5 * time.Second)
		if j.heardTold[x.what] > 0 || !j.calm(x.at.Add(-settling), until) {
			continue
		}
		for _, h := range j.order {
			if h.session && h.client == x.client && h.from.Add(2*time.Second).Before(x.at) && (h.to.After(until) || h.to.IsZero() && time.Now().After(until)) {
				j.Fault("client %d never gets %s, of %.3fs", x.client, x.what, x.at.Sub(j.w.judge.Begin).Seconds())
			}
		}
	}
}

// heardAll judges the news: who listens while nothing is wrong hears of each change once, at once, and who listens through a fault hears of
// it afterwards, unless the process where it happened was lost with it.
func (j *judge) heardAll() {
	end := time.Now()
	for _, n := range j.news {
		alone := true // no other change of this kind is near
		for _, x := range j.news {
			if x != n && x.what == n.what && x.at.Sub(n.at).Abs() < 15*time.Second {
				alone = false
			}
		}
		calm := j.calm(n.at.Add(-settling), n.at.Add(5*time.Second))
		for _, h := range j.order {
			to := h.to
			if to.IsZero() {
				to = end
			}
			if h.from.Add(2*time.Second).After(n.at) || h.from.Add(settling).After(n.at) && n.what == changed {
				continue
			}
			heard := func(from, to time.Time) (k int) {
				for _, x := range h.heard {
					if x.what == n.what && !x.at.Before(from) && !x.at.After(to) {
						k++
					}
				}
				return k
			}
			switch until := n.at.Add(5 * time.Second); {
			case h.session && n.what == changed && heard(n.at, to) == 0 && !(calm && alone):
				// It may have been told of a digest that is the same: a session hears of a list once.
			case h.session && n.what != changed && len(j.cutsAll) > 0 && heard(h.from, to) == 0:
				// A power cut may have taken the subscription back, which is stored with the session.
			case calm && !to.Before(until):
				j.Count("news judged")
				soon := n.at.Add(2 * time.Second)
				if h.session && n.what == changed {
					soon = until // the node that tells it changes later
				}
				if k := heard(n.at, soon); k == 0 || k > 1 && alone {
					j.Fault("client %d hears %d times, by %s, of %s at %s at %.3fs", h.client, k, h.p.name, n.what, n.p.name, n.at.Sub(j.w.judge.Begin).Seconds())
				}
			case !calm && !j.lostNews(n):
				if back := j.calmAfter(n.at); !back.IsZero() && !to.Before(back.Add(settling)) {
					j.Count("news repaired")
					if heard(n.at, to) == 0 {
						j.Fault("client %d never hears, by %s, of %s at %s at %.3fs", h.client, h.p.name, n.what, n.p.name, n.at.Sub(j.w.judge.Begin).Seconds())
					}
				}
			}
		}
	}
}

// lostNews reports whether the process where something changed may have been lost before it could tell anybody.
func (j *judge) lostNews(n news) bool {
	s := j.state(n.p)
	if len(j.cutsAll) > 0 {
		return true
	}
	ended := s.ended
	if ended.IsZero() {
		return false
	}
	return ended.Before(j.calmOf(n.p, n.at).Add(settling))
}
