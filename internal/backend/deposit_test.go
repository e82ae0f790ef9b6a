package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/bubble"
)

// A remote is a backend of the older era at a URL, which counts the calls of each session. A call with the argument "slow" says that it has begun, and
// is answered once the test says so, on whichever connection follows its events then.
type remote struct {
	mu       sync.Mutex // guards the rest
	sessions map[string]int
	got      []string // methods, DELETE, and GET with its event
	finish   chan struct{}
	slow     string // the answer to the slow call

	stateless bool // it gives nobody a session
}

func newRemote() *remote {
	return &remote{sessions: map[string]int{}, finish: make(chan struct{})}
}

func (r *remote) count(what string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, got := range r.got {
		if got == what {
			n++
		}
	}
	return n
}

// forget ends all sessions.
func (r *remote) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.sessions)
}

// RoundTrip implements http.RoundTripper.
func (r *remote) RoundTrip(q *http.Request) (*http.Response, error) {
	from, to := io.Pipe()
	w := &remoteWriter{to: to, head: make(chan *http.Response, 1), res: &http.Response{StatusCode: 200, Header: http.Header{}, Body: from, Request: q, ContentLength: -1}}
	var body []byte
	if q.Body != nil {
		body, _ = io.ReadAll(q.Body)
	}
	go func() {
		defer to.Close()
		r.serve(w, q, body)
		w.WriteHeader(200)
	}()
	context.AfterFunc(q.Context(), func() { _ = from.CloseWithError(context.Canceled) })
	select {
	case res := <-w.head:
		return res, nil
	case <-q.Context().Done():
		return nil, q.Context().Err()
	}
}

type remoteWriter struct {
	to   *io.PipeWriter
	res  *http.Response
	head chan *http.Response
	once sync.Once
}

func (w *remoteWriter) Header() http.Header { return w.res.Header }

func (w *remoteWriter) WriteHeader(status int) {
	w.once.Do(func() {
		w.res.StatusCode = status
		w.head <- w.res
	})
}

func (w *remoteWriter) Write(p []byte) (int, error) {
	w.WriteHeader(200)
	return w.to.Write(p)
}

func (r *remote) serve(w http.ResponseWriter, q *http.Request, body []byte) {
	var m message
	_ = json.Unmarshal(body, &m)
	what, session := m.Method, q.Header.Get("Mcp-Session-Id")
	if q.Method != http.MethodPost {
		what = strings.TrimSpace(q.Method + " " + q.Header.Get("Last-Event-Id"))
	}
	r.mu.Lock()
	r.got = append(r.got, what)
	_, known := r.sessions[session]
	if r.stateless {
		known, r.sessions[""] = true, max(0, r.sessions[""])
	} else if what == "initialize" {
		session = "at-" + strconv.Itoa(r.countLocked("initialize"))
		r.sessions[session], known = 0, true
	}
	r.mu.Unlock()
	switch {
	case what == "server/discover":
		w.WriteHeader(400)
	case !known:
		w.WriteHeader(404)
	case what == "initialize":
		if session != "" {
			w.Header().Set("Mcp-Session-Id", session)
		}
		answer(w, m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"remote","version":"1"}}`)
	case what == "DELETE":
		r.mu.Lock()
		delete(r.sessions, session)
		r.mu.Unlock()
	case what == "tools/list":
		answer(w, m, `{"tools":[{"name":"count","inputSchema":{"type":"object"}}]}`)
	case what == "tools/call" && strings.Contains(string(m.Params), "slow"):
		r.mu.Lock()
		r.slow = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"of":%q}}`, m.ID, session)
		r.mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "id: slow-1\ndata: \n\n")
		r.finishSlow(w, q)
	case what == "GET slow-1":
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(200)
		r.finishSlow(w, q)
	case what == "tools/call":
		r.mu.Lock()
		r.sessions[session]++
		n := r.sessions[session]
		r.mu.Unlock()
		answer(w, m, fmt.Sprintf(`{"session":%q,"n":%d}`, session, n))
	case q.Method == http.MethodGet:
		w.WriteHeader(405)
	case m.ID != nil:
		answer(w, m, `{}`)
	default:
		w.WriteHeader(202)
	}
}

