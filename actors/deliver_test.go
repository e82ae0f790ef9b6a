package actors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/actors/internal/attachment"
	"github.com/troupe-run/troupe/actors/internal/relay"
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/letter"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/sim"
)

// largest are letters of each kind that have as much in each of their parts as there can be.
func largest() map[string]short {
	angles := func(n int) string { return strings.Repeat("<", n) } // six bytes each as JSON
	session := SessionKey{angles(64), angles(256), angles(256)}
	stream := StreamKey{session, angles(256)}
	id := relay.NewID()
	usage := usageLetter{Num: 1 << 60}
	for range 256 {
		usage.All = append(usage.All, quota.Share{Tenant: angles(64), Address: angles(45), InFlight: 1 << 60})
	}
	lists := listsLetter{Server: session.Server}
	for range mostLists {
		lists.Lists = append(lists.Lists, ListChange{List: angles(64), Digest: angles(64), Again: true})
	}
	params, _ := codec.Marshal(angles(mostParams/6 - 1))
	part := make([]byte, relay.MaxUpload)
	begin := packet((&relay.Begin{ID: id, Size: 1 << 29, Head: make([]byte, relay.MaxHead), Data: part}).Append(nil))
	alive := packet(make([]byte, relay.MaxUpload+64))
	changed := sessionLetter{Session: session, Rev: 1 << 60, Old: stream.ID, Expired: true, Forget: true}
	end := &OperatorEnd{Calls: session}
	for range mostTenants {
		end.Tenants = append(end.Tenants, session.Tenant)
	}
	return map[string]short{
		letterUsage:          usage,
		letterSessionChanged: changed,
		letterSessionEnded:   changed,
		letterCancel:         cancelLetter{session, angles(maxToken), angles(mostReason)},
		letterLook:           streamLetter{stream, 1 << 60},
		letterAttach:         streamLetter{stream, 1 << 60},
		letterFrame:          packet(make([]byte, frameHead+attachment.MaxFrame+4<<10)),
		letterCredit:         packet(appendCredit(nil, 1<<60, 1<<60, true)),
		letterAlive:          packet(make([]byte, maxAlive*10)),
		letterUpdated:        updatedLetter{session.Server, angles(mostURI), true},
		letterLists:          lists,
		letterTask:           &TaskChange{Tenant: session.Tenant, Server: session.Server, ID: angles(256), Session: session.ID, Method: angles(256), Params: params},
		letterEnd:            end,
		exchangeRetry:        begin,
		exchangeMessage:      begin,
		exchangeCall:         begin,
		exchangeLetter:       begin,
		exchangePart:         packet((&relay.Part{ID: id, Offset: 1 << 29, Data: part}).Append(nil)),
		exchangeFrame:        packet((&relay.Frame{ID: id, Num: 1 << 60, Kind: relay.Answer, Rest: 1 << 29, Data: make([]byte, relay.MaxPart)}).Append(nil)),
		exchangeAlive:        alive,
		exchangeGone:         packet((&relay.Gone{ID: id}).Append(nil)),
	}
}

// TestLargestLetters sends the largest letter of each kind in each way: it comes. What has no bound is no letter of its own, but is
// delivered in parts.
func TestLargestLetters(t *testing.T) {
	inBand(t, 1, Limits{}, func(t *testing.T, c *band) {
		f, all := &c.all[0].fleet, largest()
		for kind := range f.receivers {
			if _, bounded := all[kind]; bounded == (f.large[kind] != nil) {
				t.Errorf("letters %s: have a bound: %t, are delivered in parts: %t", kind, bounded, !bounded)
			}
		}
		got := make(map[string]int)
		box := c.office.Join("n9", "b")
		box.Listen(func(l *store.Letter) {
			if got[l.Kind]++; l.Reply != nil {
				l.Reply([]byte{done})
			}
		}, func(store.Address) { t.Error("a letter to all was lost") })
		to := store.Address{Node: "n9", Boot: "b"}
		for _, kind := range slices.Sorted(maps.Keys(all)) {
			f.sendLetter(to, kind, all[kind])
			f.broadcastLetter(kind, all[kind])
			if _, err := f.askNode(t.Context(), to, kind, all[kind]); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if got[kind] < 3 {
				t.Errorf("of three letters %s came %d", kind, got[kind])
			}
		}
	})
}

