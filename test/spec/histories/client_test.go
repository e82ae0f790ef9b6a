package histories

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/test/histories"
)

// client is one client. It goes on whatever happens.
type client struct {
	*histories.Visitor[*process]
	w    *world
	n    int
	plan *clientPlan
}

// post sends a message of the client's session.
func (cl *client) post(p *process, body string) *reply {
	return cl.w.send(p, "POST", "/mcp", body, "Mcp-Session-Id", cl.Session())
}

// live does everything that the client has to do, and returns when all of it has ended.
func (cl *client) live() {
	var all, more sync.WaitGroup
	stop := make(chan struct{})
	switch cl.plan.Kind {
	case "session":
		if !cl.begins() {
			return
		}
		for k := range cl.plan.Posts {
			all.Go(func() { cl.asks(k, &all) })
		}
		if cl.plan.Listen {
			more.Go(func() { cl.hears(stop) })
		}
		if cl.plan.Delete > 0 {
			all.Go(cl.deletes)
		}
	case "modern":
		for k := range cl.plan.Posts {
			all.Go(func() { cl.modern(k) })
		}
		if cl.plan.Listen {
			more.Go(func() { cl.listens(stop) })
		}
	case "sse":
		cl.connects(&all)
	}
	all.Wait()
	if cl.plan.Listen {
		cl.Pause(max(0, cl.w.plan.calmed()-time.Since(cl.w.judge.Begin)) + settling + 30*time.Second)
	}
	close(stop)
	more.Wait()
}

// says draws an answer to a question that nobody has given before.
func (cl *client) says(question string) string {
	return fmt.Sprintf("%s#%d.%d", question, cl.n, cl.NextAnswer())
}

const capabilities = `{"elicitation":{"form":{}}}`

