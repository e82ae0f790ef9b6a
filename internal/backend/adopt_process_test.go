//go:build linux

package backend

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend/pool"
	"github.com/troupe-run/troupe/internal/keeper"
)

// TestMain has the test's binary be a keeper, and a backend, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "keeper":
			os.Exit(keeper.Main(os.Args[2:]))
		case "backend":
			mk := &maker{handle: countsCalls()}
			if len(os.Args) > 2 {
				mk.handle = waitsFor(os.Args[2])
			}
			_ = mk.serve(context.Background(), os.Stdin, os.Stdout)
			os.Exit(0)
		case "repeats":
			_ = (&maker{handle: repeats}).serve(context.Background(), os.Stdin, os.Stdout)
			os.Exit(0)
		case "ends its keeper": // when its first process is to initialize
			if os.Mkdir(os.Args[2], 0o700) == nil {
				for d := json.NewDecoder(os.Stdin); ; {
					var m struct {
						ID     json.RawMessage
						Method string
					}
					if d.Decode(&m) != nil {
						os.Exit(0)
					}
					if m.Method == "initialize" {
						_ = syscall.Kill(os.Getppid(), syscall.SIGTERM)
					} else if m.ID != nil {
						fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}`+"\n", m.ID)
					}
				}
			}
			_ = (&maker{handle: countsCalls()}).serve(context.Background(), os.Stdin, os.Stdout)
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// countsCalls answers each call with the process, and how many it has had.
func countsCalls() func(*server, message) {
	var calls atomic.Int64
	return func(s *server, m message) {
		if m.Method == "tools/call" && m.ID != nil {
			s.result(m, fmt.Sprintf(`{"pid":%d,"calls":%d}`, os.Getpid(), calls.Add(1)))
		}
	}
}

// waitsFor answers each call once there is a file, or the client has answered its question.
func waitsFor(path string) func(*server, message) {
	answers := make(chan string, 10)
	return func(s *server, m message) {
		switch {
		case m.Method == "notifications/cancelled":
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, got := range s.got {
				if got.Method == "tools/call" && strings.Contains(string(m.Params), `"requestId":`+string(got.ID)+"}") {
					_ = os.WriteFile(path+".cancelled", nil, 0o600)
				}
			}
		case m.Method == "":
			answers <- string(m.Result)
		case strings.Contains(string(m.Params), "ask"):
			s.say(`{"jsonrpc":"2.0","id":"question","method":"elicitation/create","params":{ "message" : "<?>" }}`)
			s.result(m, <-answers)
		case m.ID != nil:
			for {
				if text, err := os.ReadFile(path); err == nil {
					s.result(m, string(text))
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
	}
}

// TestCallsGoOn: a call that an instance works at when this process ends has its answer in the next one, and a question that waits is
// asked of whoever comes back. Nothing runs twice.
func TestCallsGoOn(t *testing.T) {
	dir := shortDir(t)
	file := filepath.Join(dir, "file")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	of := Backend{Name: "own", Digest: "1", Target: host.Command(self, "backend", file), Options: host.Options{}.WithDefaults()}
	begin := func() *Backends {
		b := New(Config{Processes: joins(self, dir), Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
		b.Configure(t.Context(), []Backend{of})
		return b
	}
	c := Caller{Session: "s", Capabilities: []byte(`{"elicitation":{}}`)}
	asking := Request{Method: "tools/call", Key: "asking", Asks: true, Params: []byte(`{"name":"ask"}`)}
	working := Request{Method: "tools/call", Key: "working", Params: []byte(`{"name":"work"}`)}
	b := begin()
	asked := make(chan struct{})
	first := asking
	first.Event = func(Event) { close(asked) }
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	var calls sync.WaitGroup
	for _, q := range []Request{first, working} {
		calls.Go(func() { _, _ = b.Call(ctx, "own", c, q) })
	}
	<-asked
	in := instanceNow(b, "own", "s")
	pid := in.proc.Load().PID()
	for in.proc.Load().Remembered()["call working"] == nil {
		time.Sleep(time.Millisecond)
	}
	if _, err := b.keep.client.List(t.Context()); err != nil { // whose answer comes after the keeper has heard of the call
		t.Fatal(err)
	}
	if err := b.keep.client.Close(); err != nil { // as a kill would end the connection
		t.Fatal(err)
	}
	calls.Wait()
	b.Close(t.Context(), time.Minute)
	b = begin() // to which nobody comes back
	if err := b.awaitAdoption(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Close(t.Context(), time.Minute)
	if err := os.WriteFile(file+"~", []byte(`{"worked":true}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+"~", file); err != nil {
		t.Fatal(err)
	}

	b = begin()
	defer func() { b.Close(context.WithoutCancel(t.Context()), 0) }()
	working.Again, asking.Again = true, true
	if got := call(t, b, "own", c, working); got != `{"worked":true}` {
		t.Errorf("the call that was working: %s", got)
	}
	asking.Event = func(e Event) {
		if string(e.Params) != `{ "message" : "<?>" }` {
			t.Errorf("asked %s", e.Params)
		}
		go func() { _ = e.Answer(context.Background(), []byte(`{"action":"accept"}`)) }()
	}
	if got := call(t, b, "own", c, asking); got != `{"action":"accept"}` {
		t.Errorf("the call that was asking: %s", got)
	}
	if got := call(t, b, "own", c, Request{Key: "unknown", Again: true}); !strings.HasPrefix(got, "error: ") {
		t.Errorf("a call that no instance has: %s", got)
	}
	if _, err := os.Stat(file + ".cancelled"); err == nil {
		t.Error("a call was cancelled that nobody has given up")
	}
	if now := instanceNow(b, "own", "s"); now.proc.Load().PID() != pid {
		t.Errorf("the process is another one")
	}
}