// sizes are those of letters that go in one part, in several, and in more than the release before took.
var sizes = []int{1, relay.MaxUpload, letter.MaxData - 200, letter.MaxData, 4 << 20}

// asksForOne asks the client, and has its answer as the result.
func asksForOne(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
	got, err := c.Ask(ctx, []Question{{Key: "q", Method: "ping"}})
	if err != nil {
		return nil, &mcp.Error{Code: 1, Message: err.Error()}
	}
	return got[0].Result, nil
}

// asked begins a call that asks, and returns the client's answer, with a result.
func (m *member) asked(session, result string) (call *heldConn, answer string) {
	call = &heldConn{}
	go m.postOn(call, session, message("1", "x"))
	synctest.Wait()
	if len(call.events()) == 0 {
		status, body := call.answer()
		m.t.Fatalf("nothing is asked: %d %.200s", status, body)
	}
	return call, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, codec.Field([]byte(call.events()[0]), "id"), result)
}

// counted returns the most bytes that a node has counted for bodies while f ran.
func (m *member) counted(f func()) (most int64) {
	over := make(chan struct{})
	go func() { defer close(over); f() }()
	for {
		select {
		case <-over:
			return most
		case <-time.After(time.Millisecond):
			most = max(most, m.accounts.BytesOf(quota.Bodies))
		}
	}
}

// TestDeliveredOfAnySize has answers and messages to a session come to another node than theirs. A part is lost now and then: what is sent
// again is taken once. All that is on its way is counted, and nothing stays so.
func TestDeliveredOfAnySize(t *testing.T) {
	for _, loses := range []string{"", exchangeLetter, exchangePart} {
		var less atomic.Int32 // letters that are lost
		fate := func(kind string) sim.Fate {
			return sim.Fate{There: time.Millisecond, Back: time.Millisecond, Lost: kind == loses && less.Add(-1) >= 0}
		}
		inFleet(t, 2, fate, func(t *testing.T, all []*member) {
			a, b := all[0], all[1]
			large := ""
			a.handler.f = asksForOne
			b.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
				if err := c.Peer().Notify(ctx, "n", []byte(large)); err != nil {
					return nil, &mcp.Error{Code: 1, Message: err.Error()}
				}
				return []byte(`{}`), nil
			}
			session := a.begin("2025-11-25")
			listening := a.get(session, "")
			synctest.Wait()
			for _, size := range sizes {
				parts := size >= relay.MaxUpload || loses != exchangePart
				large = `{"said":"` + strings.Repeat("x", size) + `"}`
				time.Sleep(time.Minute) // for tokens
				call, answer := a.asked(session, large)
				less.Store(1)
				var status int
				post := func() { status, _ = b.post(session, answer).answer() }
				if post(); loses != "" && parts {
					if status != 503 {
						t.Errorf("an answer of %d bytes of which %s was lost got %d", size, loses, status)
					}
					less.Store(0)
					post()
				}
				if status != 202 {
					t.Errorf("an answer of %d bytes got %d", size, status)
				}
				synctest.Wait()
				if got := call.events(); len(got) != 2 || !strings.Contains(got[1], large) {
					t.Errorf("the client got %d events for an answer of %d bytes", len(got), size)
				}
				before := len(listening.events())
				less.Store(1)
				tells := &heldConn{}
				go b.postOn(tells, session, message("1", "x"))
				time.Sleep(20 * time.Second)
				if got := append(tells.events(), tells.body); !strings.Contains(strings.Join(got, ""), `"result"`) {
					t.Errorf("a message of %d bytes: %.200q", size, got)
				}
				less.Store(0)
				if got := listening.events()[before:]; len(got) != 1 || !strings.Contains(got[0], large) {
					t.Errorf("the client got %d messages of %d bytes, want one", len(got), size)
				}
			}
			for _, m := range all {
				time.Sleep(time.Minute)
				_, answer := a.asked(session, large)
				if n := m.counted(func() { b.post(session, answer) }); n < 4<<20 {
					t.Errorf("node %s counted %d bytes while a letter of 4 MiB was on its way", m.name, n)
				}
			}
			time.Sleep(2 * relay.Patience)
			for _, m := range all {
				if n := m.accounts.BytesOf(quota.Bodies); n != 0 || m.relays.inbound.Len() > 0 {
					t.Errorf("node %s still counts %d bytes, and waits for %d letters", m.name, n, m.relays.inbound.Len())
				}
			}
		})
	}
}

