package actors

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/actors/internal/session"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/sim"
)

var lost = sim.Fate{Lost: true}

// ping is a request that every handler answers.
var ping = message("1", "x")

// TestRecordIsReadAgain serves a session from what was read of its record for recordAge, and not longer: then one request
// reads it for all that came meanwhile.
func TestRecordIsReadAgain(t *testing.T) {
	inBand(t, 2, Limits{}, func(t *testing.T, c *band) {
		a, b := c.all[0], c.all[1]
		name := a.begin("2025-11-25")
		first := b.post(name, ping)
		before := b.door.reads.Load()
		for range 5 {
			time.Sleep(recordAge / 6)
			b.post(name, ping)
		}
		if n := b.door.reads.Load() - before; n != 0 {
			t.Errorf("%d reads within %v, want none", n, recordAge)
		}
		release := slow(c.mem, "Get")
		time.Sleep(recordAge)
		before = b.door.reads.Load()
		var all []*heldConn
		for i := range 10 {
			all = append(all, b.postBeside(name, message(fmt.Sprint(i), "x")))
		}
		if all[0].begun() {
			t.Error("a request was served before the record was read again")
		}
		release()
		synctest.Wait()
		for _, r := range append(all, first) {
			if status, body := r.answer(); status != 200 || strings.Contains(body, "error") {
				t.Errorf("answered %d %s", status, body)
			}
		}
		if n := b.door.reads.Load() - before; n != 1 {
			t.Errorf("%d reads for ten requests, want one", n)
		}
	})
}

// slow holds an operation of the store, once it has its result, until release is called.
func slow(m *memory, held string) (release func()) {
	free := make(chan struct{})
	m.after = func(op, _ string) error {
		if op == held {
			<-free
		}
		return nil
	}
	return func() { m.after = nil; close(free) }
}

// TestRecordThatCannotBeRead refuses requests once what is known of the record is too old, and serves them when it can be read
// again. A call that runs goes on.
func TestRecordThatCannotBeRead(t *testing.T) {
	inBand(t, 2, Limits{}, func(t *testing.T, c *band) {
		a, b := c.all[0], c.all[1]
		name := a.begin("2025-11-25")
		b.post(name, ping)
		running := c.running(b, name)
		b.door.shut.Store(true)
		time.Sleep(recordAge / 2)
		if _, body := b.post(name, ping).answer(); strings.Contains(body, "error") {
			t.Errorf("refused after %v: %s", recordAge/2, body)
		}
		time.Sleep(recordAge)
		if _, body := b.post(name, ping).answer(); !strings.Contains(body, "retryAfterMs") {
			t.Errorf("a request was answered %s", body)
		}
		if status, _ := b.post(name, `{"jsonrpc":"2.0","method":"x"}`).answer(); status != 503 {
			t.Errorf("a notification was answered %d", status)
		}
		time.Sleep(time.Minute)
		b.door.shut.Store(false)
		if _, body := b.post(name, ping).answer(); strings.Contains(body, "error") {
			t.Errorf("refused when the store is back: %s", body)
		}
		if running.ctx.Err() != nil {
			t.Error("the call that ran was ended")
		}
		running.end()
	})
}

// ongoing is a call whose handler waits.
type ongoing struct {
	conn *heldConn
	ctx  context.Context
	end  func()
}

// running begins a call with the id 7 whose response is a stream.
func (c *band) running(m *mate, name string) *ongoing {
	c.t.Helper()
	release := make(chan struct{})
	call := &ongoing{end: func() { close(release) }}
	before := m.handler.f
	m.handler.f = func(ctx context.Context, k *Call) ([]byte, *mcp.Error) {
		call.ctx = ctx
		_ = k.Notify(ctx, "begun", nil)
		select {
		case <-ctx.Done():
		case <-release:
		}
		return []byte("{}"), nil
	}
	call.conn = m.postBeside(name, message("7", "long"))
	synctest.Wait()
	if m.handler.f = before; call.ctx == nil || !call.conn.live() {
		c.t.Fatal("the call does not run")
	}
	return call
}

