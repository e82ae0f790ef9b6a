package histories

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"
)

const withTasks = `{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// made is what of a response about a task matters here.
type made struct {
	Result *struct {
		TaskID, Status, ResultType string
		Task                       *struct{ TaskID string }
		Result                     json.RawMessage
		Error                      *struct{ Code int }
	}
	Error *struct {
		Code    int
		Message string
	}
}

// follows waits for the result of a session's task, at any node.
func (a *asking) follows(c *reply) {
	var m made
	if c.whole().status == 0 {
		a.w.judge.abandons(a.request)
		return
	}
	if json.Unmarshal([]byte(c.body), &m) != nil || m.Result == nil || m.Result.Task == nil {
		a.w.judge.Fault("%s made no task: %s", a.request, c.body)
		return
	}
	id := m.Result.Task.TaskID
	a.poll(a.request, a.r, id, func(method string) *reply {
		return a.post(a.Reach(), fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tasks/%s","params":{"taskId":%q}}`, a.request, method, id))
	}, true)
}

// makes has a stateless call become a task, and waits for its result. It is false when the client must send it again.
func (cl *client) makes(request string, po *post, r *rand.Rand) bool {
	j := cl.w.judge
	c := cl.state(cl.Reach(), request, "tools/call", po.tool(), withTasks, fmt.Sprintf(`"name":%q,"arguments":{"request":%q}`, po.tool(), request))
	if j.served(c.whole(), request); c.p == nil || c.refused() {
		j.declines(request)
		return false
	}
	var m made
	switch {
	case c.status == 0:
		j.abandons(request)
		return true
	case json.Unmarshal([]byte(c.body), &m) != nil || m.Result == nil || m.Result.TaskID == "":
		j.Fault("%s made no task: %s", request, c.body)
		return true
	}
	id := m.Result.TaskID
	cl.poll(request, r, id, func(method string) *reply {
		return cl.state(cl.Reach(), request, "tasks/"+method, id, withTasks, fmt.Sprintf(`"taskId":%q`, id))
	}, false)
	return true
}

// poll looks at a task until it has ended, and reads its result.
func (cl *client) poll(request string, r *rand.Rand, id string, send func(method string) *reply, session bool) {
	j := cl.w.judge
	j.accepts(request)
	j.Count("tasks")
	for ended := ""; ; {
		if !cl.Pause(between(r, 500*time.Millisecond, 8*time.Second)) {
			j.hangs(request)
			return
		}
		c := send("get").whole()
		if j.served(c, "a look at the task of "+request); c.status == 0 || c.refused() {
			continue
		}
		var m made
		err := json.Unmarshal([]byte(c.body), &m)
		switch {
		case c.status == 404 && session:
			j.unknown(cl, "POST", c)
			return
		case err == nil && m.Error != nil && m.Error.Code == -32603 && !j.calmly(c.began):
			continue // the store did not answer
		case c.status != 200 || err != nil || m.Result == nil:
			j.taskGone(request, c)
			return
		case ended != "" && m.Result.Status != ended:
			j.Fault("the task of %s was %s, and is %s", request, ended, m.Result.Status)
		}
		j.Note("the task of %s is %s at %s", request, m.Result.Status, c.p.name)
		if ended = m.Result.Status; ended == "working" {
			ended = ""
			continue
		}
		switch {
		case session:
			a := send("result").whole()
			if j.served(a, "the result of "+request); a.status == 0 || a.refused() {
				continue
			}
			j.answers(request, "tasks/result", a.body)
		case m.Result.Error != nil:
			j.answers(request, "tasks/get", fmt.Sprintf(`{"id":%q,"error":{"code":%d}}`, request, m.Result.Error.Code))
		default:
			j.answers(request, "tasks/get", fmt.Sprintf(`{"id":%q,"result":%s}`, request, m.Result.Result))
		}
		return
	}
}