// TestAMessageThatIsSentAgain: a node that writes the stream of a session stores a message of another one, and is gone before it says so. The
// message is sent again to whoever has the stream then, and is in it once. If the log may have forgotten it by then, what became of it is unknown.
func TestAMessageThatIsSentAgain(t *testing.T) {
	for name, test := range map[string]struct {
		elsewhere bool // a third node has the stream
		lost      bool // it did not come the first time
		more      int  // messages that follow it; four are kept
		late      bool // events can be replayed for less time than it takes
		said      string
	}{
		"to itself":              {false, false, 0, false, `"result"`},
		"to itself, one of some": {false, false, 2, false, `"result"`},
		"to itself, forgotten":   {false, false, 6, false, store.ErrUnavailable.Error()},
		"to itself, not stored":  {false, true, 0, false, `"result"`},
		"to itself, late":        {false, true, 0, true, store.ErrUnavailable.Error()},
		"to a third, late":       {true, true, 0, true, store.ErrUnavailable.Error()},
		"to a third":             {true, false, 0, false, `"result"`},
		"to a third, of some":    {true, false, 2, false, `"result"`},
		"to a third, forgotten":  {true, false, 6, false, store.ErrUnavailable.Error()},
		"to a third, not stored": {true, true, 0, false, `"result"`},
	} {
		t.Run(name, func(t *testing.T) {
			var first atomic.Bool // the next message is sent for the first time
			fate := func(kind string) sim.Fate {
				f := sim.Fate{There: time.Millisecond, Back: time.Millisecond}
				if kind == exchangeLetter && first.Swap(false) {
					f.Back, f.Lost = time.Minute, test.lost
				}
				return f
			}
			inFleet(t, 3, fate, func(t *testing.T, all []*member) {
				a, b, c := all[0], all[1], all[2]
				limits := Limits{Stream: stream.Limits{Appends: 4}}
				if test.late {
					limits.ReplayAge = 3 * time.Second
				}
				for _, m := range all {
					m.svc = NewService("s", safeHandler{m.handler}, limits)
				}
				tells := func(n int) func(context.Context, *Call) ([]byte, *mcp.Error) {
					return func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
						if err := c.Peer().Notify(ctx, "n", fmt.Appendf(nil, `{"n":%d}`, n)); err != nil {
							return nil, &mcp.Error{Code: 1, Message: err.Error()}
						}
						return []byte(`{}`), nil
					}
				}
				session := b.begin("2025-11-25")
				listening, told := b.get(session, ""), 1
				more := func(n int) {
					for range n {
						told++
						b.handler.f = tells(told)
						b.postOn(&heldConn{}, session, message(strconv.Itoa(told), "x"))
					}
				}
				synctest.Wait()
				more(6) // more than are kept
				synctest.Wait()
				first.Store(true)
				a.handler.f = tells(1)
				call := &heldConn{}
				go a.postOn(call, session, message("1", "x"))
				time.Sleep(time.Second)
				if got := listening.events(); strings.Contains(strings.Join(got, ""), `{"n":1}`) == test.lost {
					t.Fatalf("the client has %q", got)
				}
				more(test.more)
				synctest.Wait()
				if err := b.Close(t.Context()); err != nil { // its record of the stream covers all of that
					t.Error(err)
				}
				b.kill()
				if test.elsewhere {
					if got := c.get(session, listening.lastID()); got.over {
						t.Errorf("it does not go on elsewhere: %q", got.events())
					}
					synctest.Wait()
				}
				time.Sleep(2 * time.Minute)
				if got := append(call.events(), call.body); !strings.Contains(strings.Join(got, ""), test.said) {
					t.Errorf("its sender hears %.200q, want %s", got, test.said)
				}
				if n := strings.Count(a.mem.logged(), `{"n":1}`); n > 1 || n == 0 && strings.Contains(test.said, "result") {
					t.Errorf("the message was stored %d times", n)
				}
			})
		})
	}
}

