package loadgen

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are in memory.
type pipes struct {
	conns chan net.Conn
	over  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.over:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.over) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }
func (p *pipes) dial(from, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- caller{there, from}:
		return here, nil
	case <-p.over:
		return nil, errors.New("refused")
	}
}

// caller is a connection from an address.
type caller struct {
	net.Conn
	from string
}

func (c caller) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.from)} }

// against runs f in virtual time with options for a server whose calls are answered by call. n
// counts calls, the first of which only shows that the tool is there.
func against(t *testing.T, call func(n int64, w http.ResponseWriter, id, text string), f func(t *testing.T, o Options)) {
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{conns: make(chan net.Conn), over: make(chan struct{})}
		var calls atomic.Int64
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			var m struct {
				ID     json.RawMessage
				Method string
				Params struct{ Arguments struct{ Text string } }
			}
			_ = json.Unmarshal(body, &m)
			w.Header().Set("Content-Type", "application/json")
			switch m.Method {
			case "initialize":
				w.Header().Set("Mcp-Session-Id", "s")
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":%q}}`, m.ID, DefaultRevision)
			case "tools/list":
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"echo"}]}}`, m.ID)
			case "tools/call":
				call(calls.Add(1)-1, w, string(m.ID), m.Params.Arguments.Text)
			default:
				w.WriteHeader(http.StatusAccepted)
			}
		})}
		go func() { _ = s.Serve(p) }()
		f(t, Options{URL: "http://server/mcp", Dial: p.dial})
		_ = s.Close()
		time.Sleep(2 * time.Minute) // for handlers that wait
	})
}

func answer(w http.ResponseWriter, id, text string) {
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`, id, text)
}

