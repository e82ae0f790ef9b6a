package actors

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/sim"
)

// mortal is the way of a process to the store; a dead one stores nothing.
type mortal struct {
	store.Store
	dead      atomic.Bool
	deaf      atomic.Bool // no append is heard of
	suspended atomic.Bool
	slow      atomic.Int64 // nanoseconds that a Rewrite takes
}

func (m *mortal) Suspended() bool { return m.suspended.Load() }

func (m *mortal) Append(stream string, rev, num uint64, data []byte, done func(error)) {
	if m.dead.Load() {
		go done(store.ErrFenced)
		return
	}
	if m.deaf.Load() {
		return
	}
	m.Store.Append(stream, rev, num, data, done)
}

func (m *mortal) Rewrite(ctx context.Context, stream string, rec []byte, rev uint64, ttl time.Duration) (uint64, error) {
	time.Sleep(time.Duration(m.slow.Load()))
	if m.dead.Load() {
		return 0, store.ErrUnavailable
	}
	return m.Store.Rewrite(ctx, stream, rec, rev, ttl)
}

// member is a node of a fleet.
type member struct {
	held
	office *sim.Office
	box    *sim.Box
	store  *mortal

	mu      sync.Mutex // guards replays
	replays []string   // who wrote the streams that were replayed, and for how many seconds that took
}

// replayed is Config.Replayed.
func (m *member) replayed(writer string, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.replays = append(m.replays, fmt.Sprint(writer, " ", int(took.Seconds())))
}

// behind are the replays so far, and how many go on.
func (m *member) behind() ([]string, int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.replays), m.Stats().Replaying
}

// kill ends the member as SIGKILL does, as far as others can tell.
func (m *member) kill() {
	m.store.dead.Store(true)
	m.box.Kill()
}

// get opens or resumes a stream at the member.
func (m *member) get(session, event string) *heldConn {
	c := &heldConn{}
	in := m.input(session, "192.0.2.1", c)
	in.LastEventID = event
	go m.Get(m.svc, in, nil)
	return c
}

// inFleet runs f on nodes that share a store, in virtual time. fate is that of their letters.
func inFleet(t *testing.T, n int, fate func(kind string) sim.Fate, f func(t *testing.T, all []*member)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		office, mem := sim.NewOffice(fate), newMemory()
		var all []*member
		for i := range n {
			name, boot := string(rune('a'+i)), "boot-of-"+string(rune('a'+i))
			m := &member{office: office, box: office.Join(name, boot), store: &mortal{Store: mem}}
			m.held = held{t: t, mem: mem, holds: holds{held: make(map[string]chan struct{})}, handler: &heldHandler{}}
			m.Node = NewNode(Config{Name: name, Boot: boot, Store: m.store, Keys: benchKeys{}, Mail: m.box, Replayed: m.replayed})
			m.handler.f = func(context.Context, *Call) ([]byte, *mcp.Error) { return []byte(`{}`), nil }
			m.svc = NewService("s", safeHandler{m.handler}, Limits{})
			all = append(all, m)
		}
		f(t, all)
		for _, m := range all {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			if err := m.Close(ctx); err != nil {
				t.Errorf("close %s: %v", m.name, err)
			}
			cancel()
		}
		time.Sleep(2 * time.Minute)
		for _, m := range all {
			if r, w := m.readings.len(), m.readers.len(); r != 0 || w != 0 {
				t.Errorf("node %s still has %d connections of streams elsewhere, and %d readers elsewhere", m.name, r, w)
			}
		}
	})
}

// speaker makes handlers that say the numbers that come, and end with the channel.
func speaker(more <-chan int) func(context.Context, *Call) ([]byte, *mcp.Error) {
	return func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
		for {
			select {
			case n, ok := <-more:
				if !ok {
					return []byte(`{}`), nil
				}
				say(ctx, c, n)
			case <-ctx.Done():
				return nil, nil
			}
		}
	}
}

// numbers are the messages of a call from..to.
func numbers(from, to int) (all []string) {
	for n := from; n <= to; n++ {
		all = append(all, said(n))
	}
	return all
}

