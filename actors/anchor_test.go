package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/actors/internal/relay"
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/sim"
)

// inAnchoredFleet is inFleet with a service whose calls need the session's anchor, and whose notifications are told there. Each node answers
// with its name.
func inAnchoredFleet(t *testing.T, n int, fate func(kind string) sim.Fate, f func(t *testing.T, all []*member, moved func() []string)) {
	t.Helper()
	inFleet(t, n, fate, func(t *testing.T, all []*member) {
		var mu sync.Mutex
		var moved []string
		for _, m := range all {
			m.svc.Anchoring = func(c *codec.Message) Anchoring {
				switch method := string(c.Method); {
				case method == "x", c.Kind == codec.Batch:
					return AnchorNeeded
				case method == "notifications/x", method == "told":
					return AnchorTold
				}
				return Unanchored
			}
			note := func(what string) {
				mu.Lock()
				defer mu.Unlock()
				moved = append(moved, m.name+" "+what)
			}
			m.svc.Anchored = func(_ context.Context, _ *Peer, had []string) (here, unknown []string) {
				note("has it")
				return had, nil
			}
			m.svc.Left = func(SessionKey, bool) { note("has it no more") }
			m.handler.f = m.answerAt(m.name)
			Mount(m.Node, m.svc)
		}
		f(t, all, func() []string {
			mu.Lock()
			defer mu.Unlock()
			all := slices.Sorted(slices.Values(moved))
			return slices.CompactFunc(all, func(x, y string) bool { return x == y && strings.HasSuffix(x, "no more") }) // which may be told again
		})
	})
}

// answerAt answers with a name, and notes what the session has here if the call is of those that need that.
func (m *member) answerAt(name string) func(context.Context, *Call) ([]byte, *mcp.Error) {
	return func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
		if string(c.Message().Method) == "x" {
			if err := AnchorHere(ctx, c.Peer(), "it"); err != nil {
				return nil, &mcp.Error{Code: mcp.CodeInternalError, Message: err.Error()}
			}
		}
		return []byte(`{"at":"` + name + `"}`), nil
	}
}

// at returns which node has answered a call.
func (c *heldConn) at(t *testing.T) string {
	t.Helper()
	status, body := c.answer()
	_, rest, ok := strings.Cut(body, `{"at":"`)
	if !ok {
		t.Errorf("answered %d %s", status, body)
		return ""
	}
	return rest[:1]
}

// TestCallsGoWhereTheSessionIsAnchored has calls of one session come to three nodes: all run where the first one did.
func TestCallsGoWhereTheSessionIsAnchored(t *testing.T) {
	inAnchoredFleet(t, 3, nil, func(t *testing.T, all []*member, moved func() []string) {
		a, b, c := all[0], all[1], all[2]
		session := a.begin("2025-11-25")
		for _, m := range []*member{c, a, b, c} {
			if got := m.post(session, message("1", "told")).at(t); got != m.name {
				t.Errorf("before there is an anchor, %s has %s answer", m.name, got)
			}
		}
		for i, m := range []*member{b, a, b, c} {
			if got := m.post(session, message(fmt.Sprint(2+i), "x")).at(t); got != "b" {
				t.Errorf("a call at %s ran at %s", m.name, got)
			}
		}
		if got := c.post(session, message("9", "told")).at(t); got != "b" {
			t.Errorf("what is told at c came to %s", got)
		}
		if got := c.post(session, message("10", "elsewhere")).at(t); got != "c" {
			t.Errorf("what needs no anchor came from c to %s", got)
		}
		if status, _ := a.post(session, `{"jsonrpc":"2.0","method":"notifications/x"}`).answer(); status != 202 {
			t.Errorf("a notification is answered %d", status)
		}
		if status, body := c.post(session, `[`+message("11", "x")+`,`+message("12", "x")+`]`).answer(); status == 200 {
			t.Errorf("a batch in a revision that has none is answered %d %s", status, body)
		}
		if got := moved(); len(got) != 0 {
			t.Errorf("anchors moved: %q", got)
		}
	})
}

// TestAnchorIsTakenOnce has the first calls of a session come to three nodes at once: all run at one of them.
func TestAnchorIsTakenOnce(t *testing.T) {
	inAnchoredFleet(t, 3, nil, func(t *testing.T, all []*member, _ func() []string) {
		session := all[0].begin("2025-11-25")
		var conns [30]heldConn
		var over sync.WaitGroup
		for i := range conns {
			over.Go(func() { all[i%3].postOn(&conns[i], session, message(fmt.Sprint(1+i), "x")) })
		}
		over.Wait()
		ran := make(map[string]int)
		for i := range conns {
			ran[conns[i].at(t)]++
		}
		if len(ran) != 1 {
			t.Errorf("the calls ran at %v", ran)
		}
	})
}