// begins begins a session.
func (cl *client) begins() bool {
	body := `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` + capabilities + `,"clientInfo":{"name":"c","version":"1"}}}`
	for !cl.Over() {
		a := cl.post(cl.Reach(), body)
		cl.w.judge.served(a, "initialize")
		if a.status == 200 && a.session != "" {
			cl.Begin(a.session)
			status := cl.tells(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			if status != 202 && status != 0 {
				cl.w.judge.denies(cl.n, status)
			}
			return status == 202
		}
		cl.Pause(300 * time.Millisecond)
	}
	return false
}

// tells sends a message to which no response comes until a node takes it, and returns the status: 0 if none did.
func (cl *client) tells(body string) int {
	for !cl.Over() {
		a := cl.post(cl.Reach(), body)
		if cl.w.judge.served(a, "a message"); a.status != 0 && !a.refused() {
			return a.status
		}
		cl.Pause(500 * time.Millisecond)
	}
	return 0
}

// asking is what a client knows of one POST and its stream.
type asking struct {
	*client
	r        *rand.Rand
	po       *post
	request  string
	stream   string
	ids      []string // event ids that it got
	final    bool
	answered map[string]bool // questions, by the ids of their events
	all      *sync.WaitGroup
}

// asks sends the k-th call and follows its response.
func (cl *client) asks(k int, all *sync.WaitGroup) {
	po, name := &cl.plan.Posts[k], callName(cl.n, k)
	if !cl.Pause(time.Duration(po.At)) {
		return
	}
	a := &asking{client: cl, r: cl.w.plan.rng("post " + name), po: po, answered: map[string]bool{}, all: all}
	for try := 1; !cl.Over(); try++ {
		a.request = fmt.Sprintf("%s/%d", name, try)
		if a.sends() {
			return
		}
		cl.Pause(between(a.r, 200*time.Millisecond, 2*time.Second))
	}
}

// tool is the tool that a call needs.
func (po *post) tool() string {
	if po.Safe {
		return "safe"
	}
	return "once"
}

// params are those of a call.
func (po *post) params(request, more string) string {
	return fmt.Sprintf(`{"name":%q,"arguments":{"request":%q},"_meta":{"progressToken":%q}%s}`, po.tool(), request, request, more)
}

// sends POSTs the call, and follows the response. It is false when the client must send it again.
func (a *asking) sends() bool {
	more := ""
	if a.po.Task {
		more = `,"task":{}`
	}
	j, request := a.w.judge, a.request // which the next try changes
	j.posts(request, a.po)
	if d := time.Duration(a.po.Cancel); d > 0 && !a.po.Task {
		a.all.Go(func() {
			if a.Pause(d) {
				a.cancels(request)
			}
		})
	}
	c := a.post(a.Reach(), fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":%s}`, a.request, a.po.params(a.request, more)))
	if j.served(c, a.request); c.p == nil || c.refused() {
		j.declines(a.request)
		return false
	}
	switch {
	case c.status == 404:
		j.unknown(a.client, "POST", c)
		return true
	case c.status == 0: // whatever it was, the client does not know of it
		j.abandons(a.request)
		return true
	case c.status != 200:
		j.Fault("%s was answered with %d %s", a.request, c.status, c.body)
		return true
	case a.po.Task:
		a.follows(c)
		return true
	case !c.open:
		j.answers(a.request, "plain", c.body)
		return true
	}
	a.reads(c)
	return true
}

// cancels cancels the call, at any node.
func (a *asking) cancels(request string) {
	j := a.w.judge
	j.tries(request)
	c := a.post(a.Reach(), fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%q}}`, request))
	if c.status == 202 {
		j.cancelled(request, c)
	}
}

// reads reads a stream, and resumes it until it has everything.
func (a *asking) reads(c *reply) {
	a.w.judge.accepts(a.request)
	from := ""
	for visit := 0; ; visit++ {
		if visit < len(a.po.Breaks) {
			c.breaksAfter(time.Duration(a.po.Breaks[visit]))
		}
		for {
			e, ok := c.next()
			if !ok {
				break
			}
			from = a.takes(e, from)
		}
		a.w.judge.stops(c, "the stream of "+a.request)
		switch {
		case a.Over():
			a.w.judge.hangs(a.request)
			return
		case a.final && a.r.IntN(3) > 0:
			return
		case len(a.ids) == 0 && c.ended: // cancelled before it began
			a.w.judge.abandons(a.request)
			return
		case len(a.ids) == 0:
			a.w.judge.abandons(a.request)
			return
		}
		if c, from = a.returns(); c == nil {
			return
		}
	}
}

// takes takes an event that came after the one with an id, and returns the id after which the next one comes.
func (a *asking) takes(e event, from string) string {
	if e.id == "" && e.data == "" {
		return from // the response only says when to come back
	}
	j := a.w.judge
	id, _, _ := strings.Cut(e.id, ".")
	if a.stream == "" {
		a.stream = id
		j.streams(id, a.request)
	}
	if len(a.ids) == 0 || a.ids[len(a.ids)-1] != e.id {
		a.ids = append(a.ids, e.id)
	}
	if e.data == "" {
		if from != "" && from != e.id {
			j.Fault("a stream resumed with %s is primed with %s", histories.Short(from), histories.Short(e.id))
		}
		return e.id
	}
	m := j.event(a.stream, e, from, a.request)
	switch {
	case m.Method == "" && m.ID == a.request:
		a.final = true
	case m.Method == "elicitation/create":
		a.replies(e, m)
	}
	return e.id
}

// returns resumes the stream, until there is a stream again or nothing remains.
func (a *asking) returns() (*reply, string) {
	j := a.w.judge
	for refusals, quiet := 0, false; !a.Over(); {
		wait := between(a.r, 10*time.Millisecond, 5*time.Second)
		if a.r.IntN(15) == 0 && !quiet {
			wait, quiet = a.w.plan.silence(a.r), true
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
		p := a.Reach()
		if p == nil {
			continue
		}
		j.Note("%s comes back to %s with %s", a.request, p.name, histories.Short(id))
		c := a.w.send(p, "GET", "/mcp", "", "Mcp-Session-Id", a.Session(), "Last-Event-ID", id)
		if j.served(c, "a resume of "+a.request); c.status == 0 || c.refused() {
			continue
		}
		j.Count("resumes")
		switch {
		case c.open:
			return c, id
		case c.status == 204:
			j.nothing(a.stream, a.request, id)
			return nil, ""
		case c.status == 404:
			j.unknown(a.client, "GET", c)
			return nil, ""
		case c.status == 400:
			j.refuses(a.stream, a.request, id)
			if refusals++; refusals == 2 {
				return nil, ""
			}
		default:
			j.Fault("a resume of %s with %s was answered with %d %s", a.request, histories.Short(id), c.status, c.body)
			return nil, ""
		}
	}
	j.hangs(a.request)
	return nil, ""
}

// replies answers a question as the plan says.
func (a *asking) replies(e event, m message) {
	if a.answered[e.id] && a.r.IntN(4) > 0 {
		return // the same event again
	}
	a.answered[e.id] = true
	st, ok := a.w.asked(m.Question)
	if !ok || !strings.HasPrefix(m.Question, a.request+"?") {
		a.w.judge.Fault("event %s on the stream of %s asks %q", histories.Short(e.id), a.request, m.Question)
		return
	}
	times := 1
	if st.Twice {
		times = 2
	}
	for range times {
		a.all.Go(func() {
			if a.Pause(time.Duration(st.After)) {
				a.gives(a.tells, m.ID, m.Question)
			}
		})
	}
}

// gives answers a question of a session.
func (cl *client) gives(tells func(body string) int, id, question string) {
	text := cl.says(question)
	cl.w.judge.gives(question, text)
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":{"action":"accept","content":{"answer":%q}}}`, id, text)
	status := tells(body)
	for range 30 { // without a response it is not known to be taken, and may be sent again
		if status != 0 || !cl.Pause(time.Second) {
			break
		}
		status = tells(body)
	}
	name, _, _ := strings.Cut(question, "?")
	cl.w.judge.gave(name, question, text, status)
}

