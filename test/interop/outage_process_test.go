//go:build full

package interop

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// away is how long the server of TestOutage does not run: longer than a start takes, so that clients that come back in
// time find no server at first.
const away = 5 * time.Second

// pastime is what a session does while its server is away.
type pastime struct {
	name, tool string // no tool: it listens only
	args       map[string]any
	result     string
}

var pastimes = []pastime{
	{name: "a call with progress", tool: "count", args: map[string]any{"to": 10, "delay_ms": 1000}, result: "counted to 10"},
	{name: "a silent call", tool: "sleep", args: map[string]any{"ms": 10_000}, result: "slept 10000 ms"},
	{name: "listening only"},
}

// outage is a server that goes away when all participants are busy, and is back after 5 s.
type outage struct {
	server *server
	data   string
	// A participant that is connected waits for begin, so that no call is over before the last one has begun.
	connected, busy sync.WaitGroup
	begin           chan struct{}
	back            chan struct{} // closed once it serves again
	gone, at        time.Time     // when it went and when it was back; read them after back
}

// TestOutage takes the server away for 5 s under clients with default settings: the SDKs' own, and the server's time to
// come back. Everything goes on by itself, in the same client: the running call gets its result, another call works,
// and the session's standalone stream carries its messages.
func TestOutage(t *testing.T) {
	t.Parallel()
	var modules string
	t.Run("npm", func(t *testing.T) { modules = nodeModules(t) }) // only the parts that need it are skipped without it
	var both sync.WaitGroup                                       // it is one of the parallel tests, because it waits most of the time
	for _, how := range []string{"killed", "ended in order"} {
		both.Go(func() { t.Run(how, func(t *testing.T) { outlive(t, how, modules) }) })
	}
	both.Wait()
}

// outlive takes one server away, once.
func outlive(t *testing.T, how, modules string) {
	data := t.TempDir()
	o := &outage{server: start(t, "--data", data), data: data, begin: make(chan struct{}), back: make(chan struct{})}
	endpoint := o.server.endpoint
	var all sync.WaitGroup
	defer all.Wait()
	client := func(name string, run func(t *testing.T, connected, busy func())) {
		o.connected.Add(1)
		o.busy.Add(1)
		all.Go(func() {
			connected, busy := sync.OnceFunc(o.connected.Done), sync.OnceFunc(o.busy.Done)
			defer connected() // also when it fails, or must not run
			defer busy()
			t.Run(name, func(t *testing.T) { run(t, connected, busy) })
		})
	}
	for _, p := range pastimes {
		client("Go/"+p.name, func(t *testing.T, connected, busy func()) { outliveGo(t, endpoint, p, o, connected, busy) })
	}
	for _, release := range outliving {
		if modules != "" {
			client("TypeScript/"+release, func(t *testing.T, connected, busy func()) {
				outliveTypeScript(t, endpoint, modules, release, o, connected, busy)
			})
		}
	}
	o.takePlace(t, how)
}

// takePlace ends the server and starts it again on its directory.
func (o *outage) takePlace(t *testing.T, how string) {
	defer close(o.back)
	o.connected.Wait()
	close(o.begin)
	o.busy.Wait()
	if how == "killed" {
		o.server.kill()
	} else if err := o.server.stop(); err != nil {
		t.Error(err)
	}
	o.gone = time.Now()
	pause := away
	if len(buildFlags) > 0 { // under the race detector a start takes some seconds itself
		pause -= 3 * time.Second
	}
	time.Sleep(pause)
	o.server.restart(t, "--data", o.data)
	o.at = time.Now()
	t.Logf("nobody served for %.2f s", o.at.Sub(o.gone).Seconds())
}

