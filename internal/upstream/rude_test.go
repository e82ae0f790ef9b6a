package upstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/bubble"
	"github.com/troupe-run/troupe/mcp"
)

// done is the result of a call that a rude backend answers after all.
const done = `{"content":[]}`

// rudeLines are what backends over lines do with a call. Each ends with a clear outcome, and is followed by a request that
// is served, unless the connection has to end.
var rudeLines = []struct {
	name string
	only Era // 0: both
	call func(p *peer, m message)

	why    Reason // of the Failure; "" for an answer
	code   int    // that a client gets; 0 for none
	counts map[OddityKind]uint64
	events int  // that the owner got beside, all of a kind
	ended  bool // the connection has to be made anew
	check  func(t *testing.T, p *peer, r *records)
}{
	{name: "answers", call: func(p *peer, m message) { p.say(m.result(done)) }},
	{name: "never answers", call: func(*peer, message) {}, why: ReasonCancelled, code: mcp.CodeCallLost, check: func(t *testing.T, p *peer, _ *records) {
		if got, want := string(p.last(mcp.NotifyCancelled).Params), fmt.Sprintf(`{"requestId":%s}`, p.last(mcp.MethodToolsCall).ID); got != want {
			t.Errorf("the withdrawal is %s, want %s", got, want)
		}
	}},
	{name: "answers when nobody waits any more", call: func(p *peer, m message) {
		time.AfterFunc(61*time.Second, func() { p.say(m.result(done)) })
	}, why: ReasonCancelled, code: mcp.CodeCallLost},
	{name: "writes half lines", call: func(p *peer, m message) {
		line := m.result(`{"content":[{"type":"text","text":"abc"}]}`)
		p.say(line[:len(line)/2], line[len(line)/2:])
	}, why: ReasonMalformed, code: mcp.CodeInternalError, counts: map[OddityKind]uint64{OddText: 2}},
	{name: "writes a line in pieces", call: func(p *peer, m message) {
		for _, piece := range strings.SplitAfter(m.result(done), ":") {
			p.write(piece)
		}
		p.write("\n")
	}},
	{name: "ends lines with CR LF", call: func(p *peer, m message) { p.write(m.result(done) + "\r\n") }},
	{name: "writes empty lines", call: func(p *peer, m message) { p.write("\n\r\n \t\n" + m.result(done) + "\n\n") }},
	{name: "begins with a BOM", call: func(p *peer, m message) { p.say("\xef\xbb\xbf" + m.result(done)) }},
	{name: "writes bad UTF-8", call: func(p *peer, m message) { p.say(m.result("{\"content\":[\"\xff\xc0\"]}")) },
		why: ReasonMalformed, code: mcp.CodeInternalError, counts: map[OddityKind]uint64{OddText: 1}},
	{name: "writes half of a surrogate pair", call: func(p *peer, m message) { p.say(m.result(`{"content":["\ud83d"]}`)) },
		why: ReasonMalformed, code: mcp.CodeInternalError, counts: map[OddityKind]uint64{OddText: 1}},
	{name: "logs on stdout", call: func(p *peer, m message) { p.say("starting…", "{not json}", "[1,", m.result(done)) },
		counts: map[OddityKind]uint64{OddText: 3}},
	{name: "answers twice", call: func(p *peer, m message) { p.say(m.result(done), m.result(done), m.failure(1, "no")) },
		counts: map[OddityKind]uint64{OddAnswer: 2}},
	{name: "answers unknown ids", call: func(p *peer, m message) {
		for _, id := range []string{"0", "-1", `"x"`, fmt.Sprintf("%q", string(m.ID)), "99999999999999999999999999", "900000"} {
			p.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"wrong":true}}`, id))
		}
		p.say(m.result(done))
	}, counts: map[OddityKind]uint64{OddAnswer: 6}},
	{name: "answers with a fraction for an id", call: func(p *peer, m message) {
		p.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s.0,"result":{}}`, m.ID), `{"jsonrpc":"2.0","id":null,"result":{}}`, m.result(done))
	}, counts: map[OddityKind]uint64{OddMessage: 2}},
	{name: "answers without an id", call: func(p *peer, m message) {
		p.say(`{"jsonrpc":"2.0","error":{"code":-32600,"message":"what?"}}`, m.result(done))
	}, counts: map[OddityKind]uint64{OddAnonymous: 1}},
	{name: "answers with a text", call: func(p *peer, m message) { p.say(m.result(`"ok"`)) }, why: ReasonMalformed, code: mcp.CodeInternalError},
	{name: "answers with a list", call: func(p *peer, m message) { p.say(m.result(`[{}]`)) }, why: ReasonMalformed, code: mcp.CodeInternalError},
	{name: "answers with both", call: func(p *peer, m message) {
		p.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{},"error":{"code":1,"message":"x"}}`, m.ID))
	}, why: ReasonMalformed, code: mcp.CodeInternalError, counts: map[OddityKind]uint64{OddMessage: 1}},
	{name: "answers with neither", call: func(p *peer, m message) { p.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s}`, m.ID)) },
		why: ReasonMalformed, code: mcp.CodeInternalError, counts: map[OddityKind]uint64{OddMessage: 1}},
	{name: "answers without a version", call: func(p *peer, m message) { p.say(fmt.Sprintf(`{"id":%s,"result":{}}`, m.ID)) },
		why: ReasonMalformed, code: mcp.CodeInternalError, counts: map[OddityKind]uint64{OddMessage: 1}},
	{name: "answers with an error of wrong types", call: func(p *peer, m message) {
		p.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":"x","message":3}}`, m.ID))
	}, why: ReasonMalformed, code: mcp.CodeInternalError, counts: map[OddityKind]uint64{OddMessage: 1}},
	{name: "names a member twice", call: func(p *peer, m message) {
		p.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"a":1},"result":{"a":2}}`, m.ID))
	}, why: ReasonMalformed, code: mcp.CodeInternalError, counts: map[OddityKind]uint64{OddMessage: 1}},
	{name: "nests without end", call: func(p *peer, m message) {
		p.say(m.result(`{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`))
	}, why: ReasonMalformed, code: mcp.CodeInternalError, counts: map[OddityKind]uint64{OddText: 1}},
	{name: "answers in a batch", call: func(p *peer, m message) {
		p.say(`[{"jsonrpc":"2.0","method":"notifications/message","params":{}},` + m.result(done) + `]`)
	}, counts: map[OddityKind]uint64{OddBatch: 1}, events: 1},
	{name: "writes bad batches", call: func(p *peer, m message) {
		p.say(`[]`, `[[]]`, `[1]`, `[`+strings.Repeat("1,", MostBatch)+`1]`, m.result(done))
	}, counts: map[OddityKind]uint64{OddBatch: 1, OddMessage: 4}},
	{name: "writes a line of 100 MB", call: func(p *peer, m message) {
		chunk := strings.Repeat("x", 1<<20)
		for range 100 {
			p.write(chunk)
		}
	}, why: ReasonTooLarge, code: mcp.CodeInternalError, ended: true, check: func(t *testing.T, p *peer, _ *records) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.wrote > MostMessage+2<<20 {
			t.Errorf("%d bytes of the line were read", p.wrote)
		}
	}},
	{name: "asks after its answer", only: EraLegacy, call: func(p *peer, m message) {
		p.say(m.result(done), `{"jsonrpc":"2.0","id":"q","method":"roots/list"}`)
	}, events: 1},
	{name: "asks without end", only: EraLegacy, call: func(p *peer, m message) {
		go func() {
			for i := range 1000 {
				p.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, i))
				synctest.Wait() // it reads the refusals
			}
			p.say(m.result(done))
		}()
	}, counts: map[OddityKind]uint64{OddQuestion: 1000 - MostQuestions}, events: MostQuestions, check: func(t *testing.T, p *peer, _ *records) {
		if n := p.count(fmt.Sprint(mcp.CodeInternalError)); n != 1000-MostQuestions {
			t.Errorf("it got %d refusals", n)
		}
	}},
	{name: "asks twice with one id", only: EraLegacy, call: func(p *peer, m message) {
		p.say(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`, `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`, m.result(done))
	}, counts: map[OddityKind]uint64{OddQuestion: 1}, events: 1},
	{name: "asks with an id of 1 MB", only: EraLegacy, call: func(p *peer, m message) {
		p.say(`{"jsonrpc":"2.0","id":"`+strings.Repeat("i", 1<<20)+`","method":"roots/list"}`, m.result(done))
	}, counts: map[OddityKind]uint64{OddQuestion: 1}},
	{name: "asks in the newer era", only: EraModern, call: func(p *peer, m message) {
		p.say(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`, `{"jsonrpc":"2.0","id":2,"method":"ping"}`, m.result(done))
	}, counts: map[OddityKind]uint64{OddQuestion: 2}},
	{name: "pings", only: EraLegacy, call: func(p *peer, m message) {
		go func() {
			p.say(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
			synctest.Wait()
			p.say(m.result(done))
		}()
	}, check: func(t *testing.T, p *peer, _ *records) {
		if p.count("answer") != 1 {
			t.Errorf("it got %v", p.methods())
		}
	}},
	{name: "floods with list changes", call: func(p *peer, m message) {
		for range 10_000 {
			p.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		}
		p.say(m.result(done))
	}, events: 10_000},
	{name: "reports progress of nothing", call: func(p *peer, m message) {
		for _, token := range []string{"7", `"x"`, "1.5", "null", "{}"} {
			p.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, token))
		}
		p.say(`{"jsonrpc":"2.0","method":"notifications/progress"}`, m.result(done))
	}, counts: map[OddityKind]uint64{OddProgress: 6}},
	{name: "withdraws what it did not ask", call: func(p *peer, m message) {
		p.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, m.ID), `{"jsonrpc":"2.0","method":"notifications/cancelled"}`, m.result(done))
	}, counts: map[OddityKind]uint64{OddCancel: 2}},
	{name: "dies in mid-call", call: func(p *peer, _ message) { _ = p.out.Close() }, why: ReasonEnded, code: mcp.CodeCallLost, ended: true},
	{name: "dies in mid-line", call: func(p *peer, m message) {
		line := m.result(done)
		p.write(line[:len(line)-4])
		_ = p.out.Close()
	}, why: ReasonMalformed, code: mcp.CodeInternalError, counts: map[OddityKind]uint64{OddText: 1}, ended: true},
	{name: "dies after a line without an end", call: func(p *peer, m message) {
		p.write(m.result(done))
		_ = p.out.Close()
	}, ended: true},
	{name: "closes its stdin", call: func(p *peer, m message) {
		p.say(m.result(done))
		_ = p.in.Close()
	}, ended: true},
}

func TestRudeLines(t *testing.T) {
	t.Parallel()
	for _, era := range []Era{EraLegacy, EraModern} {
		for _, tt := range rudeLines {
			if tt.only != EraUnknown && tt.only != era {
				continue
			}
			t.Run(fmt.Sprint(era, " ", tt.name), func(t *testing.T) {
				t.Parallel()
				bubble.Test(t, func(t *testing.T) {
					var r records
					p, c := openLines(t, r.options(), polite(era, tt.call))
					answer, err := c.Do(minute(t), toolCall(Request{Progress: func([]byte) {}}))
					checkOutcome(t, answer, err, tt.why, tt.code)
					time.Sleep(2 * time.Second) // what is late comes
					synctest.Wait()
					wantCounts(t, c, tt.counts)
					if len(r.events) != tt.events {
						t.Errorf("the owner got %d events, want %d: %s", len(r.events), tt.events, shorten(fmt.Sprint(r.events)))
					}
					if tt.check != nil {
						tt.check(t, p, &r)
					}
					checkNext(t, c, tt.ended)
				})
			})
		}
	}
}

// checkOutcome checks that a call was answered with done, or failed in one way.
func checkOutcome(t *testing.T, answer Response, err error, why Reason, code int) {
	t.Helper()
	if why == "" {
		if err != nil || string(answer.Result) != done {
			t.Errorf("the call has %s and %v, want an answer", shorten(string(answer.Result)), err)
		}
		return
	}
	f, ok := errors.AsType[*Failure](err)
	if !ok || f.Why != why || f.Wire().Code != code {
		t.Fatalf("the call has %s and %+v, want %s and %d", shorten(string(answer.Result)), f, why, code)
	}
	if errors.Is(err, ErrLost) == errors.Is(err, ErrUnsent) {
		t.Error("the failure has not one outcome")
	}
}

func wantCounts(t *testing.T, c *Conn, want map[OddityKind]uint64) {
	t.Helper()
	for kind, n := range c.Counts() {
		if n != want[OddityKind(kind)] {
			t.Errorf("%d times %v, want %d", n, OddityKind(kind), want[OddityKind(kind)])
		}
	}
}

// checkNext checks that the next request is served, or was not run if the connection has ended.
func checkNext(t *testing.T, c *Conn, ended bool) {
	t.Helper()
	_, err := c.Do(minute(t), Request{Method: mcp.MethodPromptsList})
	if ended && !errors.Is(err, ErrUnsent) || !ended && err != nil {
		t.Errorf("the next request has %v", err)
	}
	if n := len(c.State().Requests); n != 0 {
		t.Errorf("%d requests are left open", n)
	}
}

// TestAsksBeforeInitialized has a backend ask in the midst of the handshake.
func TestAsksBeforeInitialized(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		var r records
		p, c := openLines(t, r.options(), func(p *peer, m message) {
			if m.Method == mcp.MethodInitialize {
				p.say(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`, `{"jsonrpc":"2.0","id":2,"method":"ping"}`,
					`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`)
			}
			polite(EraLegacy, nil)(p, m)
		})
		synctest.Wait()
		if got := fmt.Sprint(p.methods()); got != "[server/discover initialize -32600 answer notifications/initialized]" &&
			got != "[server/discover initialize notifications/initialized -32600 answer]" &&
			got != "[server/discover initialize -32600 notifications/initialized answer]" {
			t.Errorf("it got %s", got)
		}
		if r.count(mcp.MethodRootsList) != 0 || r.count(mcp.NotifyMessage) != 1 {
			t.Errorf("the owner got %v", r.events)
		}
		checkNext(t, c, false)
	})
}

