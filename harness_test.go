package troupe_test

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/testkit"
	"github.com/troupe-run/troupe/mcp"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// host is a runtime with one server behind an in-memory listener.
type host struct {
	t   *testing.T
	rt  *troupe.Runtime
	srv *troupe.Server
	ln  *testkit.Listener
	web *http.Client
	url string
	m   *meter // what the runtime reports
}

// unhurried are rates that tests with many calls do not reach; the limiter runs
// none the less.
var unhurried = troupe.Options{LogRate: -1, CallRate: 1e6, PrincipalRate: 1e6}

// newHost serves the test tools. It may be used inside and outside of a bubble.
func newHost(t *testing.T, o troupe.Options, so *troupe.ServerOptions) *host {
	t.Helper()
	if o.Sync == 0 {
		o.Sync = time.Hour // A flush takes its time on the disk, also where hours pass in no time.
	}
	m := metered(&o)
	rt, err := troupe.New(o)
	if err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, rt: rt, m: m, srv: troupe.NewServer(mcp.Implementation{Name: "test", Version: "1"}, so), ln: testkit.NewListener(), url: "http://127.0.0.1/mcp"}
	addTestTools(h.srv)
	rt.Mount("/mcp", h.srv)
	hs := &http.Server{Handler: rt}
	go func() { _ = hs.Serve(h.ln) }()
	tr := &http.Transport{DialContext: h.ln.Dial, MaxIdleConnsPerHost: 100}
	h.web = &http.Client{Transport: tr}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := rt.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		tr.CloseIdleConnections()
		_ = hs.Close()
	})
	return h
}

// newLoopbackHost is newHost on a real listener of the loopback interface, with
// the limits that Serve sets, and where no call becomes a stream by taking long. wrap may change the listener; nil leaves it. It
// does not work in a bubble.
func newLoopbackHost(t *testing.T, o troupe.Options, so *troupe.ServerOptions, wrap func(net.Listener) net.Listener) *host {
	t.Helper()
	o.DrainDelay, o.DrainWait = -1, time.Second
	o.Grace = cmp.Or(o.Grace, time.Minute) // a busy machine makes no streams of short calls
	m := metered(&o)
	rt, err := troupe.New(o)
	if err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, rt: rt, m: m, srv: troupe.NewServer(mcp.Implementation{Name: "test", Version: "1"}, so)}
	addTestTools(h.srv)
	rt.Mount("/mcp", h.srv)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.url = "http://" + ln.Addr().String() + "/mcp"
	if wrap != nil {
		ln = wrap(ln)
	}
	tr := &http.Transport{MaxIdleConnsPerHost: 100}
	h.web = &http.Client{Transport: tr}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- rt.ServeOn(ctx, ln) }()
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return h
}

// client returns a client without a session. What it receives is held against
// the official schema.
func (h *host) client() *testkit.Client {
	c := h.unchecked()
	conform(c)
	return c
}

// unchecked is a client whose answers are not held against the schema: for many
// of them.
func (h *host) unchecked() *testkit.Client {
	return &testkit.Client{T: h.t, HTTP: h.web, URL: h.url}
}

// session returns a client with a session that can answer everything.
func (h *host) session() *testkit.Client {
	h.t.Helper()
	return h.client().Initialize(`{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`)
}

type (
	echoIn struct {
		Text string `json:"text"`
	}
	countIn struct {
		To      int `json:"to"`
		DelayMS int `json:"delay_ms,omitempty"`
	}
	sleepIn struct {
		MS int `json:"ms"`
	}
	askIn struct {
		Question string `json:"question"`
	}
)

// form is a form with one required string, answer.
var form = mcp.FormSchema{Properties: []mcp.Property{{Name: "answer", Schema: &mcp.StringSchema{}}}, Required: []string{"answer"}}