// TestResumeElsewhereAttaches resumes a stream on a node while the call runs on another one: the client gets
// what it missed and what follows, the call goes on where it is, and its response ends the stream.
func TestResumeElsewhereAttaches(t *testing.T) {
	inFleet(t, 3, nil, func(t *testing.T, all []*member) {
		a, b, c := all[0], all[1], all[2]
		session, first, more := a.brokenStream()
		event := first.lastID()
		more <- 2
		more <- 3
		synctest.Wait()
		second := b.get(session, event)
		synctest.Wait()
		more <- 4
		synctest.Wait()
		if got := second.events(); !slices.Equal(got, numbers(2, 4)) || second.over {
			t.Fatalf("the second node sent %q, over %v", got, second.over)
		}
		third := c.get(session, second.lastID())
		synctest.Wait()
		more <- 5
		synctest.Wait()
		if got := third.events(); !slices.Equal(got, numbers(5, 5)) {
			t.Errorf("the third node sent %q", got)
		}
		if !second.over || slices.Contains(second.events(), said(5)) {
			t.Errorf("the second connection goes on beside the third: over %v, %q", second.over, second.events())
		}
		close(more)
		synctest.Wait()
		if got := third.events(); len(got) != 2 || !strings.Contains(got[1], `"result"`) || !third.over {
			t.Errorf("at the end the third node sent %q, over %v", got, third.over)
		}
		if n := b.Stats().Takeovers + c.Stats().Takeovers; n != 0 {
			t.Errorf("%d takeovers of a stream whose writer lives", n)
		}
	})
}

// TestReaderGoesOnWhenItsWriterDies kills the node that runs a call while its client reads by way of another one. The call runs
// again on that node, on the same connection, and the client sees each event once.
func TestReaderGoesOnWhenItsWriterDies(t *testing.T) {
	inFleet(t, 2, nil, func(t *testing.T, all []*member) {
		a, b := all[0], all[1]
		more, again := make(chan int), make(chan int)
		a.handler.f, b.handler.f = speaker(more), speaker(again)
		session := a.begin("2025-11-25")
		first := &heldConn{}
		go a.postOn(first, session, message("1", "x"))
		more <- 1
		synctest.Wait()
		event := first.lastID()
		first.Cut()
		second := b.get(session, event)
		synctest.Wait()
		if at, to := b.Stats(), a.Stats(); at.Attaches != 1 || at.Readings != 1 || to.Attaches != 0 || to.Readings != 0 {
			t.Errorf("b counts %d attaches and %d readers of streams elsewhere, a %d and %d", at.Attaches, at.Readings, to.Attaches, to.Readings)
		}
		more <- 2
		synctest.Wait()
		b.store.slow.Store(int64(70 * time.Millisecond))
		a.kill()
		for n := 1; n <= 4; n++ { // the second run says the same, from the start
			again <- n
		}
		close(again)
		time.Sleep(10 * time.Second)
		got := second.events()
		if len(got) != 4 || !slices.Equal(got[:3], numbers(2, 4)) || !strings.Contains(got[3], `"result"`) || !second.over {
			t.Errorf("the client got %q, over %v", got, second.over)
		}
		if s := b.Stats(); s.Attaches != 1 || s.Readings != 0 || s.Takeovers != 1 || s.TakeoverTime != 70*time.Millisecond {
			t.Errorf("then b counts %d attaches, %d readers of streams elsewhere and %d takeovers of %v", s.Attaches, s.Readings, s.Takeovers, s.TakeoverTime)
		}
		close(more)
	})
}