// TestDoesNotRead has a backend that reads nothing after the handshake, and one that pings meanwhile.
func TestDoesNotRead(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		var r records
		stuck := make(chan struct{})
		p, c := openLines(t, r.options(), func(p *peer, m message) {
			polite(EraLegacy, nil)(p, m)
			if m.Method == mcp.NotifyInitialized {
				<-stuck
			}
		})
		defer close(stuck)
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		// One line waits to be read, however long it is, and no other behind it.
		big := []byte(`{"name":"` + strings.Repeat("x", 1<<20) + `"}`)
		_, err := c.Do(short, Request{Method: mcp.MethodToolsCall, Params: big})
		checkOutcome(t, Response{}, err, ReasonCancelled, mcp.CodeCallLost)
		short, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = c.Do(short, Request{Method: mcp.MethodToolsCall, Params: big})
		checkOutcome(t, Response{}, err, ReasonCancelled, mcp.CodeInternalError)
		if !errors.Is(err, ErrUnsent) {
			t.Errorf("a call of which nothing was written has %v", err)
		}
		for i := range MostReplies + 2 {
			p.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i))
		}
		synctest.Wait()
		if all := r.endings(); len(all) != 1 || all[0].Why != ReasonFull {
			t.Errorf("the connection ended with %v", all)
		}
	})
}

