package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe/internal/bubble"
	"github.com/troupe-run/troupe/mcp"
)

// handOver stores the state of a Conn and reads it again, as another process does.
func handOver(t *testing.T, c *Conn) *State {
	t.Helper()
	s := c.State()
	data, err := s.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	got, err := UnmarshalState(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, s); diff != "" {
		t.Errorf("the state changed (-got +want):\n%s", diff)
	}
	return got
}

// TestResumeHTTP has a process go on with the session of another, and with its calls in flight.
func TestResumeHTTP(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		calls := map[string]message{}
		began := make(chan struct{}, 2)
		s, h := serveHTTP(t, politely(EraLegacy, func(w http.ResponseWriter, r *http.Request, m message) {
			switch last := r.Header.Get("Last-Event-Id"); {
			case r.Header.Get("Mcp-Session-Id") != "s1":
				w.WriteHeader(404)
			case r.Method == http.MethodPost && strings.Contains(m.Raw, "without"):
				stream(w, ":\n\n")
				began <- struct{}{}
				<-r.Context().Done()
			case r.Method == http.MethodPost:
				calls["c1"] = m
				stream(w, event("c1", `{"jsonrpc":"2.0","id":"q","method":"roots/list"}`))
				began <- struct{}{}
				<-r.Context().Done()
			case last == "" || last == "g1":
				stream(w, event("g1", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`))
				<-r.Context().Done()
			case last == "c1":
				stream(w, event("c2", fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, calls["c1"].ID)))
				stream(w, answerEvent("c3", calls["c1"]))
			}
		}))
		var old records
		o := old.options()
		o.Standalone = true
		c, err := Open(minute(t), NewHTTP(h), o)
		if err != nil {
			t.Fatal(err)
		}
		with, without := c.NewID(), c.NewID()
		go func() { _, _ = c.Do(t.Context(), toolCall(Request{ID: with, Progress: func([]byte) {}})) }()
		go func() {
			_, _ = c.Do(t.Context(), Request{ID: without, Method: mcp.MethodToolsCall, Params: []byte(`{"name":"without"}`)})
		}()
		<-began
		<-began
		synctest.Wait()
		state := handOver(t, c)
		c.Detach(t.Context())
		if s.count("DELETE") != 0 {
			t.Error("the session was ended")
		}

		var r records
		var progress int
		o = r.options()
		o.Standalone = true
		c, err = Resume(minute(t), NewHTTP(h), state, o, func(p Pending) Request {
			if p.ID == with && (p.Event != "c1" || p.Method != mcp.MethodToolsCall) || p.ID == without && p.Event != "" {
				t.Errorf("in flight is %+v", p)
			}
			return Request{Progress: func([]byte) { progress++ }}
		})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background())
		answer, err := c.Rejoin(minute(t), with)
		checkOutcome(t, answer, err, "", 0)
		if progress != 1 {
			t.Errorf("%d times progress", progress)
		}
		answer, err = c.Rejoin(minute(t), without)
		checkOutcome(t, answer, err, ReasonEnded, mcp.CodeCallLost)
		if _, err = c.Rejoin(minute(t), with); !errors.Is(err, ErrLost) {
			t.Errorf("a second time has %v", err)
		}
		if err := c.Answer(minute(t), []byte(`"q"`), []byte(`{"roots":[]}`)); err != nil {
			t.Errorf("the question has %v", err)
		}
		if head, _ := s.sent("answer"); head.Get("Mcp-Session-Id") != "s1" || head.Get("Mcp-Protocol-Version") != "2025-11-25" {
			t.Errorf("it was sent %v", head)
		}
		synctest.Wait() // nothing above waits for the standalone stream
		if s.count("GET g1") == 0 {
			t.Errorf("it got %s", s.came())
		}
		if id := c.NewID(); id <= without || id>>32 != 1 {
			t.Errorf("the next id is %d", id)
		}
		checkNext(t, c, false)
		if n := s.count(mcp.MethodInitialize); n != 1 {
			t.Errorf("%d handshakes", n)
		}
	})
}

// TestResumeBringsAQuestionAgain has a process go on with a call whose question it knows, though it does not know how far the stream was read after that: the
// stream brings the question again. Nobody is asked twice, whether it waits or has its answer by then.
func TestResumeBringsAQuestionAgain(t *testing.T) {
	t.Parallel()
	for name, early := range map[string]bool{"that waits": false, "that is answered": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble.Test(t, func(t *testing.T) {
				var call message
				began, answered := make(chan struct{}), make(chan struct{})
				_, h := serveHTTP(t, politely(EraLegacy, func(w http.ResponseWriter, r *http.Request, m message) {
					switch last := r.Header.Get("Last-Event-Id"); {
					case r.Method == http.MethodPost:
						call = m
						stream(w, event("c1", ""))
						close(began)
						<-r.Context().Done()
					case last == "c1":
						stream(w, event("c2", `{"jsonrpc":"2.0","id":"q","method":"roots/list"}`))
						<-answered
						stream(w, event("c3", `{"jsonrpc":"2.0","id":"r","method":"roots/list"}`))
						stream(w, answerEvent("c4", call))
					}
				}))
				var old, now records
				c, err := Open(minute(t), NewHTTP(h), old.options())
				if err != nil {
					t.Fatal(err)
				}
				id := c.NewID()
				go func() { _, _ = c.Do(t.Context(), toolCall(Request{ID: id})) }()
				<-began
				synctest.Wait()
				state := handOver(t, c)
				state.Questions = [][]byte{[]byte(`"q"`)} // it was told, and its event was not noted yet
				c.Detach(t.Context())
				c, err = Resume(minute(t), NewHTTP(h), state, now.options(), func(Pending) Request { return Request{} })
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close(context.Background())
				answer := func() {
					if err := c.Answer(minute(t), []byte(`"q"`), []byte(`{"roots":[]}`)); err != nil {
						t.Errorf("the question has %v", err)
					}
					close(answered)
				}
				if early {
					answer()
				} else {
					go func() { synctest.Wait(); answer() }()
				}
				response, err := c.Rejoin(minute(t), id)
				checkOutcome(t, response, err, "", 0)
				if n := now.count(mcp.MethodRootsList); n != 1 || string(now.first(mcp.MethodRootsList).ID) != `"r"` || len(now.odd) > 0 {
					t.Errorf("%d questions are told, %s first; odd is %+v", n, now.first(mcp.MethodRootsList).ID, now.odd)
				}
			})
		})
	}
}

// A handle is a Process that another one takes over: what was not received stays.
type handle struct {
	*Pipe
	end chan struct{}
	got chan []byte
}

func (h handle) Unsent(uint64) bool { return false }

func (h handle) Receive() ([]byte, error) {
	select {
	case line := <-h.got:
		return line, nil
	case <-h.end:
		return nil, io.EOF
	}
}

func (h handle) Close() error {
	close(h.end)
	return nil
}

// TestResumeLines has a process go on with another's backend, whose answers came while nobody read.
func TestResumeLines(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		var kept []message
		_, process := newPeer(t, polite(EraLegacy, func(p *peer, m message) { kept = append(kept, m) }))
		lines := make(chan []byte, 10)
		go func() {
			for {
				line, err := process.Receive()
				if err != nil {
					return
				}
				lines <- line
			}
		}()
		c, err := Open(minute(t), NewLines(handle{process, make(chan struct{}), lines}), Options{Epoch: 4})
		if err != nil {
			t.Fatal(err)
		}
		var ids []int64
		for range 3 {
			id := c.NewID()
			ids = append(ids, id)
			go func() { _, _ = c.Do(t.Context(), toolCall(Request{ID: id})) }()
			synctest.Wait()
		}
		state := handOver(t, c)
		c.Detach(t.Context())
		lines <- []byte(kept[0].result(done))

		var r records
		late := make(chan Pending, 3)
		o := r.options()
		o.Epoch = 5
		c, err = Resume(minute(t), NewLines(handle{process, make(chan struct{}), lines}), state, o, func(p Pending) Request {
			late <- p
			return Request{}
		})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background())
		if len(late) != 3 {
			t.Errorf("%d are in flight", len(late))
		}
		synctest.Wait()
		answer, err := c.Rejoin(minute(t), ids[0])
		checkOutcome(t, answer, err, "", 0)
		time.AfterFunc(time.Second, func() { lines <- []byte(kept[1].result(done)) })
		answer, err = c.Rejoin(minute(t), ids[1])
		checkOutcome(t, answer, err, "", 0)
		if id := c.NewID(); id != 5<<32+1 {
			t.Errorf("the next id is %d", id)
		}
		if n := len(c.State().Requests); n != 1 {
			t.Errorf("%d are open", n)
		}
		answer, err = c.Rejoin(minute(t), ids[2])
		checkOutcome(t, answer, err, ReasonCancelled, mcp.CodeCallLost)
		checkNext(t, c, false)
	})
}

// TestState refuses what is no state.
func TestState(t *testing.T) {
	t.Parallel()
	good := `{"format":1,"epoch":1,"last":5,"session":"s","revision":"2025-11-25","found":"legacy","result":"eyJwcm90b2NvbFZlcnNpb24iOiIyMDI1LTExLTI1IiwiY2FwYWJpbGl0aWVzIjp7fX0=","requests":[{"id":4,"method":"m"}],"questions":["IjEi"],"new":1}`
	if _, err := UnmarshalState([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{`"format":1`, `"format":2`},
		{`2025-11-25`, `2025-11-26`},
		{`legacy`, `old`},
		{`"session":"s"`, `"session":"s\n"`},
		{`"id":4`, `"id":-4`},
		{`"last":5`, `"last":-5`},
		{`"method":"m"`, `"method":"m","event":"\u0000"`},
		{`IjEi`, `e30=`},
		{`eyJ`, `W10=`},
		{`"result":"eyJwcm90b2NvbFZlcnNpb24iOiIyMDI1LTExLTI1IiwiY2FwYWJpbGl0aWVzIjp7fX0="`, `"result":""`},
		{`"revision":"2025-11-25"`, `"revision":"2025-06-18"`},
		{`[{"id":4,"method":"m"}]`, `[` + strings.Repeat(`{"id":4,"method":"m"},`, MostOpen) + `{"id":4,"method":"m"}]`},
		{good, `[]`},
		{good, `{`},
	} {
		if _, err := UnmarshalState([]byte(strings.Replace(good, change[0], change[1], 1))); err == nil {
			t.Errorf("a state with %s is accepted", shorten(change[1]))
		}
	}
}