// beginForwardedStream has a new session be anchored at one node, and a call of it come to another, where its first event has been sent. The call sends what
// comes by more, and ends when that is closed.
func beginForwardedStream(anchor, other *member, revision string) (session string, more chan int, conn *heldConn) {
	session, more, conn = anchor.begin(revision), make(chan int), &heldConn{}
	anchor.post(session, message("1", "x"))
	anchor.handler.f = speaker(more)
	go other.postOn(conn, session, message("2", "x"))
	more <- 1
	synctest.Wait()
	return session, more, conn
}

// TestAnchoredStreamsResumeAnywhere has a call at another node than the anchor be a stream: its events have the ids by which any node resumes it,
// while the call goes on where it is.
func TestAnchoredStreamsResumeAnywhere(t *testing.T) {
	inAnchoredFleet(t, 3, nil, func(t *testing.T, all []*member, _ func() []string) {
		a, b, c := all[0], all[1], all[2]
		session, more, first := beginForwardedStream(a, b, "2025-11-25")
		more <- 2
		synctest.Wait()
		if got := first.events(); !slices.Equal(got, numbers(1, 2)) || first.lastID() == "" {
			t.Fatalf("b has sent %q, the last of which has the id %q", got, first.lastID())
		}
		first.Cut()
		second := c.get(session, first.lastID())
		synctest.Wait()
		more <- 3
		close(more)
		time.Sleep(time.Second)
		if got := second.events(); len(got) != 2 || got[0] != said(3) || !strings.Contains(got[1], `"result"`) || !second.over {
			t.Errorf("c has sent %q, over %v", got, second.over)
		}
	})
}

// TestAnchorIsReplaced kills the anchor of a session. A call of another node ran there, and its stream goes on at the other; so do later calls, and
// the session learns once that something is lost.
func TestAnchorIsReplaced(t *testing.T) {
	inAnchoredFleet(t, 3, nil, func(t *testing.T, all []*member, moved func() []string) {
		a, b, c := all[0], all[1], all[2]
		session := a.begin("2025-11-25")
		a.post(session, message("1", "x"))
		started := make(chan struct{})
		a.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			say(ctx, c, 1)
			close(started)
			<-ctx.Done()
			return nil, nil
		}
		open := &heldConn{}
		go b.postOn(open, session, message("2", "x"))
		<-started
		synctest.Wait()
		a.kill()
		began := time.Now()
		if got := b.post(session, message("3", "x")).at(t); got != "b" {
			t.Errorf("the next call ran at %s", got)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("it waited for %v", took)
		}
		if got := c.post(session, message("4", "x")).at(t); got != "b" {
			t.Errorf("the one after it ran at %s", got)
		}
		time.Sleep(10 * time.Second)
		if !open.isOver() {
			t.Error("the stream of the call that was lost is still open")
		}
		if got := moved(); !slices.Equal(got, []string{"b has it"}) {
			t.Errorf("anchors moved: %q", got)
		}
	})
}

// TestAnchorThatDoesNotAnswer has the anchor be cut off, and live: no other node takes its place, the call is refused, and runs once it is back.
func TestAnchorThatDoesNotAnswer(t *testing.T) {
	var cut atomic.Bool
	inAnchoredFleet(t, 2, func(kind string) sim.Fate { return sim.Fate{Lost: cut.Load() && kind == exchangeCall} }, func(t *testing.T, all []*member, moved func() []string) {
		a, b := all[0], all[1]
		session := a.begin("2025-11-25")
		a.post(session, message("1", "x"))
		cut.Store(true)
		lost := &heldConn{}
		b.postOn(lost, session, message("2", "x"))
		if status, body := lost.answer(); !lost.isOver() || status == 200 {
			t.Errorf("a call whose letter may have arrived is answered %d %s", status, body)
		}
		cut.Store(false)
		if got := b.post(session, message("3", "x")).at(t); got != "a" {
			t.Errorf("then it ran at %s", got)
		}
		if got := moved(); len(got) != 0 {
			t.Errorf("anchors moved: %q", got)
		}
	})
}