// TestEndIsKnownElsewhere ends a session in each way on one node, while a call and a standalone stream of it are on another one.
func TestEndIsKnownElsewhere(t *testing.T) {
	for name, tt := range map[string]struct {
		lose   []string
		within time.Duration
	}{
		"told":           {nil, 2 * time.Second},
		"nobody is told": {[]string{letterSessionEnded}, recordAge},
	} {
		t.Run(name, func(t *testing.T) {
			inBand(t, 3, Limits{}, func(t *testing.T, c *band) {
				a, b, other := c.all[0], c.all[1], c.all[2]
				name := a.begin("2025-11-25")
				call := c.running(b, name)
				stream := b.listen(name)
				other.post(name, ping)
				time.Sleep(17 * time.Second)
				c.let(lost, tt.lose...)
				if status := a.remove(name); status != 200 {
					t.Fatalf("DELETE was answered %d", status)
				}
				if took, ok := until(tt.within, func() bool { return call.ctx.Err() != nil && call.conn.ended() && stream.ended() }); !ok {
					t.Errorf("after %v: call %v, its connection over %v, stream over %v", took, context.Cause(call.ctx), call.conn.ended(), stream.ended())
				}
				if cause := context.Cause(call.ctx); !errors.Is(cause, ErrSessionEnded) {
					t.Errorf("the call was ended because of %v", cause)
				}
				if status, _ := b.post(name, ping).answer(); status != 404 {
					t.Errorf("a request after the end was answered %d", status)
				}
				time.Sleep(recordAge)
				if status, _ := other.post(name, ping).answer(); status != 404 {
					t.Errorf("a request elsewhere was answered %d", status)
				}
				if n := c.told(); n != 1 {
					t.Errorf("the programs were told %d times that the session has ended", n)
				}
			})
		})
	}
}

// paths are the keys of all records.
func (m *memory) paths() (all []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for path := range m.records {
		all = append(all, path)
	}
	return all
}

// TestStreamOfASessionThatEndsElsewhere ends a session whose stream is on a node that has forgotten the session.
func TestStreamOfASessionThatEndsElsewhere(t *testing.T) {
	inBand(t, 2, Limits{}, func(t *testing.T, c *band) {
		a, b := c.all[0], c.all[1]
		name := a.begin("2025-11-25")
		b.listen(name).Cut()
		time.Sleep(3 * time.Minute)
		if b.has(name) || b.streams.Len() != 1 {
			t.Fatalf("in memory %v, %d streams", b.has(name), b.streams.Len())
		}
		a.remove(name)
		synctest.Wait()
		if n := b.streams.Len(); n != 0 || len(c.mem.paths()) != 0 {
			t.Errorf("%d streams are left, records: %v", n, c.mem.paths())
		}
	})
}

// TestStreamThatIsReplacedElsewhere opens a standalone stream while the one before is on a node that has forgotten the session.
func TestStreamThatIsReplacedElsewhere(t *testing.T) {
	inBand(t, 2, Limits{}, func(t *testing.T, c *band) {
		a, b := c.all[0], c.all[1]
		name := a.begin("2025-11-25")
		b.listen(name).Cut()
		time.Sleep(3 * time.Minute)
		a.listen(name)
		if n := b.streams.Len(); b.has(name) || n != 0 {
			t.Errorf("in memory %v, %d streams are left", b.has(name), n)
		}
	})
}