// TestTooManyRequests fills a connection.
func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		var r records
		p, c := openLines(t, r.options(), polite(EraLegacy, func(*peer, message) {}))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range MostOpen {
			go func() { _, _ = c.Do(ctx, toolCall(Request{})) }()
		}
		synctest.Wait()
		_, err := c.Do(ctx, toolCall(Request{}))
		checkOutcome(t, Response{}, err, ReasonFull, mcp.CodeInternalError)
		if n := p.count(mcp.MethodToolsCall); n != MostOpen {
			t.Errorf("it got %d calls", n)
		}
	})
}

// TestEndlessLists reads lists that do not end, or are too long.
func TestEndlessLists(t *testing.T) {
	t.Parallel()
	pages := 0
	for name, tt := range map[string]struct {
		page  func() string
		why   Reason
		items int
	}{
		"one page":        {func() string { return `{"tools":[{"a":1.0},2]}` }, "", 2},
		"an empty cursor": {func() string { return `{"tools":[],"nextCursor":""}` }, "", 0},
		"no cursor":       {func() string { return `{"tools":[],"nextCursor":null}` }, "", 0},
		"the same cursor": {func() string { return `{"tools":[1],"nextCursor":"x"}` }, ReasonListing, 2},
		"new cursors":     {func() string { pages++; return fmt.Sprintf(`{"tools":[1],"nextCursor":"%d"}`, pages) }, ReasonListing, MostPages},
		"a cursor of 7":   {func() string { return `{"tools":[1],"nextCursor":7}` }, ReasonMalformed, 1},
		"no list":         {func() string { return `{"tools":{}}` }, ReasonMalformed, 0},
		"too many items":  {func() string { return `{"tools":[` + strings.Repeat("{},", MostItems) + `{}]}` }, ReasonListing, MostItems},
		"too many bytes": {func() string {
			pages++
			return fmt.Sprintf(`{"tools":["%s"],"nextCursor":"%d"}`, strings.Repeat("x", 15<<20), pages)
		}, ReasonListing, MostListing / (15 << 20)},
		"an error":               {func() string { return "" }, "", 0},
		"a schema that is wrong": {func() string { return `{"tools":[{"name":"a","inputSchema":{"type":17}}]}` }, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				_, process := newPeer(t, func(p *peer, m message) {
					switch {
					case m.Method == mcp.MethodInitialize:
						p.say(m.result(legacyInit))
					case m.Method == mcp.MethodToolsList && name == "an error":
						p.say(m.failure(-32603, "no"))
					case m.Method == mcp.MethodToolsList:
						p.say(m.result(tt.page()))
					case m.ID != nil:
						p.say(m.result(`{}`))
					}
				})
				c, err := Open(minute(t), NewLines(process), Options{Known: EraLegacy})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close(context.Background())
				l, err := c.List(minute(t), mcp.MethodToolsList, "tools")
				f, _ := errors.AsType[*Failure](err)
				if f == nil && tt.why != "" || f != nil && f.Why != tt.why || len(l.Items) != tt.items {
					t.Errorf("%d items and %v, want %d and %q", len(l.Items), err, tt.items, tt.why)
				}
				if refused := errors.Is(err, mcp.NewError(-32603, "")); refused != (name == "an error") {
					t.Errorf("the list has %v", err)
				}
				if name == "one page" && (string(l.Items[0]) != `{"a":1.0}` || !codec.Valid(l.First)) {
					t.Errorf("the items are %q", l.Items)
				}
				checkNext(t, c, false)
			})
		})
	}
}