// TestAnchorThatListensNoMore has the anchor end while it is cut off: the servers believe for minutes that it listens, and so no letter to it says that
// nobody does. The next call goes elsewhere, and is not one that may have been run.
func TestAnchorThatListensNoMore(t *testing.T) {
	inAnchoredFleet(t, 2, nil, func(t *testing.T, all []*member, _ func() []string) {
		a, b := all[0], all[1]
		session := a.begin("2025-11-25")
		a.post(session, message("1", "x"))
		a.box.Cut(true)
		a.kill()
		if got := b.post(session, message("2", "x")).at(t); got != "b" {
			t.Errorf("the next call ran at %s", got)
		}
	})
}

// TestNextBootOfAnAnchor has a node come back under its name: it has what its earlier boot had, wherever the next call comes.
func TestNextBootOfAnAnchor(t *testing.T) {
	for _, at := range []string{"another node", "itself"} {
		t.Run(at, func(t *testing.T) {
			inAnchoredFleet(t, 2, nil, func(t *testing.T, all []*member, moved func() []string) {
				a, b := all[0], all[1]
				session := a.begin("2025-11-25")
				a.post(session, message("1", "x"))
				a.kill()
				next := b.restarted(a)
				defer next.Close(context.Background())
				time.Sleep(2 * time.Second)
				by := b
				if at == "itself" {
					by = next
				}
				if got := by.post(session, message("2", "x")).at(t); got != "A" {
					t.Errorf("the call ran at %s", got)
				}
				if got := moved(); slices.ContainsFunc(got, func(what string) bool { return what != "a has it" }) || len(got) > 1 {
					t.Errorf("anchors moved: %q", got)
				}
			})
		})
	}
}

// restarted is the next boot of another member.
func (m *member) restarted(of *member) *member {
	next := &member{office: m.office, box: m.office.Join(of.name, "next-boot"), store: &mortal{Store: m.store.Store}}
	next.held = held{t: m.t, mem: m.mem, holds: holds{held: make(map[string]chan struct{})}, handler: &heldHandler{}}
	next.Node = NewNode(Config{Name: of.name, Boot: "next-boot", Store: next.store, Keys: benchKeys{}, Mail: next.box, Replayed: next.replayed})
	next.handler.f = next.answerAt("A")
	next.svc = NewService("s", safeHandler{next.handler}, Limits{})
	next.svc.Anchoring, next.svc.Anchored = of.svc.Anchoring, of.svc.Anchored
	Mount(next.Node, next.svc)
	return next
}

// TestWhatAnchoredCallsBring forwards what is larger than a letter, a batch, and the cancel of a call.
func TestWhatAnchoredCallsBring(t *testing.T) {
	inAnchoredFleet(t, 3, nil, func(t *testing.T, all []*member, _ func() []string) {
		a, b, c := all[0], all[1], all[2]
		session := a.begin("2025-03-26")
		a.post(session, message("1", "x"))
		large := strings.Repeat("y", 1<<20)
		a.handler.f = func(_ context.Context, c *Call) ([]byte, *mcp.Error) {
			return fmt.Appendf(nil, `{"got":%d,"back":%q}`, len(c.Message().Params), large), nil
		}
		params := `{"z":"` + large + `"}`
		_, body := b.post(session, `{"jsonrpc":"2.0","id":2,"method":"x","params":`+params+`}`).answer()
		if want := fmt.Sprintf(`"got":%d,"back":%q`, len(params), large); !strings.Contains(body, want) {
			t.Errorf("%d bytes are answered with %d", len(params), len(body))
		}
		a.handler.f = func(context.Context, *Call) ([]byte, *mcp.Error) { return []byte(`{"at":"a"}`), nil }
		if _, body := c.post(session, `[`+message("3", "x")+`,`+message("4", "x")+`]`).answer(); strings.Count(body, `{"at":"a"}`) != 2 {
			t.Errorf("a batch is answered %s", body)
		}
		ended := make(chan error, 1)
		a.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			say(ctx, c, 1)
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return nil, nil
		}
		open := &heldConn{}
		go b.postOn(open, session, message("5", "x"))
		synctest.Wait()
		c.post(session, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
		if err := <-ended; !errors.Is(err, ErrCancelled) {
			t.Errorf("the call ended for %v", err)
		}
		synctest.Wait()
		if !open.isOver() {
			t.Error("the stream of a cancelled call is open")
		}
	})
}