func (r *remote) countLocked(what string) (n int) {
	for _, got := range r.got {
		if got == what {
			n++
		}
	}
	return n
}

func (r *remote) finishSlow(w io.Writer, q *http.Request) {
	select {
	case <-r.finish:
		r.mu.Lock()
		defer r.mu.Unlock()
		fmt.Fprintf(w, "id: slow-2\ndata: %s\n\n", r.slow)
	case <-q.Context().Done():
	}
}

func answer(w http.ResponseWriter, m message, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// estates are Estates of a test.
type estates struct {
	mu   sync.Mutex // guards the rest
	of   map[string]lying
	next uint64
	fail func(what string) error // what the store does instead of answering, after it has done what it was asked; nil is nothing
}

type lying struct {
	data []byte
	rev  uint64
}

func newEstates() *estates { return &estates{of: map[string]lying{}} }

func (e *estates) setFail(f func(what string) error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fail = f
}

func (e *estates) failed(what string) error {
	if e.fail == nil {
		return nil
	}
	return e.fail(what)
}

func (e *estates) Load(_ context.Context, name string) ([]byte, uint64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	is := e.of[name]
	return is.data, is.rev, e.failed("load")
}

func (e *estates) Save(_ context.Context, name string, data []byte, rev uint64, _ time.Duration) (uint64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.of[name].rev != rev {
		return 0, ErrTaken
	}
	e.next++
	e.of[name] = lying{slices.Clone(data), e.next}
	return e.next, e.failed("save")
}

func (e *estates) Drop(_ context.Context, name string, rev uint64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.of[name].rev != rev {
		return ErrTaken
	}
	delete(e.of, name)
	return e.failed("drop")
}

// calls is how many calls lie there.
func (e *estates) calls() (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, is := range e.of {
		var stored storedDeposit
		_ = json.Unmarshal(is.data, &stored)
		for name := range stored.Texts {
			if strings.HasPrefix(name, callPrefix) {
				n++
			}
		}
	}
	return n
}

// saves is how often something was stored.
func (e *estates) saves() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.next
}

func (e *estates) len() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.of)
}

// A process has Backends of which one is a remote.
func (r *remote) process(t *testing.T, e Estates, told *changes, o host.Options) *Backends {
	b := New(Config{Log: slog.New(slog.NewTextHandler(testWriter{t}, nil)), HTTP: &http.Client{Transport: r}, Estates: e, Node: "one", Lost: told.lost})
	o.Transport = host.HTTP
	b.Configure(t.Context(), []Backend{{Name: "far", Digest: "far-1", Target: host.URL("http://far.test/mcp"), Options: o.WithDefaults()}})
	return b
}

// TestSessionAtURLOutlivesProcess: the next process goes on with the session, whoever's it is; what ends for good ends it.
func TestSessionAtURLOutlivesProcess(t *testing.T) {
	for _, test := range []struct {
		name string
		by   host.Isolation
		c    Caller
	}{
		{"session", host.BySession, Caller{Session: "s"}},
		{"principal", host.ByPrincipal, Caller{Principal: "p"}},
		{"all", host.Shared, Caller{Session: "s"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				r, e, told := newRemote(), newEstates(), &changes{}
				for i := 1; i <= 3; i++ {
					b := r.process(t, e, told, host.Options{Isolation: test.by})
					if got, want := call(t, b, "far", test.c, Request{}), fmt.Sprintf(`{"session":"at-1","n":%d}`, i); got != want {
						t.Errorf("process %d got %s, want %s", i, got, want)
					}
					if i == 3 && test.by == host.BySession {
						b.SessionGone("s", false)
						synctest.Wait()
						if r.count("DELETE") != 1 || e.len() != 0 {
							t.Errorf("after the session there are %d estates, and its session was ended %d times", e.len(), r.count("DELETE"))
						}
					}
					b.Close(t.Context(), 0)
				}
				if all := told.all(); len(all) > 0 {
					t.Errorf("it was told: %q", all)
				}
				if n := r.count("initialize"); n != 1 {
					t.Errorf("%d handshakes", n)
				}
			})
		})
	}
}

