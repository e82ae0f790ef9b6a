package transports_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// loudLog fails a test when something is logged as an error, except deliberate panics.
type loudLog struct{ t *testing.T }

func (l loudLog) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l loudLog) WithGroup(string) slog.Handler      { return l }

func (l loudLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }

func (l loudLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message != "handler panicked" {
		var b strings.Builder
		r.Attrs(func(a slog.Attr) bool { fmt.Fprintf(&b, " %v", a); return true })
		l.t.Errorf("logged: %s%s", r.Message, b.String())
	}
	return nil
}

// rowdy is a client that does whatever a client can do, at any time, and leaves at any
// time.
type rowdy struct {
	rnd  *rand.Rand
	c    *kit.Client
	all  *sync.WaitGroup
	last string // an event id
	link *kit.Client
}

// fork has f do something with a copy of x meanwhile.
func (x *rowdy) fork(f func(y *rowdy)) {
	y := *x
	y.rnd = rand.New(rand.NewPCG(x.rnd.Uint64(), 0))
	x.all.Go(func() { f(&y) })
}

func (x *rowdy) request(id string) string {
	switch x.rnd.IntN(9) {
	case 0:
		return host.Call(id, "echo", `{"text":"x"}`)
	case 1:
		return host.CallWith(id, "count", `{"to":3,"delay_ms":200}`, id)
	case 2:
		return host.Call(id, "sleep", fmt.Sprintf(`{"ms":%d}`, x.rnd.IntN(2000)))
	case 3:
		return host.Call(id, "pingback", `{}`)
	case 4:
		return host.Method(id, "resources/subscribe", `{"uri":"test://one"}`)
	case 5:
		return host.Method(id, "tools/list", "")
	case 6:
		return host.Call(id, "chatter", `{"to":20}`)
	case 7:
		return host.Call(id, "panic", `{}`)
	}
	return host.Call(id, "tick", `{"to":2,"delay_ms":100}`)
}

func (x *rowdy) batch() string {
	var all []string
	for i := range 1 + x.rnd.IntN(4) {
		all = append(all, x.request(fmt.Sprint(i)))
	}
	return host.Batch(append(all, host.Cancel("3"))...)
}

// do sends a request, and may not wait for its response.
func (x *rowdy) do(c *kit.Client, method, body string, header ...string) (status int) {
	own := *c
	own.HTTP = &http.Client{Transport: c.HTTP.Transport}
	if x.rnd.IntN(8) == 0 {
		own.HTTP.Timeout = time.Duration(1+x.rnd.IntN(300)) * time.Millisecond
	}
	a, err := own.Try(method, body, header...)
	if err != nil {
		return 0
	}
	if a.Stream() {
		x.read(c, a)
	}
	return a.StatusCode
}

// read reads a stream for a while, and answers some of its questions.
func (x *rowdy) read(c *kit.Client, a *kit.Answer) {
	leave := time.AfterFunc(time.Duration(x.rnd.IntN(3000))*time.Millisecond, a.Close)
	defer leave.Stop()
	defer a.Close()
	for e, ok := a.Next(); ok; e, ok = a.Next() {
		if e.ID != "" {
			x.last = e.ID
		}
		if strings.Contains(e.Data, `"method":"ping"`) && x.rnd.IntN(3) > 0 {
			x.do(c, "POST", host.AnswerTo(e.Data, `{}`))
		}
	}
}

const firstMessage = `{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"a","version":"1"}}`

func (x *rowdy) begin() {
	own := *x.c
	if a, err := own.Try("POST", host.Initialize("0", firstMessage), "Mcp-Session-Id", ""); err == nil {
		own.Session = a.Header.Get("Mcp-Session-Id")
	}
	x.c = &own
}

