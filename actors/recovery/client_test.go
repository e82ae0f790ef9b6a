package recovery

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/test/histories"
)

// client is one session. Its program goes on whatever happens.
type client struct {
	*histories.Visitor[*process]
	w    *world
	n    int
	plan *clientPlan
}

// post sends a message. It returns nil if there is no process.
func (cl *client) post(session string, body []byte) *conn {
	return cl.patient(cl.Reach().post(session, body))
}

// patient has the client give up a connection over which nothing comes. There is always another process, in a fleet.
func (cl *client) patient(c *conn) *conn {
	if c != nil && cl.w.office != nil {
		var d time.Duration
		cl.Draw(func(route *rand.Rand) { d = between(route, 20*time.Second, time.Minute) })
		c.waits(d)
	}
	return c
}

// live does everything that the client has to do, and returns when all of it has ended.
func (cl *client) live() {
	if !cl.begins() {
		return
	}
	var all, more sync.WaitGroup
	for k := range cl.plan.Posts {
		all.Go(func() { cl.asks(k, &all) })
	}
	stop := make(chan struct{})
	if cl.plan.Listen != nil {
		more.Go(func() { cl.listens(stop) })
	}
	if cl.plan.Delete > 0 {
		all.Go(cl.deletes)
	}
	all.Wait()
	if cl.plan.Listen != nil {
		cl.Pause(max(0, cl.w.plan.calmed()-time.Since(cl.w.judge.Begin)) + listenOn)
	}
	close(stop)
	more.Wait()
}

func (cl *client) begins() bool {
	body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":%q}}`, cl.plan.Revision)
	for !cl.Over() {
		c := cl.post("", body)
		if c != nil && c.begun(cl.w.over) && !refused(c) && c.status == 200 {
			cl.Begin(c.session)
			return true
		}
		cl.Pause(300 * time.Millisecond)
	}
	return false
}

// refused reports whether a response says to come again later.
func refused(c *conn) bool {
	return c.status == 503 || c.status == 429 || c.status == 200 && strings.Contains(string(c.body), `"retryAfterMs"`)
}

// asking is what a client knows of one POST and its stream.
type asking struct {
	*client
	r        *rand.Rand
	po       *post
	name     string
	requests []string
	stream   string
	ids      []string // event ids that it got
	final    map[string]bool
	answered map[string]bool // questions, by the ids of their events
	all      *sync.WaitGroup
}

// asks sends the k-th POST and follows its response.
func (cl *client) asks(k int, all *sync.WaitGroup) {
	po := &cl.plan.Posts[k]
	name := fmt.Sprintf("%d.%d", cl.n, k)
	if !cl.Pause(time.Duration(po.At)) {
		return
	}
	for try := 1; !cl.Over(); try++ {
		a := &asking{client: cl, r: cl.w.plan.rng("post " + name), po: po, name: name, final: map[string]bool{}, answered: map[string]bool{}, all: all}
		began := time.Now()
		c := a.sends(k, try)
		if c != nil && !refused(c) && (c.open || c.status == 200) {
			cl.w.judge.serves(cl, c.p, began)
		}
		switch {
		case c == nil || refused(c):
			cl.Pause(between(a.r, 200*time.Millisecond, 2*time.Second))
			continue
		case c.status == 404:
			cl.w.judge.forgets(cl)
			return
		case c.status != 0 && c.status != 200:
			cl.w.judge.Fault("post %s was answered with %d %s", name, c.status, c.body)
			return
		case c.status == 200:
			a.plain(c.body)
			return
		case !c.open:
			cl.w.judge.Note("post %s: the connection broke", name)
			return
		}
		a.follows(c)
		return
	}
}

