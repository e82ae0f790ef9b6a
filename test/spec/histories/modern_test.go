package histories

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// request is the body of a stateless request.
func stateless(id, method, caps, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":%q,"params":{"_meta":{"progressToken":%q,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":%s,"io.modelcontextprotocol/logLevel":"debug"},%s}}`, id, method, id, caps, params)
}

// state sends a stateless request to p. name is what Mcp-Name says.
func (cl *client) state(p *process, id, method, name, caps, params string) *reply {
	return cl.w.send(p, "POST", "/mcp", stateless(id, method, caps, params), "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name)
}

// round is what a client sends in one round trip of a call.
type round struct {
	n     int
	extra string // requestState and inputResponses, "" in the first round
}

// modern sends the k-th call, and answers its questions, until it has its response.
func (cl *client) modern(k int) {
	po, name := &cl.plan.Posts[k], callName(cl.n, k)
	if !cl.Pause(time.Duration(po.At)) {
		return
	}
	r := cl.w.plan.rng("post " + name)
	j := cl.w.judge
	for try := 1; !cl.Over(); try++ {
		request := fmt.Sprintf("%s/%d", name, try)
		j.posts(request, po)
		if po.Task {
			if cl.makes(request, po, r) {
				return
			}
			cl.Pause(time.Second)
			continue
		}
		again := cl.rounds(request, po, r)
		if !again {
			return
		}
		cl.Pause(between(r, 200*time.Millisecond, 2*time.Second))
	}
}

// rounds makes the round trips of one call. It reports whether the client begins the call again.
func (cl *client) rounds(request string, po *post, r *rand.Rand) (again bool) {
	j := cl.w.judge
	now := round{}
	for visit := 0; !cl.Over(); visit++ {
		var response string
		got := make(chan string, 1)
		twin := now.n > 0 && cl.twice(request, now.n)
		if twin { // a client that sends its request twice gets the same
			j.repeats(request)
			go func() { got <- cl.trip(request, po, now, -1) }()
		}
		breaks := -1
		if visit < len(po.Breaks) && now.n > 0 {
			breaks = visit
		}
		response = cl.trip(request, po, now, breaks)
		if twin {
			other := <-got
			if response == "" {
				response = other
			} else if other != "" && other != response {
				j.twins(request, response, other)
				if strings.Contains(response, `"retryAfterMs"`) { // of a process that ends: it need not be sent again, as the other one has it
					response = other
				}
			}
		}
		switch {
		case response == "refused":
			if now.n == 0 {
				j.declines(request)
				return true
			}
		case response == "" && now.n == 0: // the outcome is unknown: a client begins again only what may run again
			j.abandons(request)
			return po.Safe
		case response == "": // the same request gets the same response
		default:
			next, final := cl.requires(request, response, now)
			if final {
				j.answers(request, "the response", response)
				return false
			}
			now = next
			continue
		}
		cl.Pause(between(r, 100*time.Millisecond, 3*time.Second))
	}
	j.hangs(request)
	return false
}

// twice reports whether the plan has the client send the retry of a round twice.
func (cl *client) twice(request string, n int) bool {
	name, _, _ := strings.Cut(request, "/")
	for _, st := range cl.w.posts[name].Steps {
		if st.Do == "ask" {
			if n--; n == 0 {
				return st.Twice
			}
		}
	}
	return false
}

// trip sends the request of a round, and returns the response: "refused" if the client has to come again, "" if the connection broke.
func (cl *client) trip(request string, po *post, now round, breaks int) string {
	j := cl.w.judge
	p := cl.Reach()
	if p == nil {
		return "refused"
	}
	j.goes(request, now.n, p)
	c := cl.state(p, request, "tools/call", po.tool(), capabilities, fmt.Sprintf(`"name":%q,"arguments":{"request":%q}%s`, po.tool(), request, now.extra))
	if j.served(c, request); c.refused() {
		return "refused"
	}
	switch {
	case c.status == 0:
		return ""
	case !c.open:
		return c.body
	}
	j.accepts(request)
	if breaks >= 0 && po.Safe { // closing the connection cancels the call
		j.cuts(request)
		c.breaksAfter(time.Duration(po.Breaks[breaks]))
	}
	logs, progress, response := -1, 0, ""
	for {
		e, ok := c.next()
		if !ok {
			break
		}
		if e.data == "" {
			continue
		}
		m, ok := read(e.data)
		switch {
		case !ok || e.id != "":
			j.Fault("an event of %s is %q %s", request, e.id, e.data)
		case response != "":
			j.Fault("%s got %s after its response", request, e.data)
		case m.Method == "":
			response = e.data
		case m.Request != request:
			j.Fault("%s got %s, which is of another", request, e.data)
		default:
			j.Note("%s hears %s", request, m.What)
			j.Count("events")
			cl.ordered(request, m, &logs, &progress)
		}
	}
	j.stops(c, "the response of "+request)
	if response == "" && c.ended {
		j.hollow(c, request)
	}
	return response
}

// ordered judges that messages on one connection are in order, and none is left out or doubled.
func (cl *client) ordered(request string, m message, logs, progress *int) {
	var n int
	_, _ = fmt.Sscanf(m.What[1:], "%d", &n)
	switch {
	case m.What[0] == 'm' && *logs >= 0 && n != *logs+1:
		cl.w.judge.Fault("%s hears m%d after m%d", request, n, *logs)
	case m.What[0] == 'm':
		*logs = n
	case m.What[0] == 'p' && n <= *progress:
		cl.w.judge.Fault("%s hears p%d after p%d", request, n, *progress)
	case m.What[0] == 'p':
		*progress = n
	}
}

// requires reads a response: what the client sends next if it asks for input.
func (cl *client) requires(request, response string, now round) (next round, final bool) {
	var m struct {
		ID     string
		Result struct {
			ResultType    string
			InputRequests map[string]struct {
				Params struct{ Message string }
			}
			RequestState string
		}
	}
	if err := json.Unmarshal([]byte(response), &m); err != nil || m.ID != request {
		cl.w.judge.Fault("%s is answered with %s", request, response)
		return now, true
	}
	if m.Result.ResultType != "input_required" {
		return now, true
	}
	cl.w.judge.Count("round trips")
	var given []string
	wait := time.Duration(0)
	var keys []string
	for key := range m.Result.InputRequests {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		question := m.Result.InputRequests[key].Params.Message
		st, ok := cl.w.asked(question)
		if !ok || question != request+"?"+key {
			cl.w.judge.Fault("%s is asked %q: %q", request, key, question)
			return now, true
		}
		wait = max(wait, time.Duration(st.After))
		text := cl.says(question)
		cl.w.judge.gives(question, text)
		given = append(given, fmt.Sprintf(`%q:{"action":"accept","content":{"answer":%q}}`, key, text))
	}
	cl.Pause(wait)
	state, _ := json.Marshal(m.Result.RequestState)
	return round{now.n + 1, `,"requestState":` + string(state) + `,"inputResponses":{` + strings.Join(given, ",") + `}`}, false
}