func addTestTools(s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{Name: "echo", Description: "Echoes.", Rerun: troupe.Safe},
		func(_ context.Context, _ *troupe.Call, in echoIn) (string, error) { return in.Text, nil })
	troupe.AddTool(s, troupe.Tool{Name: "count", Description: "Counts.", Rerun: troupe.Safe},
		func(ctx context.Context, call *troupe.Call, in countIn) (string, error) {
			for i := 1; i <= in.To; i++ {
				if err := call.Progress(ctx, float64(i), float64(in.To), ""); err != nil {
					return "", err
				}
				if err := sleep(ctx, in.DelayMS); err != nil {
					return "", err
				}
			}
			return fmt.Sprintf("counted to %d", in.To), nil
		})
	troupe.AddTool(s, troupe.Tool{Name: "sleep", Description: "Sleeps."},
		func(ctx context.Context, _ *troupe.Call, in sleepIn) (string, error) {
			if err := sleep(ctx, in.MS); err != nil {
				return "", err
			}
			return "slept", nil
		})
	troupe.AddTool(s, troupe.Tool{Name: "ask", Description: "Asks.", Needs: troupe.NeedsElicitation, Rerun: troupe.Safe},
		func(ctx context.Context, call *troupe.Call, in askIn) (string, error) {
			r, err := call.Elicit(ctx, in.Question, form)
			if err != nil {
				return "", err
			}
			return string(r.Action) + " " + string(r.Content), nil
		})
	troupe.AddTool(s, troupe.Tool{Name: "askslow", Description: "Asks, and takes an hour after that.", Needs: troupe.NeedsElicitation, Rerun: troupe.Safe},
		func(ctx context.Context, call *troupe.Call, in askIn) (string, error) {
			r, err := call.Elicit(ctx, in.Question, form)
			if err != nil {
				return "", err
			}
			if call.Attempt() == 1 {
				err = sleep(ctx, 3600000)
			}
			return string(r.Action) + " " + string(r.Content), err
		})
	troupe.AddTool(s, troupe.Tool{Name: "panic", Description: "Panics."},
		func(context.Context, *troupe.Call, struct{}) (string, error) { panic("on purpose") })
	troupe.AddTool(s, troupe.Tool{Name: "log", Description: "Logs at every level."},
		func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			for _, l := range []mcp.LoggingLevel{mcp.LevelDebug, mcp.LevelInfo, mcp.LevelWarning, mcp.LevelError} {
				if err := call.Log(ctx, l, "test", string(l)); err != nil {
					return "", err
				}
			}
			return "logged", nil
		})
	troupe.AddTool(s, troupe.Tool{Name: "chatter", Description: "Logs on the call's stream."},
		func(ctx context.Context, call *troupe.Call, in countIn) (string, error) {
			for i := range in.To {
				if err := call.Log(ctx, mcp.LevelInfo, "chatter", i); err != nil {
					return "", err
				}
			}
			return "done", nil
		})
	troupe.AddTool(s, troupe.Tool{Name: "tick", Description: "Logs on the standalone stream."},
		func(ctx context.Context, call *troupe.Call, in countIn) (string, error) {
			for i := 1; i <= in.To; i++ {
				if err := call.Peer().Log(ctx, mcp.LevelInfo, "tick", i); err != nil {
					return "", err
				}
				if err := sleep(ctx, in.DelayMS); err != nil {
					return "", err
				}
			}
			return "ticked", nil
		})
	troupe.AddTool(s, troupe.Tool{Name: "pingback", Description: "Pings the client."},
		func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			return "pong", call.Ping(ctx)
		})
	troupe.AddTool(s, troupe.Tool{Name: "away", Description: "Closes the connection, and answers later."},
		func(ctx context.Context, call *troupe.Call, in sleepIn) (string, error) {
			call.Disconnect()
			if err := sleep(ctx, in.MS); err != nil {
				return "", err
			}
			return "back", nil
		})
	troupe.AddResource(s, mcp.Resource{URI: "test://one", Name: "one"},
		func(_ context.Context, _ *troupe.Call, uri string, _ map[string]string) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{mcp.TextResource(uri, "text/plain", "one")}, nil
		})
	troupe.AddResourceTemplate(s, mcp.ResourceTemplate{URITemplate: "test://items/{id}", Name: "item"},
		func(_ context.Context, _ *troupe.Call, uri string, vars map[string]string) ([]mcp.ResourceContents, error) {
			if vars["id"] == "none" {
				return nil, troupe.ErrNotFound
			}
			return []mcp.ResourceContents{mcp.TextResource(uri, "text/plain", vars["id"])}, nil
		})
	troupe.AddPrompt(s, troupe.Prompt{Name: "greet", Description: "Greets.", Arguments: []mcp.PromptArgument{{Name: "who", Required: true}}},
		func(_ context.Context, _ *troupe.Call, args map[string]string) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Role: mcp.RoleUser, Content: mcp.Text("Hello " + args["who"])}}}, nil
		})
}

func sleep(ctx context.Context, ms int) error {
	if ms == 0 {
		return nil
	}
	select {
	case <-time.After(time.Duration(ms) * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// call is a tools/call request.
func call(id, tool, args string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + args + `}}`
}

// callWith is call with a progress token.
func callWith(id, tool, args, token string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + args + `,"_meta":{"progressToken":` + token + `}}}`
}

func textResult(id, text string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[{"type":"text","text":"` + text + `"}]}}`
}

// payloads are the data of events, priming events left out.
func payloads(events []testkit.Event) []string {
	var all []string
	for _, e := range events {
		if e.Data != "" {
			all = append(all, e.Data)
		}
	}
	return all
}

func equal(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %.2000s\nwant %.2000s", what, got, want)
	}
}

func contains(t *testing.T, what, got, want string) {
	t.Helper()
	if !strings.Contains(got, want) {
		t.Errorf("%s: got %s, which lacks %s", what, got, want)
	}
}

// sized is full, or small below the race detector, which makes everything many times
// slower: what a test is about in full is run without it.
func sized[T any](full, small T) T {
	if raceEnabled {
		return small
	}
	return full
}