// sends POSTs the calls, and waits until the response begins.
func (a *asking) sends(k, try int) *conn {
	var elements []string
	for l, c := range a.po.Calls {
		request := fmt.Sprintf("%s/%d", callName(a.n, k, l), try)
		tool := "never"
		if c.Safe {
			tool = "safe"
		}
		a.requests = append(a.requests, request)
		elements = append(elements, fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":%q,"_meta":{"progressToken":%q}}}`, request, tool, request))
	}
	body := elements[0]
	if len(elements) > 1 {
		body = "[" + strings.Join(elements, ",") + "]"
	}
	a.w.judge.posts(a.requests, a.po.Calls)
	c := a.post(a.Session(), []byte(body))
	if c == nil {
		return nil
	}
	a.digs(c)
	if len(a.po.Breaks) > 0 {
		t := time.AfterFunc(time.Duration(a.po.Breaks[0]), c.breaks)
		c.Gone(func() { t.Stop() })
	}
	for l := range a.po.Calls {
		if d := time.Duration(a.po.Calls[l].Cancel); d > 0 {
			a.all.Go(func() {
				if a.Pause(d) {
					a.cancels(a.requests[l])
				}
			})
		}
	}
	c.begun(a.w.over)
	return c
}

// digs makes what the process writes to some connections get lost before the client
// notices.
func (a *asking) digs(c *conn) {
	if a.r.IntN(5) == 0 {
		hole, slow := a.r.IntN(8), between(a.r, 0, 10*time.Second)
		c.mu.Lock() // events come already
		c.hole, c.slow = hole, slow
		c.mu.Unlock()
	}
}

func (a *asking) cancels(request string) {
	body := fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%q}}`, request)
	p, began := a.Reach(), time.Now()
	a.w.judge.tries(request)
	if c := a.patient(p.post(a.Session(), body)); c != nil && c.begun(a.w.over) && c.status == 202 {
		a.w.judge.cancelled(request, p, time.Since(began))
	}
}

// plain takes a response that is not a stream.
func (a *asking) plain(body []byte) {
	var all []json.RawMessage
	if json.Unmarshal(body, &all) != nil {
		all = []json.RawMessage{body}
	}
	for _, m := range all {
		a.w.judge.plain(m, a.requests)
	}
}

// follows reads a stream, and resumes it until it has everything.
func (a *asking) follows(c *conn) {
	a.w.judge.accepts(a.requests)
	from := ""
	for visits := 0; ; visits++ {
		ended := a.reads(c, from)
		switch {
		case a.Over():
			a.w.judge.hangs(a)
			return
		case a.done() && a.r.IntN(3) > 0:
			return
		case ended && visits == 0 && len(a.ids) == 0:
			return // cancelled before it began, or without an event id to resume from
		case len(a.ids) == 0:
			a.w.judge.Note("post %s: nothing to come back with", a.name)
			a.w.judge.abandons(a.requests)
			return
		}
		if c, from = a.returns(visits); c == nil {
			return
		}
	}
}

// done reports whether all requests have their responses.
func (a *asking) done() bool { return len(a.final) == len(a.requests) }

// reads takes what comes over a connection that begins after from, and reports whether
// the server ended it in order.
func (a *asking) reads(c *conn, from string) bool {
	for {
		e, ok := c.next(a.w.over)
		if !ok {
			break
		}
		if a.takes(e, from); len(e.data) > 0 {
			a.w.judge.serves(a.client, c.p, time.Now().Add(-slowReplay))
			a.w.judge.comes(a.stream, e, c.since)
		}
		if e.data != nil {
			from = e.id
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

func (a *asking) takes(e event, from string) {
	if e.id == "" && len(e.data) == 0 {
		return // the response only says when to come back
	}
	id, _, _ := strings.Cut(e.id, ".")
	if a.stream == "" {
		a.stream = id
		a.w.judge.streams(id, a.requests)
	}
	if len(a.ids) == 0 || a.ids[len(a.ids)-1] != e.id {
		a.ids = append(a.ids, e.id)
	}
	if len(e.data) == 0 {
		a.w.judge.primes(a.stream, e.id, from)
		return
	}
	m := a.w.judge.event(a.stream, e, from)
	switch {
	case m.Method == "" && m.ID != "":
		a.final[m.ID] = true
	case m.Method != "" && m.ID != "":
		a.replies(e, m)
	}
}

// returns resumes the stream, until there is a stream again or nothing remains.
func (a *asking) returns(visits int) (*conn, string) {
	refusals, silent := 0, false
	for !a.Over() {
		wait := between(a.r, 10*time.Millisecond, 5*time.Second)
		if a.r.IntN(12) == 0 && !silent {
			wait, silent = a.w.plan.silence(a.r), true
		}
		if !a.Pause(wait) {
			break
		}
		id := a.ids[len(a.ids)-1]
		switch pick(a.r, 80, 15, 5) {
		case 1:
			id = a.ids[a.r.IntN(len(a.ids))]
		case 2:
			id = a.ids[0]
		}
		a.w.judge.Note("post %s comes back with %s", a.name, histories.Short(id))
		began := time.Now()
		c := a.patient(a.Reach().get(a.Session(), id))
		if c == nil || !c.begun(a.w.over) || refused(c) {
			continue
		}
		a.w.judge.Count("resumes")
		if c.status == 204 {
			a.w.judge.serves(a.client, c.p, began)
		}
		switch {
		case c.open:
			a.digs(c)
			if k := visits + 1; k < len(a.po.Breaks) {
				t := time.AfterFunc(time.Duration(a.po.Breaks[k]), c.breaks)
				c.Gone(func() { t.Stop() })
			}
			return c, id
		case c.status == 204:
			a.w.judge.nothing(a, id)
			return nil, ""
		case c.status == 404:
			a.w.judge.forgets(a.client)
			return nil, ""
		case c.status == 400:
			a.w.judge.refuses(a, id)
			if refusals++; refusals == 2 {
				return nil, ""
			}
		default:
			a.w.judge.Fault("resume with %s was answered with %d %s", histories.Short(id), c.status, c.body)
			return nil, ""
		}
	}
	a.w.judge.hangs(a)
	return nil, ""
}

// replies answers a question as the plan says.
func (a *asking) replies(e event, m message) {
	if a.answered[e.id] && a.r.IntN(4) > 0 {
		return // the same event again
	}
	a.answered[e.id] = true
	name, _, _ := strings.Cut(m.Request, "/")
	c := a.w.calls[name]
	_, at, _ := strings.Cut(m.What, "?")
	i, k, _ := strings.Cut(at, ".")
	stepAt, err1 := strconv.Atoi(i)
	place, err2 := strconv.Atoi(k)
	if err1 != nil || err2 != nil || c == nil || stepAt >= len(c.Steps) || place >= len(c.Steps[stepAt].Asks) {
		a.w.judge.Fault("event %s asks %q", histories.Short(e.id), m.What)
		return
	}
	st := c.Steps[stepAt]
	q := st.Asks[place]
	times := 1
	switch q.Reply {
	case "never":
		return
	case "twice":
		times = 2
	}
	asked := time.Now()
	for range times {
		a.all.Go(func() {
			if a.Pause(time.Duration(q.After)) {
				a.says(m, q, st.Size, asked)
			}
		})
	}
}

// says sends one answer to a question that came at asked until the server takes it.
func (a *asking) says(m message, q ask, size int, asked time.Time) {
	r := response{To: m.What, N: a.NextAnswer(), Pad: strings.Repeat("y", size)}
	text, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":%s}`, m.ID, text)
	if q.Reply == "error" {
		quoted, _ := json.Marshal(string(text))
		body = fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"error":{"code":-1,"message":%s}}`, m.ID, quoted)
	}
	began := time.Now()
	for range 20 {
		a.w.judge.gives(m.Request, m.What, string(text))
		c := a.post(a.Session(), []byte(body))
		if c != nil && c.begun(a.w.over) && (c.status == 202 || c.status == 404) {
			a.w.judge.Note("%s was answered (%d): %d", m.What, r.N, c.status)
			if c.status == 202 {
				a.w.judge.gave(m.What, asked, c.p)
			}
			return
		}
		if !a.Pause(500 * time.Millisecond) {
			return
		}
	}
	if a.w.up() {
		a.w.judge.inVain(m.What, began)
	}
}
