package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/actors/internal/record"
	"github.com/troupe-run/troupe/actors/internal/session"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
)

// put stores v as JSON, and returns the revision.
func (m *memory) put(key string, v any) uint64 {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rev++
	m.records[key] = stored{data, m.rev}
	return m.rev
}

// TestWhoHasARecord walks the cases of a writer whose guard was refused: only its own
// record is good, and only a record that no other node can have taken may be stored again.
func TestWhoHasARecord(t *testing.T) {
	const id, other = "abcdefghijklmnopqrstuvwxyz", "bbcdefghijklmnopqrstuvwxyz"
	of := func(boot string, epoch uint64) *record.Stream {
		return &record.Stream{Version: record.Version, Boot: boot, Epoch: epoch}
	}
	for name, row := range map[string]struct {
		rec        *record.Stream // nil is none
		session    string         // its standalone stream; "gone" is no session
		standalone bool
		uncertain  bool // the lease
		want       error
	}{
		"its own":                           {of("b", 5), "", false, false, nil},
		"its own, lease uncertain":          {of("b", 5), "", false, true, nil},
		"of this boot and another epoch":    {of("b", 6), "", false, false, store.ErrFenced},
		"of another boot and this epoch":    {of("c", 5), "", false, false, store.ErrFenced},
		"gone":                              {nil, "", false, false, store.ErrNotFound},
		"gone, lease uncertain":             {nil, "", false, true, store.ErrUnavailable},
		"gone, and the session":             {nil, "gone", false, false, ErrSessionEnded},
		"gone, of the session's own":        {nil, id, true, false, store.ErrNotFound},
		"gone, the session has another":     {nil, other, true, false, ErrSessionEnded},
		"gone, the session has none":        {nil, "", true, false, ErrSessionEnded},
		"gone, of a call beside another":    {nil, other, false, false, store.ErrNotFound},
		"gone, of the session's, uncertain": {nil, id, true, true, store.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				store := &uncertain{memory: h.mem}
				store.on.Store(row.uncertain)
				n := NewNode(Config{Name: "n", Boot: "b", Store: store})
				defer func() { _ = n.Close(context.Background()) }()
				key := StreamKey{SessionKey{"anon", "s", other}, id}
				if row.session != "gone" {
					rec := session.New(time.Now(), h.svc.Limits.Session)
					rec.Standalone = row.session
					h.mem.put(key.Session.recordKey(), rec)
				}
				want := uint64(0)
				if row.rec != nil {
					if want = h.mem.put(key.streamPath(), row.rec); row.want != nil {
						want = 0
					}
				}
				rev, err := n.streams.ownRevision(t.Context(), key, 5, row.standalone)
				if !errors.Is(err, row.want) || rev != want {
					t.Errorf("got revision %d, %v, want %d, %v", rev, err, want, row.want)
				}
			})
		})
	}
}

// TestLogWithAHole has a log that lacks an append which the record does not cover. What the
// calls sent and got there is unknown. The calls do not run again, and a client that has an
// event from before the hole does not get the events behind it as if nothing were missing.
func TestLogWithAHole(t *testing.T) {
	for name, taken := range map[string]bool{"its writer is here, and has it no longer in memory": false, "another takes it over": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				h.svc.Handler = safeHandler{h.handler}
				h.handler.f = ticks(5 * time.Second) // the record is not rewritten before the test ends
				c, session := &heldConn{}, h.begin("2025-11-25")
				go h.postOn(c, session, aCall)
				time.Sleep(11 * time.Second)
				before := c.lastID()
				time.Sleep(20 * time.Second)
				h.mem.mu.Lock()
				for path, log := range h.mem.appends {
					delete(log, uint64(len(log))-1) // the last but one
					h.cache.DropStream(path)
				}
				h.mem.mu.Unlock()
				n, svc, again := h.Node, h.svc, false
				if taken {
					var end func()
					run := ticks(time.Second)
					n, svc, end = h.heir(safeHandler{&heldHandler{f: func(ctx context.Context, c *Call) ([]byte, *mcp.Error) { again = true; return run(ctx, c) }}}, Limits{})
					defer end()
				}
				back := h.resume(n, svc, session, before)
				time.Sleep(time.Second)
				if status, body := back.answer(); status != 400 || !strings.Contains(body, fmt.Sprint(mcp.CodeBadEventID)) {
					t.Errorf("from before the hole: %d %s, %d events, want 400", status, body, len(back.events()))
				}
				if !taken {
					return
				}
				back = h.resume(n, svc, session, c.lastID())
				time.Sleep(time.Minute)
				if got := back.events(); len(got) != 1 || !strings.Contains(got[0], fmt.Sprint(mcp.CodeCallLost)) || again {
					t.Errorf("from behind the hole: %q, the call ran again: %t", got, again)
				}
			})
		})
	}
}