// TestExpiryInABand keeps a session alive on one node, of which another one has an old record; and has it expire with calls on
// both, of which one program is told.
func TestExpiryInABand(t *testing.T) {
	l := Limits{SessionDrop: time.Hour, Session: session.Lifetime{Idle: 20 * time.Second, Absolute: 5 * time.Minute}}
	inBand(t, 2, l, func(t *testing.T, c *band) {
		a, b := c.all[0], c.all[1]
		name := a.begin("2025-11-25")
		for range 6 {
			time.Sleep(6 * time.Second)
			if _, body := b.post(name, ping).answer(); strings.Contains(body, "error") {
				t.Fatal(body)
			}
		}
		if status, body := a.post(name, ping).answer(); status != 200 {
			t.Fatalf("the node with the old record answered %d %s", status, body)
		}
		first, second := c.running(a, name), c.running(b, name)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if first.ctx.Err() == nil || second.ctx.Err() == nil {
			t.Errorf("calls after the session's time: %v, %v", first.ctx.Err(), second.ctx.Err())
		}
		if n := c.told(); n != 1 {
			t.Errorf("the programs were told %d times that the session has ended", n)
		}
	})
}

// TestChangeIsKnownToTheWriter subscribes at one node while another one writes the standalone stream, which knows when the
// client has its response; if it cannot be asked, it finds out by itself, and makes good what it has not sent.
func TestChangeIsKnownToTheWriter(t *testing.T) {
	const uri = "x:1"
	for name, tt := range map[string]struct {
		harm   func(c *band)
		takes  time.Duration // the response, at most
		within time.Duration // the writer knows
	}{
		"asked":                        {nil, 0, 0},
		"the question is slow":         {func(c *band) { c.let(sim.Fate{There: knownWait / 2}, letterSessionChanged) }, knownWait, 0},
		"only the questions are lost":  {func(c *band) { c.lose(letterSessionChanged, 2) }, knownWait, time.Second},
		"all messages are lost":        {func(c *band) { c.let(lost, letterSessionChanged) }, knownWait, recordAge},
		"the writer cannot read":       {func(c *band) { c.all[1].door.shut.Store(true) }, knownWait, recordAge},
		"the writer is cut off":        {func(c *band) { c.all[1].box.Cut(true) }, knownWait, recordAge},
		"the writer is not there":      {func(c *band) { c.all[1].box.Kill() }, 0, -1},
		"another node is killed first": {func(c *band) { c.all[2].box.Kill() }, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBand(t, 3, Limits{}, func(t *testing.T, c *band) {
				a, b := c.all[0], c.all[1]
				name := a.begin("2025-11-25")
				stream := b.listen(name)
				time.Sleep(12 * time.Second)
				if tt.harm != nil {
					tt.harm(c)
				}
				began := time.Now()
				if err := a.peerOf(name).Subscribe(t.Context(), uri); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took > tt.takes {
					t.Errorf("the response took %v, want %v", took, tt.takes)
				}
				if tt.within < 0 {
					return
				}
				knows := func() bool { return subscriber{b.peerOf(name).last.Load()}.Wants(uri) }
				if tt.within == 0 && !knows() {
					t.Error("the writer does not know when the client has its response")
				}
				if n := updates(stream.events()); n != 0 && tt.within == 0 {
					t.Errorf("the client got %d updates of what has not changed", n)
				}
				b.ResourceUpdated(b.svc, uri, false) // not sent if it does not know yet, but made good
				if b.door.shut.Load() {
					time.Sleep(recordAge)
					b.door.shut.Store(false)
				}
				if took, ok := until(tt.within, knows); !ok {
					t.Errorf("the writer does not know after %v", took)
				}
				for want := 1; want <= 2; want++ {
					time.Sleep(time.Second)
					if n := updates(stream.events()); n < want || n > want && tt.within == 0 { // what was lost may be repeated
						t.Errorf("the client got %d updates, want %d", n, want)
					}
					b.ResourceUpdated(b.svc, uri, false)
				}
			})
		})
	}
}

