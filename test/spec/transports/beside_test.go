package transports_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestHandlerBesideServers asks for paths of HTTPOptions.Handler, on both listeners, and for those that are not its own.
func TestHandlerBesideServers(t *testing.T) {
	t.Parallel()
	for _, netHTTP := range []bool{false, true} {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /.well-known/oauth-protected-resource", func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "metadata for ", r.RemoteAddr != "", r.Header.Get("Authorization"))
		})
		mux.HandleFunc("POST /hook", func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			fmt.Fprint(w, len(body), err)
		})
		mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "home of "+r.URL.Path) })
		var middle atomic.Int64
		h := host.NewLoopback(t, troupe.Options{
			HTTP:         troupe.HTTPOptions{Handler: mux, NetHTTP: netHTTP},
			Authenticate: func(*http.Request) (troupe.Principal, error) { return troupe.Principal{}, io.EOF },
			Middleware: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { middle.Add(1); next.ServeHTTP(w, r) })
			},
		}, nil, nil)
		base := strings.TrimSuffix(h.URL, "/mcp")
		ask := func(method, path, body string, headers ...string) string {
			r, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i < len(headers); i += 2 {
				if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
					r.Host = headers[i+1]
				}
			}
			res, err := h.HTTP.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			text, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(res.StatusCode, " ", string(text))
		}
		for _, tt := range []struct{ method, path, want string }{
			{"GET", "/.well-known/oauth-protected-resource", "200 metadata for true"},
			{"POST", "/hook", "200 4 <nil>"},
			{"GET", "/", "200 home of /"},
			{"GET", "/mcp/x", "200 home of /mcp/x"},
			{"GET", "/metrics", "200 home of /metrics"}, // without Telemetry.Metrics
			{"GET", "/healthz", "200 ok\n"},
			{"POST", "/healthz", "404 404 page not found\n"},
		} {
			if got := ask(tt.method, tt.path, "body"); got != tt.want {
				t.Errorf("%s %s: %q, want %q", tt.method, tt.path, got, tt.want)
			}
		}
		if middle := middle.Load(); middle != 1 { // the POST of a probe goes where it went before
			t.Errorf("Middleware has seen %d requests", middle)
		}
		if got := ask("POST", "/mcp", host.InitializeRequest); !strings.HasPrefix(got, "401 ") {
			t.Errorf("the server: %s", got)
		}
		for _, names := range [][]string{{"Host", "evil.example"}, {"Origin", "https://evil.example"}} {
			if got := ask("GET", "/", "", names...); !strings.HasPrefix(got, "403 ") {
				t.Errorf("%v: %s", names, got)
			}
		}
	}
}

// TestHandlerThatClashes checks that a pattern that would never be asked is refused, and one that has more paths is not.
func TestHandlerThatClashes(t *testing.T) {
	t.Parallel()
	handler := func(patterns ...string) troupe.Options {
		mux := http.NewServeMux()
		for _, p := range patterns {
			mux.Handle(p, http.NotFoundHandler())
		}
		return troupe.Options{HTTP: troupe.HTTPOptions{Handler: mux}, Telemetry: troupe.Telemetry{Metrics: http.NotFoundHandler()}, Listen: "127.0.0.1:0"}
	}
	if _, err := troupe.New(troupe.Options{HTTP: troupe.HTTPOptions{Handler: (*http.ServeMux)(nil)}}); err == nil || !strings.Contains(err.Error(), "Options.HTTP.Handler is a nil *http.ServeMux") {
		t.Errorf("a nil ServeMux: %v", err)
	}
	for pattern, path := range map[string]string{"/healthz": "/healthz", "GET /readyz": "/readyz", "/metrics": "/metrics"} {
		_, err := troupe.New(handler(pattern))
		if want := "Options.HTTP.Handler has a pattern for " + path + ", which is never asked: Serve answers that path"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", pattern, err)
		}
	}
	for pattern, clashes := range map[string]bool{"POST /mcp": true, "/sse": true, "DELETE /mcp": true, "/": false, "/{any}": false, "/mcp/": false} {
		o := handler(pattern)
		rt, err := troupe.New(o)
		if err != nil {
			t.Fatal(err)
		}
		err = rt.TryMount("/mcp", troupe.NewServer(mcp.Implementation{Name: "x", Version: "1"}, nil))
		if got := err != nil && strings.Contains(err.Error(), "mount /mcp: Options.HTTP.Handler has a pattern for /"); got != clashes {
			t.Errorf("%s: %v", pattern, err)
		}
		if err := rt.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	o := handler() // a pattern that comes after the server
	rt, err := troupe.New(o)
	if err != nil {
		t.Fatal(err)
	}
	rt.Mount("/mcp", troupe.NewServer(mcp.Implementation{Name: "x", Version: "1"}, nil))
	o.HTTP.Handler.(*http.ServeMux).Handle("/mcp", http.NotFoundHandler())
	if err := rt.Serve(t.Context()); err == nil || !strings.Contains(err.Error(), "the server main answers that path") {
		t.Errorf("Serve: %v", err)
	}
}

