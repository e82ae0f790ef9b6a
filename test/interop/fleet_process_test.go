//go:build full

package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// lasting is how long tests of a fleet wait for what takes a minute or two.
const lasting = 10 * time.Minute

// fleet is some nodes that share a NATS server, behind a front.
type fleet struct {
	front *front
	nodes []*process
	flags [][]string // of each node
}

// startNATS starts a NATS server and returns its URL. It ends with the test.
func startNATS(t *testing.T) string {
	t.Helper()
	path, err := lab()
	if err != nil {
		t.Fatal(err)
	}
	server := exec.Command(path, "nats", "--data", t.TempDir())
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill() // it may have ended
		_ = server.Wait()
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the NATS server does not start: %v", err)
	}
	return strings.TrimSpace(url)
}

// startFleet starts a node for each list of flags. At the end each must end in order.
func startFleet(t *testing.T, flags ...[]string) *fleet {
	t.Helper()
	nats := startNATS(t)
	f := &fleet{flags: flags}
	t.Cleanup(func() {
		for i, p := range f.nodes {
			if err := p.stopWithin(lasting); err != nil {
				t.Errorf("node %d: %v", i, err)
			}
			if t.Failed() {
				t.Logf("the log of node %d:\n%s", i, p.logged())
			}
		}
	})
	for i := range flags {
		f.flags[i] = append([]string{"--nats", nats, "--node", fmt.Sprintf("node-%d", i), "--set", "lease=5s"}, flags[i]...)
		p, err := launch("127.0.0.1:0", f.flags[i]...)
		if err != nil {
			t.Fatal(err)
		}
		f.nodes = append(f.nodes, p)
		p.awaitReady(t)
	}
	f.front = newFront(t, f.nodes)
	return f
}

// again starts a node that has ended, with its name and address.
func (f *fleet) again(t *testing.T, i int) {
	t.Helper()
	p, err := launch(f.nodes[i].addr, f.flags[i]...)
	if err != nil {
		t.Fatal(err)
	}
	f.nodes[i] = p
	p.awaitReady(t)
}

// awaitReady waits until the process says that it takes requests.
func (s *process) awaitReady(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), lasting, errors.New("the node is not ready"))
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addr+"/readyz", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = resp.Body.Close() // it was not read
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%v: %v\n%s", context.Cause(ctx), err, s.logged())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// front is a load balancer that knows none of its clients: each request goes to the next node, and from one that refuses the connection or
// answers with 503 to the one after it. Only long calls, and what resumes a stream, go first to the node that the test is to harm. What each
// client is given is kept, by the parameter "client" of the URL that it has.
type front struct {
	url   string
	nodes []string // addresses

	mu    sync.Mutex // guards the rest
	turn  int
	wires map[string]*wire
	pins  map[string]int // node that gets the long calls of a client
	aim   int            // node that gets what resumes a stream, -1 for any
}

type clientKey struct{}

func newFront(t *testing.T, nodes []*process) *front {
	f := &front{wires: make(map[string]*wire), pins: make(map[string]int), aim: -1}
	for _, p := range nodes {
		f.nodes = append(f.nodes, p.addr)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.RawQuery, r.Out.Host = "http", "", ""
			*r.Out = *r.Out.WithContext(context.WithValue(r.Out.Context(), clientKey{}, r.In.URL.Query().Get("client")))
		},
		Transport:     f,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }, // as if there were no front
	}
	server := httptest.NewUnstartedServer(proxy)
	server.Config.ErrorLog = proxy.ErrorLog
	server.Start()
	t.Cleanup(server.CloseClientConnections)
	f.url = server.URL
	return f
}

// endpoint is the URL for a client. pin is the node that gets its long calls.
func (f *front) endpoint(client string, pin int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := newWire()
	w.base.DisableKeepAlives = true // what a node gets that has ended must not have been sent to it
	f.wires[client], f.pins[client] = w, pin
	return f.url + "/mcp?client=" + client
}

// free has long calls go to any node.
func (f *front) free() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.pins)
}

// aimAt has what resumes a stream go to a node, or to any for -1.
func (f *front) aimAt(node int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.aim = node
}

// choose returns the wire of a client, and the node that is to get a request first.
func (f *front) choose(req *http.Request, body []byte) (*wire, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	client, _ := req.Context().Value(clientKey{}).(string)
	f.turn++
	first := f.turn
	if pin, ok := f.pins[client]; ok && isLong(body) {
		first = pin
	} else if f.aim >= 0 && req.Header.Get("Last-Event-Id") != "" {
		first = f.aim
	}
	return f.wires[client], first
}

// isLong reports whether a request makes the long call.
func isLong(body []byte) bool {
	var m struct {
		Method string
		Params struct{ Name string }
	}
	return json.Unmarshal(body, &m) == nil && m.Method == "tools/call" && m.Params.Name == "count"
}

// RoundTrip sends a request to one node after the other until one takes it.
func (f *front) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
	}
	wire, first := f.choose(req, body)
	if wire == nil {
		return nil, errors.New("nobody knows the client")
	}
	for k := range f.nodes {
		out := req.Clone(req.Context())
		out.URL.Host = f.nodes[(first+k)%len(f.nodes)]
		out.Header.Set(nodeHeader, fmt.Sprintf("node %d: ", (first+k)%len(f.nodes)))
		if len(body) > 0 {
			out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
			out.Body, _ = out.GetBody()
		}
		resp, err := wire.RoundTrip(out)
		last := k == len(f.nodes)-1
		var op *net.OpError
		switch {
		case err == nil && (resp.StatusCode != http.StatusServiceUnavailable || last):
			return resp, nil
		case err == nil:
			_ = resp.Body.Close() // it is not read
		case last || !errors.As(err, &op) || op.Op != "dial":
			return nil, err
		}
	}
	panic("there are no nodes")
}

// transcript is what a client was given.
func (f *front) transcript(client string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wires[client].transcript()
}

// long is one long call that a client has made, as it was on the wire.
type long struct {
	node    string // that took it
	answers []message
	resumed int // how often its stream was resumed
}

// longs returns the long calls of a client, with all responses to each, whichever stream they came on.
func (f *front) longs(client string) (all []long) {
	f.mu.Lock()
	wire := f.wires[client]
	f.mu.Unlock()
	exchanges := wire.find(func(seen) bool { return true })
	for _, x := range exchanges {
		if !calls("tools/call")(x) || !strings.Contains(string(x.sent.Params), `"count"`) || x.status == 0 || x.status == http.StatusServiceUnavailable {
			continue
		}
		l := long{node: x.header.Get(nodeHeader)}
		stream, _, _ := strings.Cut(x.lastID, ".")
		for _, y := range exchanges {
			if stream != "" && resumes(y) && y.status == http.StatusOK && strings.HasPrefix(y.header.Get("Last-Event-Id"), stream+".") {
				l.resumed++
			}
			for _, m := range y.received {
				if m.Method == "" && bytes.Equal(m.ID, x.sent.ID) {
					l.answers = append(l.answers, m)
				}
			}
		}
		all = append(all, l)
	}
	return all
}

// stopWithin ends the process as a supervisor does, and waits for its end.
func (s *process) stopWithin(d time.Duration) error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-s.ended:
	case <-time.After(d):
	}
	return s.stop()
}