// TestGivenUpStreamIsTakenAtOnce has a node stop while its stream is read by way of another one: the other goes on with the
// call at once, though the first node's entry is still there.
func TestGivenUpStreamIsTakenAtOnce(t *testing.T) {
	inFleet(t, 2, nil, func(t *testing.T, all []*member) {
		a, b := all[0], all[1]
		more, again := make(chan int), make(chan int)
		a.handler.f, b.handler.f = speaker(more), speaker(again)
		session := a.begin("2025-11-25")
		first := &heldConn{}
		go a.postOn(first, session, message("1", "x"))
		more <- 1
		synctest.Wait()
		first.Cut()
		second := b.get(session, first.lastID())
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		a.HandOver(ctx, nil)
		w, ok := a.streams.Get(StreamKey{a.sessionOf(session), streamOf(first.lastID())})
		if ok {
			_ = w.Post(handOver{})
		}
		began := time.Now()
		again <- 1
		again <- 2
		if waited := time.Since(began); waited > 3*time.Second {
			t.Errorf("the call ran again after %v", waited)
		}
		close(again)
		time.Sleep(time.Second)
		if got := second.events(); len(got) != 2 || got[0] != said(2) || !second.over {
			t.Errorf("the client got %q, over %v", got, second.over)
		}
		close(more)
	})
}

func (h *held) sessionOf(id string) SessionKey {
	key, _ := sessionKey("anon", h.svc.ID, id)
	return key
}

func streamOf(event string) string {
	id, _, _ := strings.Cut(event, ".")
	return id
}

// brokenStream begins a session and a call whose stream breaks after its first event. The call goes on: it says what comes from more.
func (m *member) brokenStream() (session string, first *heldConn, more chan int) {
	more = make(chan int)
	m.handler.f = speaker(more)
	session = m.begin("2025-11-25")
	first = &heldConn{}
	go m.postOn(first, session, message("1", "x"))
	more <- 1
	synctest.Wait()
	first.Cut()
	return session, first, more
}

// TestSilentWriterIsNotReplaced cuts the node off that writes a stream. A resume elsewhere is held, its call runs on, and once the node is
// heard again the client gets everything.
func TestSilentWriterIsNotReplaced(t *testing.T) {
	inFleet(t, 2, nil, func(t *testing.T, all []*member) {
		a, b := all[0], all[1]
		session, first, more := a.brokenStream()
		a.box.Cut(true)
		second := b.get(session, first.lastID())
		more <- 2
		time.Sleep(30 * time.Second)
		if n := b.Stats().Takeovers; n != 0 || second.over || !second.begun() {
			t.Errorf("%d takeovers; the held response has begun: %v, is over: %v", n, second.begun(), second.over)
		}
		a.box.Cut(false)
		time.Sleep(10 * time.Second)
		more <- 3
		synctest.Wait()
		if got := second.events(); !slices.Equal(got, numbers(2, 3)) {
			t.Errorf("the client got %q", got)
		}
		close(more)
	})
}

// TestHeldResumeEndsWithItsSession ends a session while a resume of a stream of its is held, whose writer is not heard.
func TestHeldResumeEndsWithItsSession(t *testing.T) {
	inFleet(t, 2, nil, func(t *testing.T, all []*member) {
		a, b := all[0], all[1]
		session, first, more := a.brokenStream()
		a.box.Cut(true)
		second := b.get(session, first.lastID())
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !second.begun() || second.over {
			t.Fatalf("the resume is held: %v, and over: %v", second.begun(), second.over)
		}
		deleted := &heldConn{}
		b.Delete(b.svc, b.input(session, "192.0.2.1", deleted))
		time.Sleep(7 * time.Second) // a try takes 5 s
		synctest.Wait()
		if status, _ := deleted.answer(); status != 200 || !second.over {
			t.Errorf("7 s after DELETE, which got %d, the resume is over: %v", status, second.over)
		}
		a.box.Cut(false)
		close(more)
		time.Sleep(time.Minute)
	})
}