// outliveGo is one session of the Go SDK.
func outliveGo(t *testing.T, endpoint string, p pastime, o *outage, connected, busy func()) {
	c := &client{wire: newWire()}
	defer c.wire.base.CloseIdleConnections()
	session := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1.0.0"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			c.note(func() {
				c.progress = append(c.progress, step{r.Params.ProgressToken, r.Params.Progress, r.Params.Total})
			})
		},
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) {
			c.note(func() { c.logs = append(c.logs, entry{r.Params.Level, r.Params.Logger, r.Params.Data}) })
		},
	})
	returns := &returns{base: c.wire}
	transport := &mcp.StreamableClientTransport{Endpoint: endpoint, HTTPClient: &http.Client{Transport: returns}}
	var err error
	if c.ClientSession, err = session.Connect(within(t), transport, &mcp.ClientSessionOptions{ProtocolVersion: revision}); err != nil {
		t.Fatal(err)
	}
	defer c.Close() // Close returns the error of a failed connection, which the calls below return as well
	ticks := func(n int) {
		t.Helper()
		eventually(t, func() bool { return !c.call(t, "tick", map[string]any{"n": n}).IsError }, func() string { return "the session has no stream of its own" })
		last := fmt.Sprintf("%d of %d", n, n)
		eventually(t, func() (heard bool) {
			c.note(func() { heard = slices.Contains(c.logs, entry{"info", "tick", last}) })
			return heard
		}, func() string { return "what belongs to no call does not come:\n" + c.transcript() })
	}
	ticks(1)
	connected()
	<-o.begin

	// A call may wait for the server, and then runs for its usual time.
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	done := make(chan outcome, 1)
	if p.tool != "" {
		go func() {
			params := &mcp.CallToolParams{Name: p.tool, Arguments: p.args}
			params.SetProgressToken("t")
			r, err := c.CallTool(ctx, params)
			done <- outcome{r, err}
		}()
		eventually(t, func() bool {
			x := c.wire.find(func(x seen) bool {
				return calls("tools/call")(x) && strings.Contains(string(x.sent.Params), p.tool) && x.lastID != ""
			})
			return len(x) > 0 && (p.tool != "count" || slices.Contains(c.progressed(), 2))
		}, func() string { return "the call does not begin:\n" + c.transcript() })
	}
	busy()

	var resolved time.Time
	if p.tool != "" {
		var got outcome
		select {
		case got = <-done:
		case <-ctx.Done():
			t.Fatalf("the call does not return:\n%s", c.transcript())
		}
		resolved = time.Now()
		if got.err != nil {
			t.Fatalf("the call that was interrupted: %v\n%s", got.err, c.transcript())
		}
		sameJSON(t, "result", got.result, text(p.result))
		if p.tool == "count" {
			want := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
			eventually(t, func() bool { return slices.Equal(c.progressed(), want) }, // handlers may be slower than the result
				func() string { return fmt.Sprintf("progress came as %v, want %v", c.progressed(), want) })
		}
	}
	<-o.back
	sameJSON(t, "echo after the restart", c.call(t, "echo", map[string]any{"text": "still here"}), text("still here"))
	ticks(2)
	o.tell(t, resolved, returns.moments())
}

// tell logs how long after the server was back a call had its result, and how long after it streams were opened. The
// test reads a little late when the server serves, so a client may be faster.
func (o *outage) tell(t *testing.T, resolved time.Time, returned []time.Time) {
	t.Helper()
	if !resolved.IsZero() {
		t.Logf("the call had its result %.2f s after the server was back", resolved.Sub(o.at).Seconds())
		if resolved.Before(o.gone) {
			t.Error("the call was over before the server went away")
		}
	}
	for _, at := range returned {
		if at.After(o.at.Add(-away / 2)) {
			t.Logf("a stream was opened again %.2f s after it was back", at.Sub(o.at).Seconds())
		}
	}
}

// returns keeps when event streams were opened with GET.
type returns struct {
	base http.RoundTripper

	mu sync.Mutex // guards the rest
	at []time.Time
}

func (r *returns) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.base.RoundTrip(req)
	if err == nil && req.Method == http.MethodGet && resp.StatusCode == http.StatusOK {
		r.mu.Lock()
		r.at = append(r.at, time.Now())
		r.mu.Unlock()
	}
	return resp, err
}

func (r *returns) moments() []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.at)
}