// TestCallAtURLGoesOn: a call that another process has begun has its answer, from the event on that was read last; the process that had it and is not gone
// ends nothing.
func TestCallAtURLGoesOn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r, e, told := newRemote(), newEstates(), &changes{}
		one := r.process(t, e, told, host.Options{})
		go func() {
			_, _ = one.Call(t.Context(), "far", Caller{Session: "s"}, Request{Method: "tools/call", Params: []byte(`{"name":"slow"}`), Key: "key"})
		}()
		time.Sleep(time.Second)
		two := r.process(t, e, told, host.Options{})
		var got string
		var over sync.WaitGroup
		over.Go(func() {
			got = call(t, two, "far", Caller{Session: "s"}, Request{Params: []byte(`{"name":"slow"}`), Key: "key", Again: true})
		})
		synctest.Wait()
		close(r.finish)
		over.Wait()
		if got != `{"of":"at-1"}` {
			t.Errorf("got %s", got)
		}
		if a, b, c := r.count("initialize"), r.count("GET slow-1"), r.count("tools/call"); a != 1 || b != 1 || c != 1 {
			t.Errorf("%d handshakes, %d streams taken up, %d calls", a, b, c)
		}
		if got := call(t, two, "far", Caller{Session: "s"}, Request{Key: "other", Again: true}); !strings.Contains(got, "its instance was lost") {
			t.Errorf("a call of which nothing is known got %s", got)
		}
		synctest.Wait()
		time.Sleep(answerKept + 2*time.Second) // what one would store now is another's
		one.Close(t.Context(), 0)
		two.Close(t.Context(), 0)
		if n := r.count("DELETE"); n != 0 {
			t.Errorf("the session was ended %d times", n)
		}
		if all := told.all(); len(all) > 0 {
			t.Errorf("it was told: %q", all)
		}
	})
}

// TestSessionAtURLMoves: a process whose session is another's leaves it, and one that has lost it without knowing ends its instance when it stores something.
func TestSessionAtURLMoves(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r, e, told := newRemote(), newEstates(), &changes{}
		one, two := r.process(t, e, told, host.Options{}), r.process(t, e, told, host.Options{})
		call(t, one, "far", Caller{Session: "s"}, Request{})
		one.SessionGone("s", true)
		synctest.Wait()
		if got := call(t, two, "far", Caller{Session: "s"}, Request{}); got != `{"session":"at-1","n":2}` {
			t.Errorf("the other process got %s", got)
		}
		synctest.Wait()
		if got := call(t, one, "far", Caller{Session: "s"}, Request{}); got != `{"session":"at-1","n":3}` { // nothing is anchored in this test
			t.Errorf("back again it got %s", got)
		}
		if got := call(t, two, "far", Caller{Session: "s"}, Request{Params: []byte(`{"name":"slow"}`), Key: "key"}); !strings.HasPrefix(got, "error: ") {
			t.Errorf("a call of the process that has it no more got %s", got)
		}
		synctest.Wait()
		if n := two.Counts()["far"]; n != (Counts{}) {
			t.Errorf("there are %+v", n)
		}
		one.Close(t.Context(), 0)
		two.Close(t.Context(), 0)
		if all := told.all(); len(all) > 0 {
			t.Errorf("it was told: %q", all)
		}
	})
}

// TestSessionAtURLComesBack: a session that comes back while its instance still stores what it leaves goes on with that.
func TestSessionAtURLComesBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r, e, told := newRemote(), newEstates(), &changes{}
		one := r.process(t, e, told, host.Options{})
		for n := range 20 {
			want := fmt.Sprintf(`{"session":"at-1","n":%d}`, n+1)
			if got := call(t, one, "far", Caller{Session: "s"}, Request{Level: []string{"error", "info"}[n%2]}); got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
			one.SessionGone("s", true)
		}
		one.Close(t.Context(), 0)
	})
}