// connect begins a session over HTTP+SSE, and reads its messages for a while.
func (x *rowdy) connect() {
	own := *x.c
	own.URL = "http://127.0.0.1/sse"
	a, err := own.Try("GET", "")
	if err != nil || !a.Stream() {
		return
	}
	e, _ := a.Next()
	own.URL = "http://127.0.0.1" + e.Data
	x.link = &own
	x.fork(func(y *rowdy) { y.read(&own, a) })
	if x.rnd.IntN(8) > 0 {
		x.do(&own, "POST", host.Initialize("0", firstMessage))
		x.do(&own, "POST", host.Note("notifications/initialized", ""))
	}
}

func (x *rowdy) step() {
	id := fmt.Sprint(x.rnd.IntN(4))
	switch x.rnd.IntN(13) {
	case 0, 1, 2:
		x.fork(func(y *rowdy) { y.do(y.c, "POST", y.request(id)) })
	case 3, 4:
		x.fork(func(y *rowdy) { y.do(y.c, "POST", y.batch()) })
	case 5:
		x.fork(func(y *rowdy) { y.do(y.c, "POST", host.Batch(host.Cancel("0"), host.Cancel("1"))) })
	case 6:
		x.fork(func(y *rowdy) { y.do(y.c, "GET", "") })
	case 7:
		x.fork(func(y *rowdy) { y.do(y.c, "GET", "", "Last-Event-ID", y.last) })
	case 8:
		if x.rnd.IntN(2) == 0 {
			x.fork(func(y *rowdy) { y.do(y.c, "DELETE", "") })
		}
		x.begin()
	case 9:
		x.connect()
	case 10, 11:
		if x.link != nil {
			x.fork(func(y *rowdy) {
				y.do(y.link, "POST", [...]string{y.batch(), host.Cancel(id), y.request(id), y.request(id)}[y.rnd.IntN(4)])
			})
		}
	case 12:
		<-time.After(time.Duration(x.rnd.IntN(500)) * time.Millisecond)
	}
}

// meddle changes the server, and unmounts and mounts it, until stop.
func meddle(h *host.Host, rnd *rand.Rand, stop <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(100+rnd.IntN(900)) * time.Millisecond):
		}
		switch i % 4 {
		case 0:
			h.Runtime.Unmount("/mcp")
			h.Runtime.Mount("/mcp", h.Server)
		case 1:
			h.Server.ResourceUpdated("test://one")
		case 2:
			troupe.AddTool(h.Server, troupe.Tool{Name: "new"}, func(context.Context, *troupe.Call, struct{}) (string, error) { return "", nil })
		case 3:
			h.Server.RemoveTools("new")
		}
	}
}

// TestRowdyClients has clients do everything at once over both HTTP transports while
// their server comes and goes. Nothing panics, waits forever or is left behind.
func TestRowdyClients(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	when.Long(t, "a crowd")
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				h := host.New(t, troupe.Options{Log: slog.New(loudLog{t}), Store: troupe.StoreOptions{SessionIdle: 5 * time.Minute}, Limits: troupe.Limits{CallsPerSession: 10, PendingPerSession: 5, CallRate: 1e5}, Shared: troupe.SharedLimits{PrincipalRate: 1e6}}, nil)
				rnd := rand.New(rand.NewPCG(seed, 1))
				var all sync.WaitGroup
				for range 6 {
					x := &rowdy{rnd: rand.New(rand.NewPCG(rnd.Uint64(), 0)), c: h.Unchecked(), all: &all}
					x.begin()
					all.Go(func() {
						for range 60 {
							x.step()
						}
					})
				}
				stop := make(chan struct{})
				go meddle(h, rnd, stop)
				all.Wait()
				close(stop)
				h.HTTP.CloseIdleConnections()
				time.Sleep(20 * time.Minute)
				l := h.Leftovers(0)
				for what, n := range l.Held {
					if n != 0 {
						t.Errorf("%d %s are left", n, what)
					}
				}
				for kind, n := range l.Actors {
					if n != 0 && kind != "node" && kind != "queue" { // those of the node and of its server
						t.Errorf("%d actors of kind %s are left", n, kind)
					}
				}
			})
		})
	}
}