// TestStandstill: a server that stands still for a second while operations are due at a rate is
// late for all of them, and not only for those that had begun; a closed loop does not see that.
func TestStandstill(t *testing.T) {
	for name, row := range map[string]struct {
		rate        float64
		clients     int
		least, most int64   // operations
		p99         float64 // ms, at least
		late        bool
	}{
		"open loop":             {rate: 100, clients: 200, least: 1000, most: 1000, p99: 850},
		"open loop, few at all": {rate: 100, clients: 10, least: 1000, most: 1000, p99: 850, late: true},
		"closed loop":           {clients: 1, least: 800, most: 920, p99: 0},
	} {
		t.Run(name, func(t *testing.T) {
			var began time.Time
			against(t, func(_ int64, w http.ResponseWriter, id, text string) {
				if began.IsZero() {
					began = time.Now()
				}
				if at := time.Since(began); at > 4*time.Second && at < 5*time.Second {
					time.Sleep(5*time.Second - at)
				}
				time.Sleep(10 * time.Millisecond)
				answer(w, id, text)
			}, func(t *testing.T, o Options) {
				o.Rate, o.Clients = row.rate, row.clients
				r, err := Run(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				if r.Operations < row.least || r.Operations > row.most || r.Failed() > 0 {
					t.Errorf("%d operations, %v, want %d to %d", r.Operations, r.Errors, row.least, row.most)
				}
				if l := r.Latency; l.P99 < row.p99 || row.p99 == 0 && l.P99 > 20 || l.P50 > 15 {
					t.Errorf("latencies are %+v", l)
				}
				if r.Late > 0 != row.late {
					t.Errorf("%d were begun late", r.Late)
				}
			})
		})
	}
}

// TestTooSlow: what was due and never begun is counted as failed.
func TestTooSlow(t *testing.T) {
	against(t, func(_ int64, w http.ResponseWriter, id, text string) {
		time.Sleep(100 * time.Millisecond)
		answer(w, id, text)
	}, func(t *testing.T, o Options) {
		o.Rate, o.Clients, o.WarmUp = 100, 5, -1
		r, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if n := r.Errors["not begun"]; n+r.Operations != 1000 || r.Operations < 495 || r.Operations > 505 {
			t.Errorf("%d operations, %v", r.Operations, r.Errors)
		}
	})
}

// TestKindsOfErrors has a server fail in all ways.
func TestKindsOfErrors(t *testing.T) {
	against(t, func(n int64, w http.ResponseWriter, id, text string) {
		if n == 0 {
			answer(w, id, text)
			return
		}
		switch n % 8 {
		case 0:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 1:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no"}}`, id)
		case 2:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"isError":true,"content":[{"type":"text","text":"no"}]}}`, id)
		case 3:
			answer(w, "77777", text)
		case 4:
			answer(w, id, "something else")
		case 5:
			time.Sleep(time.Minute)
		case 6:
			panic(http.ErrAbortHandler)
		default:
			w.Header().Set("Connection", "close") // else the client of Go 1.27 reads on for a while, behind a lock that holds up virtual time
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, ": hello\n\nid: 1\ndata:\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\ndata: \"result\":{\"content\":[{\"type\":\"text\",\"text\":%q}]}}\n\n", id, text)
			w.(http.Flusher).Flush()
			time.Sleep(time.Minute) // It leaves the stream open behind the answer.
		}
	}, func(t *testing.T, o Options) {
		o.Clients, o.Timeout, o.Duration = 1, time.Second, time.Minute
		r, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for kind, each := range map[string]int64{"status 503": 1, "error -32602": 1, "tool error": 1, "wrong answer": 2, "timeout": 1, "connection": 1} {
			if n := r.Errors[kind]; n < each*r.Operations-3 || n > each*r.Operations+3 || n == 0 {
				t.Errorf("%d of %d failed by %q: %v %v", n, r.Operations, kind, r.Errors, r.Examples)
			}
		}
		if l := r.Latency; l.Max > 200 {
			t.Errorf("an answer took %v ms, and what comes behind it counts", l.Max)
		}
		if len(r.Errors) != 6 {
			t.Errorf("errors are %v", r.Errors)
		}
		file := filepath.Join(t.TempDir(), "report.json")
		if err := r.Write(file); err != nil {
			t.Fatal(err)
		}
		if again, err := Read(file); err != nil || !reflect.DeepEqual(again, r) {
			t.Errorf("read again it is %+v, %v", again, err)
		}
		var text strings.Builder
		if err := r.Print(&text); err != nil || !strings.Contains(text.String(), "status 503") || !strings.Contains(text.String(), "p99.9") {
			t.Errorf("printed it is %s, %v", text.String(), err)
		}
	})
}

// TestEndpoints: each of several endpoints gets as many requests, whichever client sends them.
func TestEndpoints(t *testing.T) {
	var mu sync.Mutex
	got := make(map[string]int)
	s := new(manyServer)
	s.asked = func(host string) {
		mu.Lock()
		defer mu.Unlock()
		got[host]++
	}
	s.serve(t, func(t *testing.T, o Options) {
		o.Others = []string{"http://second/mcp", "http://third/mcp"}
		o.Scenario, o.Count, o.Clients, o.Keep = "hold", 300, 3, true
		r, err := Run(t.Context(), o)
		judge(t, r, err, 300, map[string]int64{})
		for _, host := range []string{"server", "second", "third"} {
			if n := got[host]; n < 299 || n > 301 { // of 900 in all
				t.Errorf("%s got %d requests of %v", host, n, got)
			}
		}
	})
}

// TestBadOptions: what is wrong is said before anything is measured.
func TestBadOptions(t *testing.T) {
	against(t, func(_ int64, w http.ResponseWriter, id, _ string) { answer(w, id, "something else") }, func(t *testing.T, good Options) {
		for want, change := range map[string]func(o *Options){
			"no URL":                     func(o *Options) { o.URL = "server" },
			`"other" is no URL`:          func(o *Options) { o.Others = []string{"other"} },
			"no scenario is called":      func(o *Options) { o.Scenario = "dance" },
			"revision is":                func(o *Options) { o.Revision = "2020-01-01" },
			"clients are":                func(o *Options) { o.Clients = -1 },
			"rate is":                    func(o *Options) { o.Rate = -1 },
			"size is":                    func(o *Options) { o.Size = 1 << 40 },
			"duration":                   func(o *Options) { o.Duration = -1 },
			"has no tool \"count\"":      func(o *Options) { o.Scenario = "progress" },
			"speaks \"2025-11-25\"":      func(o *Options) { o.Revision = "2025-06-18" },
			"first operation failed":     func(*Options) {},
			"process 0 cannot be looked": func(o *Options) { o.PIDs = []int{0} },
			"has no sessions":            func(o *Options) { o.Scenario, o.Revision = "sessions", Stateless },
			"count is -1":                func(o *Options) { o.Scenario, o.Count = "hold", -1 },
			"echo has no count":          func(o *Options) { o.Count = 1 },
			"is no address":              func(o *Options) { o.From = "here" },
			"has no tool \"touch\"":      func(o *Options) { o.Scenario = "fanout" },
		} {
			o := good
			change(&o)
			if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("want an error with %q, got %v", want, err)
			}
		}
	})
}