// TestSessionAtURLIsGone: a backend that has forgotten a session is given another one, of which its client is told once.
func TestSessionAtURLIsGone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r, e, told := newRemote(), newEstates(), &changes{}
		one := r.process(t, e, told, host.Options{})
		call(t, one, "far", Caller{Session: "s"}, Request{})
		call(t, one, "far", Caller{Session: "s"}, Request{Method: "resources/subscribe", Params: []byte(`{"uri":"a://b"}`)})
		go func() {
			_, _ = one.Call(t.Context(), "far", Caller{Session: "s"}, Request{Method: "tools/call", Params: []byte(`{"name":"slow"}`), Key: "key"})
		}()
		time.Sleep(time.Second)
		one.Close(t.Context(), 0)
		if n := e.calls(); n != 1 {
			t.Errorf("%d calls are left", n)
		}
		r.forget()
		two := r.process(t, e, told, host.Options{})
		if got := call(t, two, "far", Caller{Session: "s"}, Request{}); got != `{"session":"at-2","n":1}` {
			t.Errorf("got %s", got)
		}
		synctest.Wait()
		if all := told.all(); len(all) != 1 {
			t.Errorf("it was told %q, want one loss", all)
		}
		if n, m := e.calls(), r.count("resources/subscribe"); n != 0 || m != 2 {
			t.Errorf("%d calls of the session before are left, and %d times it was said what the client follows", n, m)
		}
		call(t, two, "far", Caller{Session: "s"}, Request{}) // which has the place in the store of the one before
		two.Close(t.Context(), 0)
		three := r.process(t, e, told, host.Options{})
		if got := call(t, three, "far", Caller{Session: "s"}, Request{}); got != `{"session":"at-2","n":3}` {
			t.Errorf("the next process got %s", got)
		}
		three.Close(t.Context(), 0)
	})
}

// TestHeirIsNoSpare: a session goes on with its own, though there is an instance that nobody has.
func TestHeirIsNoSpare(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r, e, told := newRemote(), newEstates(), &changes{}
		one := r.process(t, e, told, host.Options{})
		call(t, one, "far", Caller{Session: "s"}, Request{})
		one.Close(t.Context(), 0)
		two := r.process(t, e, told, host.Options{})
		if _, err := two.Learn(t.Context(), "far", Caller{}); err != nil {
			t.Fatal(err)
		}
		if got := call(t, two, "far", Caller{Session: "s"}, Request{}); got != `{"session":"at-1","n":2}` {
			t.Errorf("got %s", got)
		}
		if got := call(t, two, "far", Caller{Session: "other"}, Request{}); got != `{"session":"at-2","n":1}` {
			t.Errorf("another session got %s", got)
		}
		two.Close(t.Context(), 0)
		if n := e.len(); n != 2 {
			t.Errorf("%d estates are left, want those of two sessions", n)
		}
	})
}

// TestDepositOutlivesStore: what a store has taken without saying so is stored, and what it did not take is stored later.
func TestDepositOutlivesStore(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := newEstates()
		var lost atomic.Bool
		var running sync.WaitGroup
		defer running.Wait()
		d := newDeposits(e, systemClock{}, slog.New(slog.DiscardHandler), func(f func(context.Context)) { running.Go(func() { f(t.Context()) }) })
		x := d.open(t.Context(), "name", 0, func() { lost.Store(true) })
		if d.open(t.Context(), "name", 0, nil) != nil {
			t.Error("two have one place")
		}
		away := errors.New("away")
		e.fail = func(string) error { return away }
		if err := x.Remember("a", []byte("1")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		e.mu.Lock()
		e.fail = nil
		e.mu.Unlock()
		if err := x.Remember("b", make([]byte, mostDeposited)); !errors.Is(err, errTooMuch) {
			t.Errorf("too much: %v", err)
		}
		time.Sleep(10 * time.Second)
		if lost.Load() {
			t.Error("it is taken for another's")
		}
		if err := x.Remember("b", []byte("2")); err != nil {
			t.Fatal(err)
		}
		x.release(t.Context())
		y := d.open(t.Context(), "name", 0, func() { lost.Store(true) })
		texts := take(t, y)
		if len(texts) != 2 || string(texts["a"]) != "1" || string(texts["b"]) != "2" {
			t.Errorf("there is %q", texts)
		}
		z := newDeposits(e, systemClock{}, d.log, d.run).open(t.Context(), "name", 0, nil)
		take(t, z)
		if err := y.Remember("c", []byte("3")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if !lost.Load() {
			t.Error("it does not know that another process has it")
		}
		if y.removeStored(t.Context()) {
			t.Error("what another process has is removed")
		}
		if e.len() != 1 {
			t.Error("it is gone")
		}
	})
}

