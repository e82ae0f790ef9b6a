package transport

import (
	"bufio"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe/transport/server/http1"
)

// opaque hides the Hijacker of a writer, as middleware does.
type opaque struct{ http.ResponseWriter }

func (o opaque) Flush() { o.ResponseWriter.(http.Flusher).Flush() }

// boastful has a Hijack that does not work.
type boastful struct{ opaque }

func (boastful) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, errors.New("no, after all")
}

func wrap(h http.Handler, f func(http.ResponseWriter) http.ResponseWriter) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(f(w), r) })
}

// inlineDispatcher answers by method; a stream has three events, and another goroutine sends the last two.
func inlineDispatcher(release <-chan struct{}) funcs {
	return funcs{get: func(x *Exchange) {
		x.SetSession("s")
		if !x.Open() {
			return
		}
		x.Event("1", 10, nil)
		x.Flush()
		switch x.LastEventID {
		case "panic":
			panic("a bug")
		case "cut":
			<-release
			x.Cut()
		default:
			go func() {
				<-release
				x.Event("2", 0, []byte("2"))
				x.Flush()
				x.Event("3", 0, []byte("3"))
				x.Finish()
			}()
		}
	}, del: func(x *Exchange) {}}
}

// servers are the kinds of connections that the handler does not take over, or not without TLS.
var servers = map[string]func(t *testing.T, h http.Handler) (*http.Client, string){
	"http2": func(t *testing.T, h http.Handler) (*http.Client, string) {
		s := httptest.NewUnstartedServer(h)
		s.EnableHTTP2 = true
		s.StartTLS()
		t.Cleanup(s.Close)
		return s.Client(), s.URL
	},
	"https": func(t *testing.T, h http.Handler) (*http.Client, string) {
		s := httptest.NewTLSServer(h)
		t.Cleanup(s.Close)
		return s.Client(), s.URL
	},
	"wrapped": func(t *testing.T, h http.Handler) (*http.Client, string) {
		s := httptest.NewServer(wrap(h, func(w http.ResponseWriter) http.ResponseWriter { return opaque{w} }))
		t.Cleanup(s.Close)
		return s.Client(), s.URL
	},
	"boastful": func(t *testing.T, h http.Handler) (*http.Client, string) {
		s := httptest.NewServer(wrap(h, func(w http.ResponseWriter) http.ResponseWriter { return boastful{opaque{w}} }))
		t.Cleanup(s.Close)
		return s.Client(), s.URL
	},
}

func TestInline(t *testing.T) {
	t.Parallel()
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{}, 1)
			h := NewHandler(inlineDispatcher(release), Options{})
			client, url := start(t, h)
			try := func(method, body, last string) (*http.Response, error) {
				r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Content-Type", typeJSON)
				r.Header.Set("Accept", typeJSON+", "+typeSSE)
				if last != "" {
					r.Header.Set("Last-Event-ID", last)
				}
				resp, err := client.Do(r)
				if err == nil {
					t.Cleanup(func() { resp.Body.Close() })
				}
				return resp, err
			}
			request := func(method, body, last string) *http.Response {
				resp, err := try(method, body, last)
				if err != nil {
					t.Fatalf("%s: %v", method, err)
				}
				return resp
			}
			if name == "http2" && request("POST", ping, "").ProtoMajor != 2 {
				t.Fatal("not HTTP/2")
			}
			resp := request("POST", ping, "")
			if body, err := io.ReadAll(resp.Body); resp.StatusCode != 200 || string(body) != ping || err != nil {
				t.Errorf("POST: got %d %s, %v", resp.StatusCode, body, err)
			}
			resp = request("DELETE", "", "")
			if body, _ := io.ReadAll(resp.Body); resp.StatusCode != 500 || !strings.Contains(string(body), "-32603") {
				t.Errorf("DELETE without an answer: got %d %s", resp.StatusCode, body)
			}

			resp = request("GET", "", "")
			e := &events{bufio.NewReader(resp.Body)}
			first, err := e.first()
			if err != nil || first.ID != "1" || resp.Header.Get("Mcp-Session-Id") != "s" || resp.Header.Get("Content-Type") != typeSSE {
				t.Errorf("first event: %v, %v, %v", first, err, resp.Header)
			}
			release <- struct{}{}
			got, err := all(e.r)
			if diff := cmp.Diff(got, []event{{ID: "2", Data: "2"}, {ID: "3", Data: "3"}}); diff != "" || err != nil {
				t.Errorf("events, %v (-got +want):\n%s", err, diff)
			}

			for _, how := range []string{"cut", "panic"} {
				if how == "cut" {
					release <- struct{}{}
				}
				resp, err := try("GET", "", how)
				if err != nil {
					continue
				}
				if got, err := all(resp.Body); err == nil {
					t.Errorf("%s: got %v and a proper end", how, got)
				}
			}
			settled(t, h)
		})
	}
}

// TestInlineClientGone has an HTTP/2 client leave an idle stream, which the handler notices at once.
func TestInlineClientGone(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	h := NewHandler(funcs{get: func(x *Exchange) {
		x.Gone(func() { close(gone) })
		x.Open()
	}}, Options{})
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	r, _ := http.NewRequestWithContext(t.Context(), "GET", s.URL, nil)
	r.Header.Set("Accept", typeSSE)
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	wait(t, "Gone", gone)
	settled(t, h)
}

// TestRecorder shows how a program that embeds the handler tests it.
func TestRecorder(t *testing.T) {
	t.Parallel()
	release := make(chan struct{}, 1)
	release <- struct{}{}
	h := NewHandler(inlineDispatcher(release), Options{})
	r := httptest.NewRequest("GET", "/mcp", nil)
	r.Header.Set("Accept", "*/*")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if got, err := all(w.Body); err != nil || len(got) != 3 || w.Code != 200 {
		t.Errorf("got %d %v, %v", w.Code, got, err)
	}
}

// TestDispatcherEndsItsGoroutine has the dispatcher end its goroutine after its answer: over every kind of connection the
// client gets the whole response, and the next request is served.
func TestDispatcherEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	kinds := maps.Clone(servers)
	kinds["http"] = func(t *testing.T, h http.Handler) (*http.Client, string) {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.Client(), s.URL
	}
	kinds["front"] = func(t *testing.T, h http.Handler) (*http.Client, string) {
		s := httptest.NewUnstartedServer(h)
		Configure(s.Config)
		s.Listener = http1.NewFront(s.Listener, s.Config)
		s.Start()
		t.Cleanup(s.Close)
		return s.Client(), s.URL
	}
	for name, start := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, url := start(t, NewHandler(funcs{post: func(x *Exchange) {
				if x.Header.Get("Connection") == "" {
					x.AnswerLast(200, x.Body)
				} else {
					x.Answer(200, x.Body)
				}
				runtime.Goexit()
			}}, Options{}))
			for i := range 4 {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(ping))
				if err != nil {
					t.Fatal(err)
				}
				r.Close = i%2 == 0 // the answer does not say that it is the last
				r.Header.Set("Content-Type", typeJSON)
				r.Header.Set("Accept", typeJSON+", "+typeSSE)
				resp, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || string(body) != ping || resp.StatusCode != 200 {
					t.Errorf("got %s %q, %v", resp.Status, body, err)
				}
			}
		})
	}
}