// TestLostFrames loses and delays letters between nodes: whatever is lost, the client gets each event once, in order, and
// the response.
func TestLostFrames(t *testing.T) {
	for seed := range uint64(30) {
		rnd, pauses := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
		var mu sync.Mutex // guards rnd
		fate := func(string) sim.Fate {
			mu.Lock()
			defer mu.Unlock()
			return sim.Fate{There: time.Duration(rnd.IntN(3)) * time.Millisecond, Lost: rnd.IntN(4) == 0}
		}
		inFleet(t, 2, fate, func(t *testing.T, all []*member) {
			a, b := all[0], all[1]
			more := make(chan int)
			a.handler.f = speaker(more)
			session := a.begin("2025-11-25")
			first := &heldConn{}
			go a.postOn(first, session, message("1", "x"))
			more <- 1
			synctest.Wait()
			first.Cut()
			second := b.get(session, first.lastID())
			const last = 40
			for n := 2; n <= last; n++ {
				more <- n
				time.Sleep(time.Duration(pauses.IntN(500)) * time.Millisecond)
			}
			close(more)
			time.Sleep(time.Minute)
			got := second.events()
			if len(got) != last || !slices.Equal(got[:last-1], numbers(2, last)) || !second.over {
				t.Errorf("seed %d: the client got %d events %q, over %v", seed, len(got), got, second.over)
			}
			if n := b.Stats().Takeovers; n != 0 {
				t.Errorf("seed %d: %d takeovers", seed, n)
			}
		})
	}
}

// TestLargeFrames has a call send events that are larger than a frame, and more of them than may be on the way.
func TestLargeFrames(t *testing.T) {
	inFleet(t, 2, func(string) sim.Fate { return sim.Fate{There: 5 * time.Millisecond} }, func(t *testing.T, all []*member) {
		a, b := all[0], all[1]
		more := make(chan int)
		size := []int{1 << 10, 600 << 10, 100 << 10, 100 << 10, 100 << 10, 300 << 10}
		text := func(n int) string { return strings.Repeat("x", size[n]) }
		a.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			for n := range more {
				_ = c.Notify(ctx, "n", fmt.Appendf(nil, `{"n":%d,"text":%q}`, n, text(n%len(size))))
			}
			return []byte(`{}`), nil
		}
		session := a.begin("2025-11-25")
		first := &heldConn{}
		go a.postOn(first, session, message("1", "x"))
		more <- 0
		synctest.Wait()
		first.Cut()
		second := b.get(session, first.lastID())
		synctest.Wait()
		for n := 1; n <= 12; n++ {
			more <- n
		}
		close(more)
		time.Sleep(time.Minute)
		got := second.events()
		if len(got) != 13 || !second.over {
			t.Fatalf("the client got %d events, over %v", len(got), second.over)
		}
		for n := 1; n <= 12; n++ {
			if want := fmt.Sprintf(`{"jsonrpc":"2.0","method":"n","params":{"n":%d,"text":%q}}`, n, text(n%len(size))); got[n-1] != want {
				t.Errorf("event %d has %d bytes and begins %.60q, want %d bytes", n, len(got[n-1]), got[n-1], len(want))
			}
		}
	})
}