// take takes over what lies where a deposit is, as it is.
func take(t *testing.T, x *deposit) (texts map[string][]byte) {
	t.Helper()
	found, err := x.takeOver(t.Context(), func(was map[string][]byte) map[string][]byte {
		texts = was
		return was
	})
	if err != nil || !found {
		t.Errorf("taken over: %v, %v", found, err)
	}
	return texts
}

// TestTakingOver: what the process before stores at the last moment goes along, what the store has done without saying so is done, and of two that come at
// once one has it.
func TestTakingOver(t *testing.T) {
	for _, test := range []struct {
		name  string
		while func(e *estates, before, other *deposit, times int) // what happens while it takes over, each time
		want  string
		err   error
	}{
		{"nothing happens", func(*estates, *deposit, *deposit, int) {}, "1", nil},
		{"the one before stores once more", func(_ *estates, before, _ *deposit, times int) {
			if times == 1 {
				_ = before.Remember("a", []byte("2"))
				before.awaitStored()
			}
		}, "2", nil},
		{"another one is faster", func(_ *estates, _, other *deposit, times int) {
			_, _ = other.takeOver(context.Background(), func(was map[string][]byte) map[string][]byte { return was })
		}, "1", ErrTaken},
		{"the store says nothing", func(e *estates, _, _ *deposit, times int) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.fail = func(what string) error {
				if e.fail = nil; what == "save" {
					return errors.New("away")
				}
				return nil
			}
		}, "1", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				e := newEstates()
				var running sync.WaitGroup
				defer running.Wait()
				at := func() *deposit {
					return newDeposits(e, systemClock{}, slog.New(slog.DiscardHandler), func(f func(context.Context)) { running.Go(func() { f(t.Context()) }) }).open(t.Context(), "name", 0, func() {})
				}
				before, x, other := at(), at(), at()
				_ = before.Remember("a", []byte("1"))
				before.awaitStored()
				got, times := "", 0
				found, err := x.takeOver(t.Context(), func(was map[string][]byte) map[string][]byte {
					got = string(was["a"])
					times++
					test.while(e, before, other, times)
					return was
				})
				if !found || !errors.Is(err, test.err) || got != test.want {
					t.Errorf("%q, %v, %v", got, found, err)
				}
				if err != nil {
					return
				}
				_ = x.Remember("b", []byte("3"))
				x.awaitStored()
				_ = before.Remember("a", []byte("lost"))
				time.Sleep(time.Minute)
				if texts := take(t, other); string(texts["a"]) != test.want || string(texts["b"]) != "3" {
					t.Errorf("there is %q", texts)
				}
			})
		})
	}
}

// TestDepositsKeepAPace: what changes all the time is stored now and then, and at once for who waits.
func TestDepositsKeepAPace(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := newEstates()
		var running sync.WaitGroup
		defer running.Wait()
		x := newDeposits(e, systemClock{}, slog.New(slog.DiscardHandler), func(f func(context.Context)) { running.Go(func() { f(t.Context()) }) }).open(t.Context(), "name", 0, nil)
		for i := range 1000 {
			_ = x.Remember("event", []byte(strconv.Itoa(i)))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(depositPace)
		before := e.saves()
		if before < 2 || before > uint64(time.Second/depositPace)+2 {
			t.Errorf("in a second it is stored %d times", before)
		}
		for i := range 5 {
			began := time.Now()
			_ = x.Remember("call", []byte(strconv.Itoa(i)))
			x.awaitStored()
			if took := time.Since(began); took > 0 {
				t.Errorf("whoever waits waits for %v", took)
			}
		}
		if n := e.saves() - before; n != 5 {
			t.Errorf("5 times it is stored %d times", n)
		}
		x.release(t.Context())
	})
}

