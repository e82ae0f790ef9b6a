package histories

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/test/histories"
)

// connects opens a session over HTTP+SSE, which lives as long as its connection, and makes the client's calls there. Messages go to any
// node.
func (cl *client) connects(all *sync.WaitGroup) {
	j := cl.w.judge
	var c *reply
	for c == nil || !c.open {
		if cl.Over() {
			return
		}
		c = cl.w.send(cl.Reach(), "GET", "/sse", "")
		if j.served(c, "HTTP+SSE"); !c.open {
			cl.Pause(time.Second)
		}
	}
	e, ok := c.next()
	if !ok || e.name != "endpoint" {
		j.stops(c, "HTTP+SSE")
		return
	}
	path := e.data
	if i := strings.Index(path, "/messages"); i >= 0 {
		path = path[i:]
	}
	// tells sends a message until a node takes it; false: the session has ended.
	tells := func(body string) int {
		for !cl.Over() && !histories.Closed(c.gone) {
			a := cl.w.send(cl.Reach(), "POST", path, body)
			if j.served(a, "a message over HTTP+SSE"); a.status == 404 {
				cl.Pause(2 * time.Second)
				if !histories.Closed(c.gone) && j.calmly(a.began) {
					j.Fault("a session of HTTP+SSE is unknown at %s, and its connection at %s is open", a.p.name, c.p.name)
				}
				return 404
			} else if a.status != 0 && !a.refused() {
				return a.status
			} else if a.status == 0 {
				return 0 // it may have been taken
			}
			cl.Pause(time.Second)
		}
		return 0
	}
	begun := make(chan struct{})
	all.Go(func() {
		if tells(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":`+capabilities+`,"clientInfo":{"name":"c","version":"1"}}}`) != 202 {
			c.breaks()
			return
		}
		select {
		case <-begun:
		case <-c.gone:
			return
		}
		if tells(`{"jsonrpc":"2.0","method":"notifications/initialized"}`) != 202 {
			c.breaks()
			return
		}
		var calls sync.WaitGroup
		for k := range cl.plan.Posts {
			calls.Go(func() { cl.calls(c, k, tells) })
		}
		calls.Wait()
		cl.Pause(time.Second)
		c.breaks()
	})
	logs := map[string]*[2]int{}
	for {
		e, ok := c.next()
		if !ok {
			break
		}
		m, ok := read(e.data)
		switch {
		case !ok:
			j.Fault("HTTP+SSE brings %s", e.data)
		case m.ID == "init":
			close(begun)
		case m.Method == "":
			j.answers(m.ID, "the connection", e.data)
		case m.Method == "elicitation/create":
			st, ok := cl.w.asked(m.Question)
			if !ok || !strings.HasPrefix(m.Question, fmt.Sprint(cl.n, ".")) {
				j.Fault("client %d is asked %q", cl.n, m.Question)
				break
			}
			all.Go(func() {
				if cl.Pause(time.Duration(st.After)) {
					cl.gives(func(body string) int {
						status := tells(body)
						if status == 404 { // the connection may live on at a node that the others take for gone
							c.breaks()
						}
						return status
					}, m.ID, m.Question)
				}
			})
		case m.What != "":
			if logs[m.Request] == nil {
				logs[m.Request] = &[2]int{}
			}
			if !strings.HasPrefix(m.Request, fmt.Sprint(cl.n, ".")) {
				j.Fault("client %d hears %s", cl.n, e.data)
			}
			cl.ordered(m.Request, m, &logs[m.Request][0], &logs[m.Request][1])
			j.Count("events")
		}
	}
	j.stops(c, "HTTP+SSE")
	j.abandonsAll(cl)
}

// calls sends the k-th call, and waits for its response.
func (cl *client) calls(c *reply, k int, tells func(string) int) {
	j, po := cl.w.judge, &cl.plan.Posts[k]
	if !cl.Pause(time.Duration(po.At)) {
		return
	}
	request := callName(cl.n, k) + "/1"
	j.posts(request, po)
	if tells(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":%s}`, request, po.params(request, ""))) != 202 {
		j.abandons(request)
		return
	}
	j.accepts(request)
	if d := time.Duration(po.Cancel); d > 0 {
		go func() {
			select {
			case <-time.After(d):
			case <-c.gone:
			}
			if !histories.Closed(c.gone) {
				j.tries(request)
				tells(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%q}}`, request))
			}
		}()
	}
	for !cl.Over() && !histories.Closed(c.gone) && !j.settled(request) {
		cl.Pause(500 * time.Millisecond)
	}
	if !histories.Closed(c.gone) {
		j.hangs(request)
	}
}