// TestAnswerElsewhere answers a question at another node than that of the call that asked, once for a call whose answers
// are stored and once for one whose are not.
func TestAnswerElsewhere(t *testing.T) {
	for _, passing := range []bool{false, true} {
		inFleet(t, 2, nil, func(t *testing.T, all []*member) {
			a, b := all[0], all[1]
			a.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
				got, err := c.Ask(ctx, []Question{{Key: "q", Method: "ping", Passing: passing}})
				if err != nil {
					return nil, &mcp.Error{Code: 1, Message: err.Error()}
				}
				return got[0].Result, nil
			}
			session := a.begin("2025-11-25")
			first := &heldConn{}
			go a.postOn(first, session, message("1", "x"))
			synctest.Wait()
			asked := first.events()
			if len(asked) != 1 {
				t.Fatalf("the client got %q", asked)
			}
			answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"said":"yes"}}`, codec.Field([]byte(asked[0]), "id"))
			if status, body := b.post(session, answer).answer(); status != 202 {
				t.Errorf("the answer got %d %s", status, body)
			}
			synctest.Wait()
			if got := first.events(); len(got) != 2 || !strings.Contains(got[1], `{"said":"yes"}`) {
				t.Errorf("the client got %q", got)
			}
			if status, _ := b.post(session, answer).answer(); status != 202 { // once more: dropped
				t.Errorf("the second answer got %d", status)
			}
		})
	}
}

// TestAnswerToOneThatListensNoMore answers a question of a call whose stream has expired, and whose node has ended while it was cut off: the servers
// believe for minutes that it listens, and so no letter to it says that nobody does. Nobody needs the answer, once it is noted that the node is gone.
func TestAnswerToOneThatListensNoMore(t *testing.T) {
	inFleet(t, 2, nil, func(t *testing.T, all []*member) {
		var full atomic.Bool
		all[0].mem.before = func(op, _ string) error {
			if op == "MarkTaken" && full.Load() {
				return store.ErrFull
			}
			return nil
		}
		session, question, _ := asksOnce(&all[0].held)
		all[0].box.Cut(true)
		all[0].kill()
		b := all[1]
		stream := strings.Trim(question[strings.LastIndex(question, "-")+1:], `"`)
		if err := b.mem.EndStream(t.Context(), StreamKey{b.sessionOf(session), stream}.streamPath()); err != nil {
			t.Fatal(err)
		}
		full.Store(true)
		if status, body := b.answers(session, question); status != 503 {
			t.Errorf("an answer whose asker is not noted as gone got %d %s", status, body)
		}
		full.Store(false)
		for range 10 { // of two timers of the same time either may be first
			if status, body := b.answers(session, question); status != 202 {
				t.Errorf("the answer got %d %s", status, body)
			}
		}
	})
}

// TestAnswerWhoseStreamNobodyCanTellOf answers questions whose streams the store does not have, of this node and of one that it has never heard, at a
// node that has been away: so may have been whoever has the stream, which stores it again then.
func TestAnswerWhoseStreamNobodyCanTellOf(t *testing.T) {
	inFleet(t, 2, nil, func(t *testing.T, all []*member) {
		b := all[1]
		session := b.begin("2025-11-25")
		for _, away := range []bool{false, true, false} {
			b.box.Cut(away)
			for _, asker := range []string{"b.boot-of-b", "x.boot-of-x"} {
				if status, body := b.answers(session, `"`+asker+`.1-`+newID()+`"`); status != map[bool]int{false: 202, true: 503}[away] {
					t.Errorf("away %v: the answer to %s got %d %s", away, asker, status, body)
				}
			}
		}
	})
}

// answers returns the status and the body that a client gets which answers a question at the member.
func (m *member) answers(session, question string) (int, string) {
	c := &heldConn{}
	go m.postOn(c, session, answerTo(question, "yes"))
	time.Sleep(time.Minute)
	return c.answer()
}

// TestResumeWhoseStreamNobodyCanTellOf resumes a stream that the store does not have, at a node that has been away, or is back when it looks: its writer
// may have been away, too. The client waits, and hears that there is no such stream once the node can tell.
func TestResumeWhoseStreamNobodyCanTellOf(t *testing.T) {
	for _, back := range []bool{false, true} {
		inFleet(t, 2, nil, func(t *testing.T, all []*member) {
			a, b := all[0], all[1]
			b.mem.before = func(op, _ string) error {
				if op == "Writer" && back {
					b.box.Cut(false)
				}
				return nil
			}
			session, question, _ := asksOnce(&a.held)
			stream := strings.Trim(question[strings.LastIndex(question, "-")+1:], `"`)
			if err := b.mem.EndStream(t.Context(), StreamKey{b.sessionOf(session), stream}.streamPath()); err != nil {
				t.Fatal(err)
			}
			b.box.Cut(true)
			c := b.get(session, stream+".0.0")
			time.Sleep(10 * time.Second)
			if status, body := c.answer(); status != 0 || c.isOver() != back {
				t.Errorf("back %v: the resume got %d %s, over %v", back, status, body, c.isOver())
			}
			b.box.Cut(false)
			time.Sleep(10 * time.Second)
			if !c.isOver() {
				t.Errorf("back %v: the resume waits for ever", back)
			}
			c = b.get(session, stream+".0.0")
			time.Sleep(time.Second)
			if status, body := c.answer(); status != 400 {
				t.Errorf("back %v: then it got %d %s", back, status, body)
			}
		})
	}
}