// TestAnchorThatHasBeenReplaced has another node take the place of an anchor that lives: it says so, and forwards what comes to it.
func TestAnchorThatHasBeenReplaced(t *testing.T) {
	inAnchoredFleet(t, 2, nil, func(t *testing.T, all []*member, moved func() []string) {
		a, b := all[0], all[1]
		session := a.begin("2025-11-25")
		a.post(session, message("1", "x"))
		b.post(session, message("2", "elsewhere"))
		s, _ := b.sessions.Get(SessionKey{"anon", "s", session[:stream.IDLength]})
		if s == nil {
			t.Fatal("the session is not here")
		}
		if err := b.anchors.replaceAnchor(t.Context(), s, a.anchors.self()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := a.post(session, message("3", "x")).at(t); got != "b" {
			t.Errorf("then a call at the first ran at %s", got)
		}
		synctest.Wait()
		if got := moved(); !slices.Equal(got, []string{"a has it no more", "b has it"}) {
			t.Errorf("anchors moved: %q", got)
		}
		if in := b.input(session, "192.0.2.1", &heldConn{}); true {
			b.Delete(b.svc, in)
		}
		if status, _ := a.post(session, message("4", "x")).answer(); status != 404 {
			t.Errorf("a call of a session that has ended is answered %d", status)
		}
	})
}

// TestAnchorHearsOfTheEnd has a session end at another node than its anchor, whether the anchor has it in memory or not.
func TestAnchorHearsOfTheEnd(t *testing.T) {
	for _, idle := range []time.Duration{0, time.Hour} {
		inAnchoredFleet(t, 2, nil, func(t *testing.T, all []*member, moved func() []string) {
			a, b := all[0], all[1]
			session := a.begin("2025-11-25")
			a.post(session, message("1", "x"))
			time.Sleep(idle)
			b.Delete(b.svc, b.input(session, "192.0.2.1", &heldConn{}))
			synctest.Wait()
			if got := moved(); !slices.Equal(got, []string{"a has it no more"}) {
				t.Errorf("after %v: %q", idle, got)
			}
		})
	}
}

// TestHeadThatFitsNoLetter has a message come with so much beside it that no letter takes it: it is refused, and its connection is not cut.
func TestHeadThatFitsNoLetter(t *testing.T) {
	inAnchoredFleet(t, 2, nil, func(t *testing.T, all []*member, _ func() []string) {
		a, b := all[0], all[1]
		session := a.begin("2025-11-25")
		a.post(session, message("1", "x"))
		b.svc.Passes = func(any) map[string][]string {
			return map[string][]string{"X-Long": {strings.Repeat("x", relay.MaxHead)}}
		}
		x := &heldConn{}
		b.postOn(x, session, message("2", "x"))
		if status, body := x.answer(); status != 413 {
			t.Errorf("answered %d %s", status, body)
		}
	})
}

// TestWhatAnAnchorHadIsNotForgotten has a service not know at once what became of what a session had elsewhere, and its node die meanwhile: it is asked until it
// knows, whichever node the session is at then; and what goes on there is not forgotten when that node dies, too.
func TestWhatAnAnchorHadIsNotForgotten(t *testing.T) {
	inAnchoredFleet(t, 3, nil, func(t *testing.T, all []*member, _ func() []string) {
		a, b, c := all[0], all[1], all[2]
		var mu sync.Mutex
		var asked []string
		times := func(who string) (n int) {
			mu.Lock()
			defer mu.Unlock()
			for _, by := range asked {
				if by == who+" it" {
					n++
				}
			}
			return n
		}
		var known atomic.Bool
		for _, m := range all {
			m.svc.Anchored = func(_ context.Context, _ *Peer, had []string) (here, unknown []string) {
				mu.Lock()
				defer mu.Unlock()
				asked = append(asked, m.name+" "+strings.Join(had, " "))
				if !known.Load() {
					return nil, had
				}
				return had, nil
			}
		}
		session := a.begin("2025-11-25")
		a.post(session, message("1", "x"))
		a.kill()
		if got := b.post(session, message("2", "told")).at(t); got != "b" {
			t.Errorf("what is told ran at %s", got)
		}
		b.post(session, message("3", "elsewhere"))
		if n := times("b"); n != 0 {
			t.Errorf("b was asked %d times before the session was there", n)
		}
		if got := b.post(session, message("4", "x")).at(t); got != "b" {
			t.Errorf("the next call ran at %s", got)
		}
		time.Sleep(10 * time.Second)
		if n := times("b"); n < 3 || n > 5 {
			t.Errorf("b was asked %d times within 10 s", n)
		}
		b.kill()
		known.Store(true)
		if got := c.post(session, message("5", "x")).at(t); got != "c" {
			t.Errorf("the call after it ran at %s", got)
		}
		time.Sleep(10 * time.Minute)
		c.post(session, message("6", "x"))
		synctest.Wait()
		if n := times("c"); n != 1 {
			t.Errorf("c was asked %d times", n)
		}
		s, _ := c.sessions.Get(SessionKey{"anon", "s", session[:stream.IDLength]})
		if rec := s.view.Load().rec; len(rec.Owed) > 0 || !slices.Equal(rec.Anchored, []string{"it"}) {
			t.Errorf("the record has %q, and owes %q", rec.Anchored, rec.Owed)
		}
	})
}

// TestNotedWhereItIs has a session move to another node before something of it is noted here: its call hears that.
func TestNotedWhereItIs(t *testing.T) {
	inAnchoredFleet(t, 2, nil, func(t *testing.T, all []*member, _ func() []string) {
		a, b := all[0], all[1]
		session := a.begin("2025-11-25")
		a.post(session, message("1", "x"))
		key := SessionKey{"anon", "s", session[:stream.IDLength]}
		at := func(m *member) *sessionActor {
			m.post(session, message("2", "elsewhere"))
			s, ok := m.sessions.Get(key)
			if !ok {
				t.Fatal("the session is not here")
			}
			return s
		}
		if err := b.anchors.replaceAnchor(t.Context(), at(b), a.anchors.self()); err != nil {
			t.Fatal(err)
		}
		if err := a.anchors.noteAnchored(t.Context(), at(a), "more"); !errors.Is(err, ErrElsewhere) {
			t.Errorf("noted: %v", err)
		}
	})
}

// TestForwardedStreamsArePassedOn has the node with the connection of a call be drained, whose stream another node resumes: it waits for no call of the anchor,
// unless its client has no way to know that it is to come back.
func TestForwardedStreamsArePassedOn(t *testing.T) {
	for _, test := range []struct {
		revision string
		passes   bool
	}{{"2025-11-25", true}, {"2025-06-18", false}} {
		inAnchoredFleet(t, 3, nil, func(t *testing.T, all []*member, _ func() []string) {
			a, b, c := all[0], all[1], all[2]
			session, more, first := beginForwardedStream(a, b, test.revision)
			drained := make(chan struct{})
			go func() {
				defer close(drained)
				b.HandOver(t.Context(), nil)
			}()
			time.Sleep(10 * time.Second)
			if first.isOver() != test.passes {
				t.Errorf("%s: the stream is over: %v", test.revision, first.isOver())
			}
			rest := first
			if test.passes {
				<-drained
				rest = c.get(session, first.lastID())
				synctest.Wait()
			}
			more <- 2
			close(more)
			<-drained
			time.Sleep(time.Second)
			if got := rest.events(); !slices.Contains(got, said(2)) || !strings.Contains(got[len(got)-1], `"result"`) {
				t.Errorf("%s: after %q it is sent %q", test.revision, first.events(), got)
			}
			if n := b.relays.broken.Load(); n != 0 {
				t.Errorf("%s: %d exchanges count as broken", test.revision, n)
			}
		})
	}
}

// TestVisitsAreBounded has much be said to a session that has to be read first: it is said in its order, and what is too much is lost, as the session is told.
func TestVisitsAreBounded(t *testing.T) {
	inAnchoredFleet(t, 2, nil, func(t *testing.T, all []*member, _ func() []string) {
		a, b := all[0], all[1]
		session := a.begin("2025-11-25")
		key := SessionKey{"anon", "s", session[:stream.IDLength]}
		for range cap(b.sessions.lookups) {
			b.sessions.lookups <- struct{}{}
		}
		var got []int
		for i := range 3 * mostVisits {
			VisitAnchored(b.Node, b.svc, key, func(*Peer) { got = append(got, i) })
		}
		synctest.Wait()
		if len(got) > 0 {
			t.Errorf("%d have not waited", len(got))
		}
		for range cap(b.sessions.lookups) {
			<-b.sessions.lookups
		}
		synctest.Wait()
		if len(got) != mostVisits || !slices.IsSorted(got) {
			t.Errorf("said: %v", got)
		}
		if s, ok := b.sessions.Get(key); !ok || !s.missed.Load() {
			t.Error("the session does not know that it has missed something")
		}
		if n := b.refused(limits.SessionVisits.Row); n != 1 {
			t.Errorf("it is counted %d times", n)
		}
		VisitAnchored(b.Node, b.svc, SessionKey{"anon", "s", key.ID[1:] + "a"}, func(*Peer) { t.Error("nobody is there") })
		synctest.Wait()
		if n := len(b.anchors.visits.of); n != 0 {
			t.Errorf("of %d sessions something waits", n)
		}
	})
}