// TestLetterWithoutRoom has an answer come to a node that has no room for it: the client hears that it shall come back, and nothing is kept.
func TestLetterWithoutRoom(t *testing.T) {
	inFleet(t, 2, nil, func(t *testing.T, all []*member) {
		a, b := all[0], all[1]
		few := a.accounts.limits
		few.Bytes = 1 << 20
		a.accounts.Accounts = quota.New(few.quotaLimits())
		a.handler.f = asksForOne
		session := a.begin("2025-11-25")
		_, answer := a.asked(session, `"`+strings.Repeat("x", 1<<20)+`"`)
		if status, _ := b.post(session, answer).answer(); status != 503 || a.relays.inbound.Len() > 0 {
			t.Errorf("without room there: %d, and %d letters are waited for", status, a.relays.inbound.Len())
		}
		if n := a.refused(limits.MaxMemory.Row) + a.refused(limits.MemoryShare.Row); n == 0 {
			t.Error("no refusal was counted")
		}
		if status, _ := b.post(session, strings.ReplaceAll(answer, "xx", "")).answer(); status != 202 {
			t.Errorf("with room: %d", status)
		}
	})
}

// TestLettersToTheReleaseBefore delivers to a node that knows no letters in parts: it gets what fits in one message in the form that it
// knows, and nothing of what does not.
func TestLettersToTheReleaseBefore(t *testing.T) {
	inBand(t, 1, Limits{}, func(t *testing.T, c *band) {
		a := c.all[0]
		var got [][]byte
		c.office.Join("n9", "b").Listen(func(l *store.Letter) {
			if l.Kind != letterPush {
				l.Reply([]byte{notKnown})
				return
			}
			got = append(got, l.Data)
			l.Reply([]byte{done})
		}, func(store.Address) {})
		session := a.begin("2025-11-25")
		s, _ := a.sessions.Get(SessionKey{"anon", "s", session})
		for _, size := range sizes {
			m := pushLetter{Stream: StreamKey{s.key, "x"}, Data: []byte(`"` + strings.Repeat("x", size) + `"`)}
			want, err := codec.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			got = nil
			err = a.fleet.deliverLetter(t.Context(), s.key, s, store.Address{Node: "n9", Boot: "b"}, letterPush, m)
			switch fits := len(want) <= letter.MaxData; {
			case fits && (err != nil || len(got) != 1 || !bytes.Equal(got[0], want)):
				t.Errorf("of a letter of %d bytes came %d: %v", len(want), len(got), err)
			case !fits && (len(got) > 0 || !errors.Is(err, store.ErrUnavailable)):
				t.Errorf("of a letter of %d bytes, which that release does not take, came %d: %v", len(want), len(got), err)
			}
		}
	})
}

// TestLettersOfTheReleaseBefore has a node get an answer, and a message to a session, in one message each.
func TestLettersOfTheReleaseBefore(t *testing.T) {
	inFleet(t, 2, nil, func(t *testing.T, all []*member) {
		a, b := all[0], all[1]
		a.handler.f = asksForOne
		session := a.begin("2025-11-25")
		listening := a.get(session, "")
		call, answer := a.asked(session, `{}`)
		s, _ := a.sessions.Get(SessionKey{"anon", "s", session})
		id := codec.Field([]byte(answer), "id")
		for kind, v := range map[string]any{
			letterPush:   pushLetter{Stream: StreamKey{s.key, s.view.Load().rec.Standalone}, Kind: stream.Message, Meta: b.pushes.nameMessage(b.boot, nil), Data: []byte(`{"n":1}`)},
			letterAnswer: answerLetter{StreamKey{s.key, askedOn(id)}, id, []byte(`{"said":"yes"}`), nil},
		} {
			data, err := codec.Marshal(v)
			if err == nil {
				_, err = b.fleet.askNode(t.Context(), a.fleet.selfAddress(), kind, packet(data))
			}
			if err != nil {
				t.Errorf("%s: %v", kind, err)
			}
		}
		synctest.Wait()
		if got := listening.events(); len(got) != 1 || !strings.Contains(got[0], `{"n":1}`) {
			t.Errorf("the stream got %q", got)
		}
		if got := call.events(); len(got) != 2 || !strings.Contains(got[1], `{"said":"yes"}`) {
			t.Errorf("the call got %q", got)
		}
	})
}