// TestNotifyIsStoredOnce sends messages to a session from a node that does not write its stream, over letters that are lost and
// late: each is stored once, in order, and the sender learns so. The writer may die meanwhile, and the next one knows what it has stored.
func TestNotifyIsStoredOnce(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		var mu sync.Mutex // guards rnd
		fate := func(string) sim.Fate {
			mu.Lock()
			defer mu.Unlock()
			return sim.Fate{There: time.Duration(rnd.IntN(3)) * time.Millisecond, Lost: rnd.IntN(5) == 0, Stray: rnd.IntN(5) == 0}
		}
		inFleet(t, 3, fate, func(t *testing.T, all []*member) {
			a, b, c := all[0], all[1], all[2]
			b.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
				for n := range 12 {
					if err := c.Peer().Notify(ctx, "n", fmt.Appendf(nil, `{"n":%d}`, n+1)); err != nil {
						return nil, &mcp.Error{Code: 1, Message: fmt.Sprintf("message %d: %v", n+1, err)}
					}
				}
				return []byte(`{}`), nil
			}
			session := a.begin("2025-11-25")
			listening := a.get(session, "")
			synctest.Wait()
			post := &heldConn{}
			go b.postOn(post, session, message("1", "x"))
			time.Sleep(time.Duration(seed) * 300 * time.Millisecond)
			if seed%2 == 0 {
				a.kill()
			}
			time.Sleep(2 * time.Minute)
			if got := append(post.events(), post.body); !strings.Contains(got[0], `"result"`) {
				t.Errorf("seed %d: the handler got %q", seed, got)
			}
			again := c.get(session, listening.lastID())
			time.Sleep(time.Minute)
			if got := append(listening.events(), again.events()...); !slices.Equal(got, numbers(1, 12)) {
				t.Errorf("seed %d: the client got %q", seed, got)
			}
		})
	}
}

// TestNodeThatComesBackLooks has a node lose its lease while the client of an idle stream is connected to it, and another node take the stream over.
// When the first one is back it closes that connection: the client would wait there forever.
func TestNodeThatComesBackLooks(t *testing.T) {
	inFleet(t, 2, nil, func(t *testing.T, all []*member) {
		a, b := all[0], all[1]
		session := a.begin("2025-11-25")
		listening := a.get(session, "")
		kept := a.get(a.begin("2025-11-25"), "")
		synctest.Wait()
		a.store.suspended.Store(true)
		a.box.Kill()
		time.Sleep(10 * time.Second)
		second := b.get(session, listening.lastID())
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if listening.over || second.over {
			t.Fatalf("before it is back: its connection is over: %v, the other's: %v", listening.over, second.over)
		}
		a.store.suspended.Store(false)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if !listening.over || second.over || kept.over {
			t.Errorf("the connection of the stream that it lost is over: %v, that of the new writer: %v, that of a stream that it kept: %v", listening.over, second.over, kept.over)
		}
	})
}

// TestLateCancelsAreCounted has more cancels come than are kept.
func TestLateCancelsAreCounted(t *testing.T) {
	inFleet(t, 1, nil, func(t *testing.T, all []*member) {
		most := limits.LateCancels.Value()
		for i := range most + 3 {
			all[0].sessions.cancelLate(SessionKey{"anon", "s", "gone"}, strconv.Itoa(i), "")
		}
		if n := all[0].refused(limits.LateCancels.Row); n != 3 {
			t.Errorf("%d are counted as not kept, want 3", n)
		}
	})
}