// TestAnswerNotSent: a question whose answer comes when the connection to its backend has ended already stays with the keeper, for the next process.
func TestAnswerNotSent(t *testing.T) {
	dir := shortDir(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := New(Config{Processes: joins(self, dir), Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	b.Configure(t.Context(), []Backend{{Name: "own", Digest: "1", Target: host.Command(self, "backend", filepath.Join(dir, "file")), Options: host.Options{}.WithDefaults()}})
	defer func() { b.Close(context.WithoutCancel(t.Context()), 0) }()
	asked := make(chan Event, 1)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var calls sync.WaitGroup
	defer calls.Wait()
	calls.Go(func() {
		_, _ = b.Call(ctx, "own", Caller{Session: "s", Capabilities: []byte(`{"elicitation":{}}`)}, Request{Method: "tools/call", Key: "asking", Asks: true, Params: []byte(`{"name":"ask"}`), Event: func(e Event) { asked <- e }})
	})
	e := <-asked
	in := instanceNow(b, "own", "s")
	in.conn.Detach(t.Context())
	if err := e.Answer(t.Context(), []byte(`{"action":"accept"}`)); err == nil {
		t.Error("it was answered")
	}
	for name := range in.proc.Load().Remembered() {
		if strings.HasPrefix(name, askPrefix) {
			return
		}
	}
	t.Error("the keeper has forgotten the question")
}

// TestMemory: an instance that has more memory than its backend's may ends, and its session learns of it.
func TestMemory(t *testing.T) {
	dir := shortDir(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	lost := make(chan pool.Reason, mostTries)
	b := New(Config{Processes: joins(self, dir), Lost: func(_, _ string, reason pool.Reason) { lost <- reason }})
	b.Configure(t.Context(), []Backend{{Name: "own", Digest: "1", Target: host.Command(self, "backend"), Options: host.Options{Pool: host.Pool{MaxMemory: 4096}}.WithDefaults()}})
	defer func() { b.Close(context.WithoutCancel(t.Context()), 0) }()
	call(t, b, "own", Caller{Session: "s"}, Request{}) // which is answered, unless its instance is looked at first
	if reason := <-lost; reason != pool.Heavy {
		t.Errorf("it ended because of %s, want %s", reason, pool.Heavy)
	}
}

// instanceNow returns the instance that serves a session.
func instanceNow(b *Backends, name, session string) *instance {
	for _, in := range instancesOf(b, name, sessionHolder(session)) {
		return in
	}
	return nil
}

// shortDir returns a directory whose path has room for a socket.
func shortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "b")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// joins connects to the keeper of a directory.
func joins(self, dir string) func(context.Context, func(string, []byte, int)) (*keeper.Client, error) {
	return func(ctx context.Context, stderr func(string, []byte, int)) (*keeper.Client, error) {
		return keeper.Join(ctx, keeper.Options{Socket: filepath.Join(dir, "s"), Stderr: stderr}, keeper.Launch{Program: []string{self, "keeper"}, Keep: time.Minute})
	}
}

// TestKeeperThatEnds: a backend starts though its keeper ends before it can start anything, or before what it has started has answered anything.
func TestKeeperThatEnds(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"before the start", "within the start"} {
		t.Run(when, func(t *testing.T) {
			dir := shortDir(t)
			command := []string{"backend"}
			if when == "within the start" {
				command = []string{"ends its keeper", filepath.Join(dir, "ended")}
			}
			var all []int
			join := joins(self, dir)
			b := New(Config{Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Processes: func(ctx context.Context, stderr func(string, []byte, int)) (*keeper.Client, error) {
				c, err := join(ctx, stderr)
				if err == nil {
					if all = append(all, c.PID()); len(all) == 1 && when == "before the start" {
						_ = syscall.Kill(c.PID(), syscall.SIGTERM)
						<-c.Ended()
					}
				}
				return c, err
			}})
			b.Configure(t.Context(), []Backend{{Name: "own", Digest: "1", Target: host.Command(self, command...), Options: host.Options{}.WithDefaults()}})
			if said := call(t, b, "own", Caller{Session: "mine"}, Request{}); !strings.HasSuffix(said, `"calls":1}`) {
				t.Errorf("it says %s", said)
			}
			b.Close(t.Context(), -1)
			if len(all) != 2 {
				t.Errorf("keepers: %v", all)
			}
		})
	}
}

// TestAdopted: the process of a session goes on as that session's when the process that used it has gone, and that of a session
// which nobody has any more ends.
func TestAdopted(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := shortDir(t)
	of := Backend{Name: "own", Digest: "1", Target: host.Command(self, "backend"), Options: host.Options{}.WithDefaults()}
	begin := func() *Backends {
		b := New(Config{Processes: joins(self, dir), Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
		b.Configure(t.Context(), []Backend{of})
		return b
	}
	mine, others := Caller{Session: "mine", Capabilities: []byte(`{"sampling":{}}`)}, Caller{Session: "other"}
	b := begin()
	first := call(t, b, "own", mine, Request{})
	other := call(t, b, "own", others, Request{})
	if !strings.HasSuffix(first, `"calls":1}`) || !strings.HasSuffix(other, `"calls":1}`) || first == other {
		t.Fatalf("the first calls: %s and %s", first, other)
	}
	b.Close(t.Context(), time.Minute)

	b = begin()
	if got, want := call(t, b, "own", mine, Request{}), strings.Replace(first, `"calls":1`, `"calls":2`, 1); got != want {
		t.Errorf("after the first end: %s, want %s", got, want)
	}
	if err := b.keep.client.Close(); err != nil { // as a kill would end the connection
		t.Fatal(err)
	}
	b.Close(t.Context(), time.Minute)

	b = begin()
	if got, want := call(t, b, "own", others, Request{}), strings.Replace(other, `"calls":1`, `"calls":2`, 1); got != want {
		t.Errorf("after the second end: %s, want %s", got, want)
	}
	b.Close(t.Context(), 0)
	b = begin()
	if got := call(t, b, "own", mine, Request{}); !strings.HasSuffix(got, `"calls":1}`) {
		t.Errorf("after an end that keeps nothing: %s", got)
	}
	b.Close(t.Context(), 0)
}