// asked returns the step that asks a question.
func (w *world) asked(question string) (st step, ok bool) {
	name, _, _ := strings.Cut(question, "/")
	_, key, _ := strings.Cut(question, "?")
	var i, k int
	_, err := fmt.Sscanf(key, "%d.%d", &i, &k)
	po := w.posts[name]
	if err != nil || po == nil || i >= len(po.Steps) || k >= po.Steps[i].N {
		return st, false
	}
	return po.Steps[i], true
}

// message is what of a message matters here.
type message struct {
	ID, Method string
	Request    string // that it belongs to, if it says so
	What       string // tells it apart from others of the same request
	Question   string
	Text       string // of a result
	Code       int    // of an error
	Resource   string // that was updated
}

func read(data string) (m message, ok bool) {
	var raw struct {
		ID     any
		Method string
		Params struct {
			Data          said
			ProgressToken string
			Progress      float64
			Message       string
			URI           string
		}
		Result *struct {
			Content []struct{ Text string }
			IsError bool
		}
		Error *struct{ Code int }
	}
	if err := json.Unmarshal([]byte(data), &raw); err != nil {
		return m, false
	}
	m.ID, _ = raw.ID.(string)
	m.Method, m.Resource = raw.Method, raw.Params.URI
	switch raw.Method {
	case "notifications/message":
		m.Request, m.What = raw.Params.Data.Request, raw.Params.Data.What
	case "notifications/progress":
		m.Request, m.What = raw.Params.Message, fmt.Sprintf("p%d", int(raw.Params.Progress))
	case "elicitation/create":
		m.Question = raw.Params.Message
		m.Request, m.What, _ = strings.Cut(m.Question, "?")
		m.What = "?" + m.What
	}
	if raw.Error != nil {
		m.Code = raw.Error.Code
	}
	if raw.Result != nil && len(raw.Result.Content) == 1 {
		m.Text = raw.Result.Content[0].Text
		if raw.Result.IsError {
			m.Code = 1
		}
	}
	return m, true
}
