package main

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/bench/client"
)

// probe makes one request and keeps all that tells answers apart.
type probe struct {
	w      *world
	status int
	body   string
	header string
	err    error
}

func (x *probe) keep(a *client.Answer, err error) {
	if x.err = err; err != nil {
		return
	}
	a.Close()
	x.status, x.body = a.Status, string(a.Body)
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(a.Header)) {
		if name != "Date" {
			lines = append(lines, name+": "+strings.Join(a.Header[name], ", "))
		}
	}
	x.header = strings.Join(lines, "; ")
}

func (x *probe) resume(c *client.Client, id string) { x.keep(c.Resume(x.w.ctx, id)) }

func (x *probe) answer(c *client.Client, id string) {
	x.keep(c.Answer(x.w.ctx, id, `{"action":"accept","content":{"answer":"stolen"}}`))
}

func (x *probe) cancel(c *client.Client, id string) {
	x.err = c.Notify(x.w.ctx, "notifications/cancelled", `{"requestId":`+id+`}`)
	x.status = http.StatusAccepted // which Notify insists on
}

// same checks that a foreign id and a random one get the same answer: status,
// and body unless that is "".
func (w *world) same(what string, foreign, random func(*probe), status int, body string) {
	f, r := probe{w: w}, probe{w: w}
	foreign(&f)
	random(&r)
	w.tally.add("foreign_ids_tried")
	switch {
	case w.ctx.Err() != nil:
	case f.err != nil || r.err != nil:
		w.violated(nil, "%s of another session: %v; a random one: %v", what, f.err, r.err)
	case f.status != r.status || f.body != r.body || f.header != r.header:
		w.violated(nil, "%s of another session got %d %s (%s), a random one %d %s (%s)", what, f.status, f.body, f.header, r.status, r.body, r.header)
	case f.status != status || body != "" && f.body != body:
		w.violated(nil, "%s of another session got %d %s, want %d %s", what, f.status, f.body, status, body)
	}
}