// TestCancelOfACallBetweenNodes cancels a call that one node has given up, or can no longer end, and that another one has not yet begun to
// run again: it is cancelled there.
func TestCancelOfACallBetweenNodes(t *testing.T) {
	const cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough"}}`
	giveUpAll := func(a *member) {
		eachSession(a.Node, func(s *sessionActor) { _ = s.Post(giveUpCalls{}) })
		synctest.Wait()
	}
	for name, leave := range map[string]func(a, b *member, session string){
		"which the node learns that has given it up": func(a, _ *member, session string) {
			giveUpAll(a)
			a.post(session, cancel)
		},
		"which the node learns that it comes to": func(a, b *member, session string) {
			giveUpAll(a)
			b.post(session, cancel)
		},
		"which the node learns that dies before it is stored": func(a, _ *member, session string) {
			a.store.deaf.Store(true)
			a.post(session, cancel)
			a.kill()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inFleet(t, 2, nil, func(t *testing.T, all []*member) {
				a, b := all[0], all[1]
				let := make(chan struct{})
				a.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
					say(ctx, c, 1)
					<-let // ignores its context
					return []byte(`{}`), nil
				}
				session, first := a.begin("2025-11-25"), &heldConn{}
				go a.postOn(first, session, message("1", "x"))
				synctest.Wait()
				first.Cut()
				ran := make(chan error, 1)
				b.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
					ran <- context.Cause(ctx)
					say(ctx, c, 2)
					return []byte(`{}`), nil
				}
				leave(a, b, session)
				synctest.Wait()
				second := b.get(session, first.lastID())
				time.Sleep(10 * time.Second)
				select {
				case err := <-ran:
					if !errors.Is(err, ErrCancelled) || !strings.Contains(err.Error(), "enough") {
						t.Errorf("the call runs again, ended for %v", err)
					}
				default:
				}
				status, body := second.answer() // 204 if the stream had ended by then
				if got := second.events(); len(got) != 0 || !second.isOver() && status != 204 {
					t.Errorf("the client got %d %s %q, over %v", status, body, got, second.isOver())
				}
				if _, ok := b.sessions.late.takeCancel(b.sessionOf(session), "1"); ok {
					t.Error("the cancel is kept though its call has come")
				}
				close(let)
			})
		})
	}
}

// TestAnAnswerToTwoNodesAtOnce has a client send an answer twice, to two nodes, after the node that asked has died. Both want to take the stream over: the
// one that does not get it passes the answer on.
func TestAnAnswerToTwoNodesAtOnce(t *testing.T) {
	inFleet(t, 3, nil, func(t *testing.T, all []*member) {
		session, question, _ := asksOnce(&all[0].held)
		all[0].kill()
		time.Sleep(30 * time.Second)
		var conns []*heldConn
		for _, m := range all[1:] {
			m.store.slow.Store(int64(time.Second)) // both have read the record before one replaces it
			c := &heldConn{}
			go m.postOn(c, session, answerTo(question, "yes"))
			conns = append(conns, c)
		}
		time.Sleep(10 * time.Second)
		for i, c := range conns {
			if status, body := c.answer(); status != 202 {
				t.Errorf("node %s says %d %s to the answer, want 202", all[i+1].name, status, body)
			}
		}
	})
}

// TestResumeOfASessionThatEndedElsewhere has a client come back to a node that could not hear that its session has ended.
func TestResumeOfASessionThatEndedElsewhere(t *testing.T) {
	inFleet(t, 2, nil, func(t *testing.T, all []*member) {
		a, b := all[0], all[1]
		session, first, more := b.brokenStream()
		defer close(more)
		a.post(session, ping)
		a.box.Cut(true)
		b.Delete(b.svc, b.input(session, "192.0.2.1", &heldConn{}))
		time.Sleep(10 * time.Second)
		// The node has removed the stream, unless its end was stored just before that.
		_ = b.mem.EndStream(t.Context(), StreamKey{b.sessionOf(session), streamOf(first.lastID())}.streamPath())
		back := a.get(session, first.lastID())
		time.Sleep(10 * time.Second)
		if status, body := back.answer(); status != 404 {
			t.Errorf("it is answered %d %s, want 404", status, body)
		}
		a.box.Cut(false)
	})
}