// TestProgressGoesOnAfterATakeover has a second run make the same progress again: its client
// gets only values above those of the first run.
func TestProgressGoesOnAfterATakeover(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		upTo := func(last int) func(context.Context, *Call) ([]byte, *mcp.Error) {
			return func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
				for i := 1; i <= last; i++ {
					_ = c.Progress(ctx, float64(i), fmt.Appendf(nil, `{"progressToken":"t","progress":%d}`, i))
					time.Sleep(time.Second)
				}
				<-ctx.Done()
				return nil, mcp.NewError(mcp.CodeInternalError, "ended")
			}
		}
		h.svc.Handler = safeHandler{h.handler}
		h.handler.f = upTo(2)
		first, session := &heldConn{}, h.begin("2025-11-25")
		go h.postOn(first, session, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":"t"}}}`)
		time.Sleep(10 * time.Second)
		n, svc, end := h.heir(safeHandler{&heldHandler{f: upTo(4)}}, Limits{})
		defer end()
		c := h.resume(n, svc, session, first.lastID())
		time.Sleep(10 * time.Second)
		var got []string
		for _, e := range append(first.events(), c.events()...) {
			got = append(got, string(codec.Field(codec.Field([]byte(e), "params"), "progress")))
		}
		if want := []string{"1", "2", "3", "4"}; !slices.Equal(got, want) {
			t.Errorf("the client got %q, want %q", got, want)
		}
	})
}

// TestLostLogsAreReadInTurn: while as many logs are read as may be, a resume waits, and the next place is for a principal
// whose turn it is, however many resumes of another one came before.
func TestLostLogsAreReadInTurn(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			_ = c.Notify(ctx, "n", []byte(`{}`))
			return []byte(`{}`), nil
		}
		c, session := &heldConn{}, h.begin("2025-11-25")
		h.postOn(c, session, aCall)
		synctest.Wait()
		event := c.id[:strings.IndexByte(c.id, '.')] + ".0.0"
		n, svc, end := h.heir(h.handler, Limits{})
		defer end()
		greedy, turns := n.accounts.Of("greedy", ""), n.accounts.lostLogs
		for range limits.LostLogs.Value() {
			if !turns.Take(t.Context(), greedy) {
				t.Fatal("no place")
			}
		}
		got := make(chan string, 3)
		wait := func(name string, a *quota.Account) {
			go func() {
				if turns.Take(t.Context(), a) {
					got <- name
				}
			}()
			synctest.Wait()
		}
		wait("greedy", greedy)
		wait("greedy", greedy)
		back := &heldConn{}
		go func() {
			in := h.input(session, "192.0.2.1", back)
			in.LastEventID = event
			n.Get(svc, in, nil)
		}()
		time.Sleep(30 * time.Second) // it has come back several times
		if e := back.events(); len(e) != 0 {
			t.Fatalf("the log was read out of turn: %v", e)
		}
		for turns.Waiting() != 3 { // it comes back after a while, and then waits in line
			time.Sleep(time.Millisecond)
		}
		turns.Leave() // for the greedy one, which came first
		turns.Leave() // for the resume, whose turn it is
		time.Sleep(10 * time.Second)
		if e := back.events(); len(e) != 2 || len(got) == 0 {
			t.Errorf("%d events came, want 2; %d others had a place", len(e), len(got))
		}
		for range limits.LostLogs.Value() {
			turns.Leave()
		}
		synctest.Wait()
		for range limits.LostLogs.Value() { // all places came back
			now, cancel := context.WithTimeout(t.Context(), time.Second)
			if !turns.Take(now, greedy) {
				t.Errorf("a place is lost, %d wait", turns.Waiting())
			}
			cancel()
		}
	})
}