// TestStandaloneStreamMoves opens standalone streams at one node after another: only the newest one goes on, wherever the others
// are.
func TestStandaloneStreamMoves(t *testing.T) {
	for name, tt := range map[string]struct {
		lose   []string
		within time.Duration
	}{
		"told":           {nil, 2 * time.Second},
		"nobody is told": {[]string{letterSessionChanged}, recordAge},
	} {
		t.Run(name, func(t *testing.T) {
			inBand(t, 3, Limits{}, func(t *testing.T, c *band) {
				name := c.all[0].begin("2025-11-25")
				if err := c.all[0].peerOf(name).Subscribe(t.Context(), "x:1"); err != nil {
					t.Fatal(err)
				}
				c.let(lost, tt.lose...)
				var streams []*heldConn
				for i, m := range append(c.all, c.all[0]) {
					streams = append(streams, m.listen(name))
					if i == 0 {
						continue
					}
					if took, ok := until(tt.within, streams[i-1].ended); !ok {
						t.Errorf("stream %d is open after %v", i-1, took)
					}
				}
				last := streams[len(streams)-1]
				last.read()
				for _, m := range c.all {
					m.subs.SendUpdate("s", "x:1", false)
				}
				time.Sleep(time.Second)
				for i, s := range streams {
					if s.live() != (s == last) {
						t.Errorf("stream %d: live %v", i, s.live())
					}
				}
				if n := updates(last.events()); n != 1 {
					t.Errorf("the client got %d updates, want 1", n)
				}
				if n := len(c.mem.paths()); n != 2 {
					t.Errorf("records: %v, want the session and one stream", c.mem.paths())
				}
			})
		})
	}
}