// serveBubble serves a Runtime with a handler beside its server, in virtual time.
func serveBubble(t *testing.T, o troupe.Options, h http.HandlerFunc) (ln *kit.Listener, client *http.Client, end func() error) {
	o.HTTP.Handler, o.DrainDelay, o.Store.NoSocket = h, -1, true
	o.Log = slog.New(slog.DiscardHandler)
	rt, err := troupe.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ln = kit.NewListener()
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- rt.ServeOn(ctx, ln) }()
	tr := &http.Transport{DialContext: ln.Dial}
	t.Cleanup(tr.CloseIdleConnections)
	return ln, &http.Client{Transport: tr}, func() error { stop(); return <-served }
}

// TestDrainWaitsForHandler ends Serve while a request of HTTPOptions.Handler runs: it has DrainWait to end, and no more.
func TestDrainWaitsForHandler(t *testing.T) {
	for _, tt := range []struct {
		takes time.Duration
		want  string
	}{{20 * time.Second, "200 done"}, {2 * time.Minute, "cut"}} {
		kit.Bubble(t, func(t *testing.T) {
			began := make(chan struct{})
			_, client, end := serveBubble(t, troupe.Options{DrainWait: 25 * time.Second}, func(w http.ResponseWriter, r *http.Request) {
				close(began)
				select {
				case <-time.After(tt.takes):
					fmt.Fprint(w, "done")
				case <-r.Context().Done():
				}
			})
			answered := make(chan string, 1)
			go func() {
				res, err := client.Get("http://127.0.0.1/report")
				if err != nil {
					answered <- "cut"
					return
				}
				defer res.Body.Close()
				text, _ := io.ReadAll(res.Body)
				answered <- fmt.Sprint(res.StatusCode, " ", string(text))
			}()
			<-began
			start := time.Now()
			if err := end(); err != nil {
				t.Errorf("serve: %v", err)
			}
			if got := <-answered; got != tt.want {
				t.Errorf("a request of %v: %s, want %s", tt.takes, got, tt.want)
			}
			if took := time.Since(start); took < min(tt.takes, 25*time.Second) || took > 40*time.Second {
				t.Errorf("a request of %v: the drain took %v", tt.takes, took)
			}
		})
	}
}

// TestHandlerWithASlowBody sends a body that does not come: the handler gets an error once BodyTimeout is over.
func TestHandlerWithASlowBody(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		ended := make(chan time.Duration, 1)
		ln, _, end := serveBubble(t, troupe.Options{Limits: troupe.Limits{BodyTimeout: 5 * time.Second}}, func(w http.ResponseWriter, r *http.Request) {
			start := time.Now()
			if _, err := io.ReadAll(r.Body); err == nil {
				t.Error("the body came")
			}
			ended <- time.Since(start)
		})
		conn, err := ln.Dial(t.Context(), "tcp", "127.0.0.1:80")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := fmt.Fprint(conn, "POST /hook HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\nhalf"); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, bufio.NewReader(conn)) }()
		if took := <-ended; took.Round(time.Second) != 5*time.Second {
			t.Errorf("the body had %v", took)
		}
		_ = conn.Close()
		if err := end(); err != nil {
			t.Error(err)
		}
	})
}