// TestStoreIsAwayWhenASessionComesBack: nobody begins another session where it is not known what lies in the store.
func TestStoreIsAwayWhenASessionComesBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r, e, told := newRemote(), newEstates(), &changes{}
		one := r.process(t, e, told, host.Options{})
		call(t, one, "far", Caller{Session: "s"}, Request{})
		one.Close(t.Context(), 0)
		e.setFail(func(string) error { return errors.New("away") })
		two := r.process(t, e, told, host.Options{})
		if _, err := Inherit(t.Context(), two, "far", Caller{Session: "s"}); err == nil {
			t.Error("it is known what the store does not tell")
		}
		for range 10 { // more than a breaker takes
			_, err := two.Call(t.Context(), "far", Caller{Session: "s"}, Request{Method: "tools/call", Params: []byte(`{"name":"count"}`)})
			if f, ok := errors.AsType[*Error](err); !ok || f.Ran || f.Reason != string(noStore) || f.After == 0 {
				t.Errorf("while the store is away: %v", err)
			}
		}
		e.setFail(nil)
		if got := call(t, two, "far", Caller{Session: "s"}, Request{}); got != `{"session":"at-1","n":2}` {
			t.Errorf("got %s", got)
		}
		if goes, err := Inherit(t.Context(), two, "far", Caller{Session: "s"}); !goes || err != nil {
			t.Errorf("it goes on: %v, %v", goes, err)
		}
		two.Close(t.Context(), 0)
		if n := r.count("initialize"); n != 1 {
			t.Errorf("%d handshakes", n)
		}
		if all := told.all(); len(all) > 0 {
			t.Errorf("it was told: %q", all)
		}
	})
}

// TestEstateOfAnotherRelease: what this release cannot read is lost, as the client is told once.
func TestEstateOfAnotherRelease(t *testing.T) {
	for _, data := range []string{``, `{`, `{"owner":"x","texts":{"standing":"e30="}}`} {
		bubble.Test(t, func(t *testing.T) {
			r, e, told := newRemote(), newEstates(), &changes{}
			one := r.process(t, e, told, host.Options{})
			call(t, one, "far", Caller{Session: "s"}, Request{})
			one.Close(t.Context(), 0)
			for name, is := range e.of {
				if is.data = []byte(data); data == "" {
					is.data = nil // sealed with a key that nobody has
				}
				e.of[name] = is
			}
			two := r.process(t, e, told, host.Options{})
			for i := 1; i <= 2; i++ {
				if got, want := call(t, two, "far", Caller{Session: "s"}, Request{}), fmt.Sprintf(`{"session":"at-2","n":%d}`, i); got != want {
					t.Errorf("got %s", got)
				}
			}
			two.Close(t.Context(), 0)
			if all := told.all(); len(all) != 1 {
				t.Errorf("of %q it was told: %q", data, all)
			}
			synctest.Wait()
			three := r.process(t, e, told, host.Options{})
			if got := call(t, three, "far", Caller{Session: "s"}, Request{}); got != `{"session":"at-2","n":3}` {
				t.Errorf("the next process got %s", got)
			}
			three.Close(t.Context(), 0)
		})
	}
}

// TestStoreIsAwayWhenASessionEnds: the backend hears of the end all the same.
func TestStoreIsAwayWhenASessionEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r, e, told := newRemote(), newEstates(), &changes{}
		b := r.process(t, e, told, host.Options{})
		call(t, b, "far", Caller{Session: "s"}, Request{})
		e.setFail(func(string) error { return errors.New("away") })
		call(t, b, "far", Caller{Session: "s"}, Request{Method: "resources/subscribe", Params: []byte(`{"uri":"a://b"}`)}) // which is to be stored
		b.SessionGone("s", false)
		time.Sleep(time.Minute)
		if n := r.count("DELETE"); n != 1 {
			t.Errorf("the session was ended %d times", n)
		}
		b.Close(t.Context(), 0)
	})
}

// TestStoreIsAskedOnce: a server at a URL that has no sessions costs no question to the store for each call.
func TestStoreIsAskedOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r, e, told := newRemote(), newEstates(), &changes{}
		r.stateless = true
		b := r.process(t, e, told, host.Options{})
		loads := 0
		e.setFail(func(what string) error {
			if what == "load" {
				loads++
			}
			return nil
		})
		if _, err := b.Learn(t.Context(), "far", Caller{}); err != nil { // by an instance that is nobody's
			t.Fatal(err)
		}
		for _, session := range []string{"s", "other"} { // of whom the first one gets that
			for range 5 {
				call(t, b, "far", Caller{Session: session}, Request{})
			}
			if loads > 2 { // is there something, and what is it
				t.Errorf("for %s the store was asked %d times", session, loads)
			}
			loads = 0
		}
		b.Close(t.Context(), 0)
		if e.len() != 0 {
			t.Errorf("there are %d estates", e.len())
		}
	})
}