// TestCancelElsewhere cancels a call at a node where it does not run.
func TestCancelElsewhere(t *testing.T) {
	cancel := func(id string) string {
		return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"` + strings.Repeat("é", 5000) + `"}}`
	}
	inBand(t, 3, Limits{}, func(t *testing.T, c *band) {
		a, b := c.all[0], c.all[1]
		name, foreign := a.begin("2025-11-25"), a.begin("2025-11-25")
		call := c.running(b, name)
		for _, other := range []string{cancel(`"7"`), cancel("8"), cancel(`"` + strings.Repeat("7", maxToken) + `"`), strings.Replace(cancel("7"), "requestId", "x", 1)} {
			a.post(name, other)
		}
		a.post(foreign, cancel("7"))
		synctest.Wait()
		if call.ctx.Err() != nil {
			t.Fatal("another cancel has ended the call")
		}
		if n := c.count(letterCancel); n != 2*3 {
			t.Errorf("%d messages for three cancels of what may run elsewhere, want one for each node", n)
		}
		c.let(sim.Fate{There: time.Second}, letterCancel)
		began := time.Now()
		if status, _ := a.post(name, cancel("7")).answer(); status != 202 || time.Since(began) > 0 {
			t.Errorf("the cancel was answered %d after %v", status, time.Since(began))
		}
		if took, ok := until(2*time.Second, func() bool { return call.ctx.Err() != nil && call.conn.ended() }); !ok {
			t.Errorf("after %v: %v, connection over: %v", took, call.ctx.Err(), call.conn.ended())
		}
		if cause := context.Cause(call.ctx); !errors.Is(cause, ErrCancelled) || len(cause.Error()) > 2*mostReason || !strings.Contains(cause.Error(), "éé") {
			t.Errorf("cause: %v", cause)
		}
		if n := len(call.conn.events()); n != 1 {
			t.Errorf("%d events: %q", n, call.conn.events())
		}
		sent := c.count(letterCancel)
		own := c.running(a, name)
		a.post(name, cancel("7"))
		synctest.Wait()
		if own.ctx.Err() == nil || c.count(letterCancel) != sent {
			t.Errorf("a call that runs here: %v, %d messages", own.ctx.Err(), c.count(letterCancel)-sent)
		}
	})
}

// TestNewsWhileASessionIsRead has a session change, and end, after another node has read its record and before it serves from it.
func TestNewsWhileASessionIsRead(t *testing.T) {
	for name, tt := range map[string]struct {
		news func(*mate, string) error
		want int
	}{
		"changed": {func(m *mate, name string) error { return m.peerOf(name).SetLevel(context.Background(), "error") }, 200},
		"ended":   {func(m *mate, name string) error { m.remove(name); return nil }, 404},
	} {
		t.Run(name, func(t *testing.T) {
			inBand(t, 2, Limits{}, func(t *testing.T, c *band) {
				a, b := c.all[0], c.all[1]
				name := a.begin("2025-11-25")
				release := slow(c.mem, "Get")
				b.postBeside(name, ping)
				c.mem.after = nil
				if err := tt.news(a, name); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				release()
				synctest.Wait()
				if status, _ := b.post(name, ping).answer(); status != tt.want {
					t.Errorf("answered %d, want %d", status, tt.want)
				}
				if tt.want == 200 && b.peerOf(name).Level() != "error" {
					t.Error("the session is served from the record before")
				}
			})
		})
	}
}

// TestLettersAreJudged sends letters that are malformed, or are about other sessions: nothing happens.
func TestLettersAreJudged(t *testing.T) {
	inBand(t, 2, Limits{}, func(t *testing.T, c *band) {
		a, b := c.all[0], c.all[1]
		name := b.begin("2025-11-25")
		call, stream := c.running(b, name), b.listen(name)
		standalone := b.peerOf(name).last.Load().view.Load().rec.Standalone
		for _, kind := range []string{letterSessionChanged, letterSessionEnded, letterCancel} {
			session := func(tenant, server, id string) string {
				return `{"Session":{"Tenant":"` + tenant + `","Server":"` + server + `","ID":"` + id + `"},"Rev":99,"Stream":"` + standalone + `","Old":"` + standalone + `","Request":"7"}`
			}
			for _, data := range []string{"", "{", "null", "[]", `{"Session":1}`, `{"Request":7}`, "{}", `{"Rev":-1}`,
				session("other", "s", name), session("anon", "t", name), session("anon", "s", ""), session("anon", "s", "."+name)} {
				a.box.Tell(kind, []byte(data))
				a.box.Send(store.Address{Node: "n2", Boot: "b"}, kind, []byte(data))
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				_, _ = a.box.Ask(ctx, store.Address{Node: "n2", Boot: "b"}, kind, []byte(data))
				cancel()
			}
		}
		synctest.Wait()
		if call.ctx.Err() != nil || !stream.live() || !b.has(name) || b.panicked() {
			t.Errorf("call %v, stream %v, session %v, panics %v", call.ctx.Err(), stream.live(), b.has(name), b.panicked())
		}
		// A call's stream is no standalone stream.
		var own string
		b.streams.Each(func(st *streamActor) {
			if len(st.rec.Calls) > 0 {
				own = st.key.ID
			}
		})
		a.box.Send(store.Address{Node: "n2", Boot: "b"}, letterSessionChanged, []byte(`{"Session":{"Tenant":"anon","Server":"s","ID":"`+name+`"},"Old":"`+own+`"}`))
		synctest.Wait()
		if call.ctx.Err() != nil {
			t.Error("a letter about a standalone stream has ended a call")
		}
		call.end()
	})
}

func (m *mate) panicked() bool { return m.k.Panics() > 0 }

// TestAloneAsksNobody checks that a node without others reads no record again, and needs no mail.
func TestAloneAsksNobody(t *testing.T) {
	inBubble(t, Limits{SessionDrop: time.Hour}, NodeLimits{}, func(t *testing.T, h *held) {
		h.handler.f = func(context.Context, *Call) ([]byte, *mcp.Error) { return []byte("{}"), nil }
		reads := 0
		h.mem.before = func(op, _ string) error {
			if op == "Get" {
				reads++
			}
			return nil
		}
		name := h.begin("2025-11-25")
		for range 5 {
			time.Sleep(time.Minute)
			h.post(name, ping)
		}
		if err := h.peerOf(name).Subscribe(t.Context(), "x:1"); err != nil {
			t.Fatal(err)
		}
		h.ResourceUpdated(h.svc, "x:1", true)
		h.post(name, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		h.Delete(h.svc, h.input(name, "192.0.2.1", &heldConn{}))
		if reads != 0 {
			t.Errorf("%d records were read", reads)
		}
	})
}
