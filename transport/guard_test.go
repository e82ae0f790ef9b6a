package transport

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/transport/server"
)

// onConn is a response of which conn has the connection. It notes for how many requests the connection keeps its place while it is
// written.
type onConn struct {
	http.ResponseWriter
	conn *server.Conn
	kept []int64
}

func (w *onConn) WriteHeader(status int) {
	w.kept = append(w.kept, w.conn.Handlers())
	w.ResponseWriter.WriteHeader(status)
}

// TestPlacesOfRequests has a request keep the place of its connection once while it is handled, and not while its response is written,
// whether it is refused or not.
func TestPlacesOfRequests(t *testing.T) {
	t.Parallel()
	post := func(handler http.Handler, conn *server.Conn, version int) *onConn {
		r := httptest.NewRequest("POST", "/mcp", strings.NewReader(ping)).WithContext(server.WithConn(t.Context(), conn))
		r.Header.Set("Content-Type", typeJSON)
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.ProtoMajor = version
		w := &onConn{ResponseWriter: httptest.NewRecorder(), conn: conn}
		handler.ServeHTTP(w, r)
		return w
	}
	for name, row := range map[string]struct {
		most    int64
		wrap    func(http.Handler) http.Handler
		running int64 // 0: it does not run
	}{
		"served":              {-1, func(h http.Handler) http.Handler { return h }, 1},
		"refused":             {1000, func(h http.Handler) http.Handler { return h }, 0},
		"its body is wrapped": {-1, func(h http.Handler) http.Handler { return http.MaxBytesHandler(h, 1<<20) }, 1},
		"its body is another": {-1, func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.Body = io.NopCloser(io.TeeReader(r.Body, io.Discard))
				h.ServeHTTP(w, r)
			})
		}, 1},
	} {
		for _, version := range []int{1, 2} {
			var o Options
			a := counted(t, &o, row.most)
			conn, running, held := new(server.Conn), int64(0), int64(0)
			h := NewHandler(funcs{post: func(x *Exchange) {
				running, held = conn.Handlers()-1, a.BytesOf(quota.Bodies)
				x.Answer(200, pong)
			}}, o)
			g, next := NewGuard(o), row.wrap(h)
			conn.BeginHandler() // over HTTP/2 it serves another request, too
			w := post(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.Serve(w, r, next, false) }), conn, version)
			want := int64(0)
			if row.running > 0 {
				want = requestBytes + int64(len(ping))
			}
			if running != row.running || held != want {
				t.Errorf("%s, HTTP/%d: it counts %d times while it runs, and %d bytes; want %d, %d", name, version, running, held, row.running, want)
			}
			if n := conn.Handlers(); len(w.kept) == 0 || w.kept[0] != 1 || n != 1 {
				t.Errorf("%s, HTTP/%d: with the other one, %d requests keep the place while it is written, and %d then; want 1", name, version, w.kept, n)
			}
		}
	}
}

// TestABodyIsWaitedFor has a handler behind a Guard do something else for 20 s before it reads a body, and in the midst of that: the time of
// the body passes only while it is waited for, by the handler or, before a response, by the server.
func TestABodyIsWaitedFor(t *testing.T) {
	t.Parallel()
	const think = 20 * time.Second
	read := func(r *http.Request, n int) error {
		time.Sleep(think)
		_, err := io.ReadFull(r.Body, make([]byte, n))
		return err
	}
	reads := func(w http.ResponseWriter, r *http.Request) {
		for range 2 {
			if read(r, 5) != nil {
				w.WriteHeader(http.StatusRequestTimeout)
				return
			}
		}
	}
	writes := func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(think)
		_, _ = w.Write(make([]byte, 100_000))
	}
	for name, row := range map[string]struct {
		serve http.HandlerFunc
		rate  float64
		comes []time.Duration // when 5 bytes come
		after time.Duration
		want  int
	}{
		"all has come":                {reads, 0, []time.Duration{0, 0}, 2 * think, 200},
		"nothing comes":               {reads, -1, nil, think + 30*time.Second, 408},
		"nothing comes, with a rate":  {reads, 0, nil, think + 10*time.Second, 408},
		"a half comes":                {reads, -1, []time.Duration{0}, 2*think + 30*time.Second, 408},
		"a half comes, with a rate":   {reads, 1, []time.Duration{0}, 2*think + 10*time.Second, 408},
		"a half comes late":           {reads, -1, []time.Duration{think + 20*time.Second}, 2*think + 30*time.Second, 408},
		"a half comes in time":        {reads, 0, []time.Duration{think + 9*time.Second, 2*think + 9*time.Second}, 2*think + 9*time.Second, 200},
		"it comes while nobody waits": {reads, 0, []time.Duration{think / 2, think + think/2}, 2 * think, 200},
		"the server waits":            {writes, -1, nil, think + 30*time.Second, 200},
		"the server waits for a rate": {writes, 0, nil, think + 10*time.Second, 200},
		"the server need not wait":    {writes, 0, []time.Duration{0, 0}, think, 200},
	} {
		for served, front := range map[string]func(net.Listener, *http.Server) net.Listener{"front": front, "net/http": func(ln net.Listener, _ *http.Server) net.Listener { return ln }} {
			t.Run(served+", "+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					guard := NewGuard(Options{BodyRate: row.rate})
					s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { guard.Serve(w, r, row.serve, false) })}
					Configure(s)
					ln, ended := &pipes{make(chan net.Conn), make(chan struct{})}, make(chan struct{})
					go func() { defer close(ended); _ = s.Serve(front(ln, s)) }()
					began := time.Now()
					c := ln.dial(t).send("POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n")
					go func() {
						for _, at := range row.comes {
							time.Sleep(time.Until(began.Add(at)))
							_, _ = io.WriteString(c, "12345")
						}
					}()
					resp := c.response("POST")
					if took := time.Since(began); resp.StatusCode != row.want || took != row.after {
						t.Errorf("%s after %v, want %d after %v", resp.Status, took, row.want, row.after)
					}
					_ = c.Close()
					_ = s.Close()
					<-ended
					time.Sleep(time.Second) // net/http keeps a connection that it ends for half of one
				})
			})
		}
	}
}
