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

	"github.com/troupe-run/troupe/internal/bubble"
	"github.com/troupe-run/troupe/mcp"
)

// strange has bytes that an encoder would change: numbers, escapes, white space, members that nobody knows, members twice.
const strange = `{"content":[ {"type":"te\u0078t","text":"\u00e4ä\/<&>\u2028"}],"n":[1.0,1e400,-0,12345678901234567890,1E+2],"twice":1,"twice":2,"unknown":{"b":null,"a":[]}}`

// TestBytesStay sends strange bytes both ways, over each link and in each era.
func TestBytesStay(t *testing.T) {
	t.Parallel()
	const arguments = `{"n":[1.0,1e400,-0,12345678901234567890], "s":"\u0041\/<é", "twice":1,"twice":2}`
	params := `{"name":"r\u0075de","arguments":` + arguments + `,"_meta":{"a.b/c":1.0,"progressToken":"theirs","traceparent":"00-x","io.modelcontextprotocol/clientInfo":{"name":"theirs"}},"more":[ ]}`
	meta := map[Era]string{
		EraLegacy: `{"a.b/c":1.0,"traceparent":"00-x","progressToken":%d}`,
		EraModern: `{"a.b/c":1.0,"traceparent":"00-x","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"x":1.0},"progressToken":%d}`,
	}
	check := func(t *testing.T, era Era, c *Conn, sent func() string) {
		var progress, events []string
		id := c.NewID()
		r, err := c.Do(minute(t), Request{
			ID: id, Method: mcp.MethodToolsCall, Params: []byte(params), Capabilities: []byte(`{"x":1.0}`),
			Progress: func(p []byte) { progress = append(progress, string(p)) },
			Event:    func(e Event) { events = append(events, string(e.Params)) },
		})
		if err != nil || string(r.Result) != strange {
			t.Errorf("the result is %s and %v", r.Result, err)
		}
		want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"r\u0075de","arguments":%s,"_meta":%s,"more":[ ]}}`, id, arguments, fmt.Sprintf(meta[era], id))
		if got := sent(); got != want {
			t.Errorf("it was sent\n%s, want\n%s", got, want)
		}
		if want := fmt.Sprintf(`{"progressToken":%d, "progress":1.0,"more":1e400}`, id); fmt.Sprint(progress) != "["+want+"]" {
			t.Errorf("the progress is %s, want %s", progress, want)
		}
		r, err = c.Do(minute(t), Request{Method: mcp.MethodPromptsGet, Params: []byte("{\n\t\"name\":\r\n\"x\" }")})
		if err != nil || r.Kind != Refused || string(r.Error) != `{"code":-5,"message":"\u0041","data":[1.0],"more":1e400}` {
			t.Errorf("the error is %s and %v", r.Error, err)
		}
	}
	answers := func(m message) []string {
		if m.Method == mcp.MethodPromptsGet {
			return []string{fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-5,"message":"\u0041","data":[1.0],"more":1e400}}`, m.ID)}
		}
		return []string{
			fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s, "progress":1.0,"more":1e400}}`, m.ID),
			m.result(strange),
		}
	}
	for _, era := range []Era{EraLegacy, EraModern} {
		o := Options{ClientInfo: []byte(`{"name":"test","version":"1"}`)}
		t.Run(fmt.Sprint(era, " lines"), func(t *testing.T) {
			t.Parallel()
			p, c := openLines(t, o, func(p *peer, m message) {
				if m.Method == mcp.MethodToolsCall || m.Method == mcp.MethodPromptsGet {
					p.say(answers(m)...)
					return
				}
				polite(era, nil)(p, m)
			})
			check(t, era, c, func() string { return p.last(mcp.MethodToolsCall).Raw })
		})
		t.Run(fmt.Sprint(era, " HTTP"), func(t *testing.T) {
			t.Parallel()
			s, c := openHTTP(t, o, func(w http.ResponseWriter, r *http.Request, m message) {
				if m.Method != mcp.MethodToolsCall && m.Method != mcp.MethodPromptsGet {
					politely(era, func(http.ResponseWriter, *http.Request, message) {})(w, r, m)
					return
				}
				for _, one := range answers(m) {
					stream(w, event("", one))
				}
			})
			check(t, era, c, func() string { _, body := s.sent(mcp.MethodToolsCall); return body })
			if head, _ := s.sent(mcp.MethodToolsCall); era == EraModern && (head.Get("Mcp-Name") != "rude" || head.Get("Mcp-Method") != mcp.MethodToolsCall || head.Get("Mcp-Protocol-Version") != "2026-07-28") ||
				era == EraLegacy && (head.Get("Mcp-Session-Id") != "s1" || head.Get("Mcp-Protocol-Version") != "2025-11-25" || head.Get("Mcp-Method") != "") {
				t.Errorf("it was sent %v", head)
			}
		})
	}
}

// TestParams makes params for another connection.
func TestParams(t *testing.T) {
	t.Parallel()
	legacy, modern := hop{revision: mcp.LatestLegacy}, hop{revision: mcp.Latest}
	own := `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`
	for _, tt := range []struct {
		h            hop
		params, want string
	}{
		{legacy, "", ""},
		{legacy, "{}", "{}"},
		{modern, "", `{"_meta":{` + own + `}}`},
		{modern, `{ }`, `{"_meta":{` + own + `}}`},
		{legacy, `{"_meta":{}}`, `{}`},
		{legacy, `{"_meta":null,"a":1}`, `{"a":1}`},
		{legacy, `{"_meta":{"progressToken":7,"io.modelcontextprotocol/logLevel":"info"}}`, `{}`},
		{modern, `{"_meta":{"progressToken":7,"io.modelcontextprotocol/logLevel":"info"}}`, `{"_meta":{"io.modelcontextprotocol/logLevel":"info",` + own + `}}`},
		{modern, `{"a":1,"_meta":7,"b":2}`, `{"a":1,"_meta":{` + own + `},"b":2}`},
		{hop{revision: mcp.LatestLegacy, progress: 9}, `{"_meta":{"x":"y"}}`, `{"_meta":{"x":"y","progressToken":9}}`},
		{legacy, `{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"1"},"tracestate":"a","baggage":"b"}}`, `{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"1"},"tracestate":"a","baggage":"b"}}`},
	} {
		var params []byte
		if tt.params != "" {
			params = []byte(tt.params)
		}
		if got := string(appendParams(nil, params, tt.h)); got != tt.want {
			t.Errorf("%s for %v is %s, want %s", tt.params, tt.h.revision, got, tt.want)
		}
	}
}

// TestResultKinds recognises what only the newer era has, and only there.
func TestResultKinds(t *testing.T) {
	t.Parallel()
	for result, kind := range map[string]ResponseKind{
		`{"content":[]}`:                            Complete,
		`{"resultType":"complete"}`:                 Complete,
		`{"resultType":"input_required"}`:           InputRequired,
		`{"result\u0054ype":"input\u005frequired"}`: InputRequired,
		`{"resultType":"task","taskId":"1"}`:        TaskCreated,
		`{"resultType":"other"}`:                    UnknownResult,
		`{"resultType":7}`:                          UnknownResult,
	} {
		for _, era := range []Era{EraLegacy, EraModern} {
			_, c := openLines(t, Options{}, polite(era, func(p *peer, m message) { p.say(m.result(result)) }))
			r, err := c.Do(minute(t), toolCall(Request{}))
			want := kind
			if era == EraLegacy {
				want = Complete
			}
			if err != nil || r.Kind != want || string(r.Result) != result {
				t.Errorf("%s in the era %v is %d and %v, want %d", result, era, r.Kind, err, want)
			}
		}
	}
}

// TestWhoseIsWhat sends what belongs to requests, to subscriptions and to nobody.
func TestWhoseIsWhat(t *testing.T) {
	t.Parallel()
	note := func(method, meta string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{"_meta":{%s}}}`, method, meta)
	}
	t.Run("lines", func(t *testing.T) {
		t.Parallel()
		bubble.Test(t, func(t *testing.T) {
			var r, listen, call records
			var id string
			p, c := openLines(t, r.options(), polite(EraModern, func(p *peer, m message) {
				p.say(note(mcp.NotifyMessage, ""), note(mcp.NotifyToolsListChanged, `"io.modelcontextprotocol/subscriptionId":`+id),
					note(mcp.NotifyResourcesUpdated, ""), note(mcp.NotifyToolsListChanged, `"io.modelcontextprotocol/subscriptionId":999`), m.result(done))
			}))
			ctx, cancel := context.WithCancel(t.Context())
			listenID := c.NewID()
			id = fmt.Sprint(listenID)
			ended := make(chan error, 1)
			go func() {
				_, err := c.Do(ctx, Request{ID: listenID, Method: mcp.MethodSubscriptionsListen, Event: listen.options().Event})
				ended <- err
			}()
			synctest.Wait()
			if _, err := c.Do(minute(t), toolCall(Request{Event: call.options().Event})); err != nil {
				t.Fatal(err)
			}
			if len(listen.events) != 1 || listen.events[0].Request != listenID || len(call.events) != 0 || len(r.events) != 3 {
				t.Errorf("the subscription got %v, the call %v, the owner %v", listen.events, call.events, r.events)
			}
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the subscription ended with %v", err)
			}
			synctest.Wait()
			if got := string(p.last(mcp.NotifyCancelled).Params); got != `{"requestId":`+id+`}` {
				t.Errorf("the withdrawal is %s", got)
			}
		})
	})
	t.Run("HTTP", func(t *testing.T) {
		t.Parallel()
		bubble.Test(t, func(t *testing.T) {
			var r, call records
			_, c := openHTTP(t, r.options(), politely(EraLegacy, func(w http.ResponseWriter, q *http.Request, m message) {
				if q.Method == http.MethodPost {
					stream(w, event("", note(mcp.NotifyMessage, "")), event("", note(mcp.NotifyToolsListChanged, "")), event("", note("notifications/own", "")),
						event("", `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}`), event("", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}`),
						event("", `{"jsonrpc":"2.0","id":"q2","method":"roots/list"}`), answerEvent("", m))
				}
			}))
			id := c.NewID()
			if _, err := c.Do(minute(t), toolCall(Request{ID: id, Event: call.options().Event})); err != nil {
				t.Fatal(err)
			}
			// A question ends with the call that it was asked for.
			if err := c.Answer(minute(t), []byte(`"q2"`), []byte(`{}`)); !errors.Is(err, ErrNoQuestion) {
				t.Errorf("an answer after the call has %v", err)
			}
			if call.count(mcp.NotifyMessage) != 1 || call.count("notifications/own") != 1 || call.first(mcp.MethodElicitationCreate).Request != id || call.first(mcp.NotifyCancelled).Request != id || r.first(mcp.NotifyToolsListChanged).Request != id || len(r.events) != 1 {
				t.Errorf("the call got %v, the owner %v", call.events, r.events)
			}
		})
	})
}

// TestSubscriptionEnds has a backend end a subscription, with and without a word.
func TestSubscriptionEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(p *peer, m message){
		"with a result": func(p *peer, m message) { p.say(m.result(done)) },
		"with a withdrawal": func(p *peer, m message) {
			p.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, m.ID))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble.Test(t, func(t *testing.T) {
				_, c := openLines(t, Options{}, func(p *peer, m message) {
					if m.Method == mcp.MethodSubscriptionsListen {
						end(p, m)
						return
					}
					polite(EraModern, nil)(p, m)
				})
				r, err := c.Do(minute(t), Request{Method: mcp.MethodSubscriptionsListen})
				why := Reason("")
				if name == "with a withdrawal" {
					why = ReasonEnded
				}
				checkOutcome(t, r, err, why, mcp.CodeCallLost)
			})
		})
	}
}

// TestQuestions asks over lines and HTTP, and gets answers by the backend's id.
func TestQuestions(t *testing.T) {
	t.Parallel()
	const question = `{"jsonrpc":"2.0","id":"q\u0031","method":"elicitation/create","params":{"x":1.0}}`
	asked := func(t *testing.T, events chan Event, c *Conn, over chan struct{}) {
		defer close(over)
		e := <-events
		if string(e.ID) != `"q\u0031"` || string(e.Params) != `{"x":1.0}` {
			t.Errorf("the question is %s, %s", e.ID, e.Params)
		}
		if err := c.Answer(minute(t), []byte(`"q1"`), []byte(`{}`)); !errors.Is(err, ErrNoQuestion) {
			t.Errorf("another id has %v", err)
		}
		if err := c.Answer(minute(t), e.ID, []byte(`{"action":"accept","n":1.0}`)); err != nil {
			t.Error(err)
		}
		if err := c.Refuse(minute(t), e.ID, mcp.NewError(-1, "no")); !errors.Is(err, ErrNoQuestion) {
			t.Errorf("a second answer has %v", err)
		}
	}
	const want = `{"jsonrpc":"2.0","id":"q\u0031","result":{"action":"accept","n":1.0}}`
	t.Run("lines", func(t *testing.T) {
		t.Parallel()
		events := make(chan Event, 1)
		var call, answer message
		_, c := openLines(t, Options{Event: func(e Event) { events <- e }}, func(p *peer, m message) {
			switch {
			case m.Method == mcp.MethodToolsCall:
				call = m
				p.say(question)
			case m.Result != nil:
				answer = m
				p.say(call.result(done))
			default:
				polite(EraLegacy, nil)(p, m)
			}
		})
		over := make(chan struct{})
		go asked(t, events, c, over)
		r, err := c.Do(minute(t), toolCall(Request{}))
		checkOutcome(t, r, err, "", 0)
		<-over
		if answer.Raw != want {
			t.Errorf("it got %s", answer.Raw)
		}
	})
	t.Run("HTTP", func(t *testing.T) {
		t.Parallel()
		events, answered := make(chan Event, 1), make(chan string, 1)
		_, c := openHTTP(t, Options{}, func(w http.ResponseWriter, r *http.Request, m message) {
			switch {
			case m.Result != nil:
				answered <- m.Raw
				w.WriteHeader(202)
			case m.Method == mcp.MethodToolsCall:
				stream(w, event("", question))
				if got := <-answered; got != want {
					t.Errorf("it got %s", got)
				}
				stream(w, answerEvent("", m))
			default:
				politely(EraLegacy, func(http.ResponseWriter, *http.Request, message) {})(w, r, m)
			}
		})
		over := make(chan struct{})
		go asked(t, events, c, over)
		r, err := c.Do(minute(t), toolCall(Request{Event: func(e Event) { events <- e }}))
		checkOutcome(t, r, err, "", 0)
		<-over
	})
	t.Run("nobody answers", func(t *testing.T) {
		t.Parallel()
		var call message
		p, c := openLines(t, Options{}, func(p *peer, m message) {
			switch {
			case m.Method == mcp.MethodToolsCall:
				call = m
				p.say(question)
			case m.Error != nil:
				p.say(call.result(done))
			default:
				polite(EraLegacy, nil)(p, m)
			}
		})
		r, err := c.Do(minute(t), toolCall(Request{}))
		checkOutcome(t, r, err, "", 0)
		if p.count(fmt.Sprint(mcp.CodeMethodNotFound)) != 1 {
			t.Errorf("it got %v", p.methods())
		}
	})
}

// TestLateAnswer tells who gave up a call that it was answered after all.
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		var late time.Duration
		began := time.Now()
		_, c := openLines(t, Options{}, polite(EraLegacy, func(p *peer, m message) {
			time.AfterFunc(3*time.Second, func() { p.say(m.result(done), m.result(done)) })
		}))
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("enough"))
		defer cancel()
		_, err := c.Do(ctx, toolCall(Request{Late: func() { late = time.Since(began) }}))
		if f, _ := errors.AsType[*Failure](err); f == nil || f.Why != ReasonCancelled || !strings.Contains(err.Error(), "enough") {
			t.Errorf("the call has %v", err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if late != 3*time.Second {
			t.Errorf("the answer came after %v", late)
		}
		wantCounts(t, c, map[OddityKind]uint64{OddAnswer: 1})
	})
}

// TestLateIsBounded gives up more calls than are remembered.
func TestLateIsBounded(t *testing.T) {
	t.Parallel()
	k := newCalls(0)
	for range 3 * MostLate {
		c, f := k.begin(Request{})
		if f != nil {
			t.Fatal(f)
		}
		k.giveUpCall(c, true)
	}
	if len(k.late) != MostLate || len(k.lateOrder) != MostLate || len(k.open) != 0 {
		t.Errorf("%d and %d are remembered", len(k.late), len(k.lateOrder))
	}
}

// TestEndedMeanwhile has a link end while it hands a call over, for a reason that runs no call after it.
func TestEndedMeanwhile(t *testing.T) {
	t.Parallel()
	k := newCalls(0)
	before, _ := k.begin(Request{})
	if lost := k.noteLinkEnd(&Failure{Why: ReasonSessionGone, Outcome: NotRun}); len(lost) != 0 {
		t.Errorf("%d calls are lost that the link is at", len(lost))
	}
	if f := k.noteSent(before); f == nil || f.Outcome != Lost || len(k.open) != 0 {
		t.Errorf("the call has %+v", f)
	}
	if _, f := k.begin(Request{}); f == nil || f.Outcome != NotRun || f.Why != ReasonSessionGone {
		t.Errorf("the next call has %+v", f)
	}
}

// TestOddities tells of a flood now and then.
func TestOddities(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		var r records
		_, c := openLines(t, r.options(), polite(EraLegacy, func(p *peer, m message) {
			for range 1000 {
				p.say("a log\tof " + strings.Repeat("x", 1000))
			}
			p.say(m.result(done))
		}))
		if _, err := c.Do(minute(t), toolCall(Request{})); err != nil {
			t.Fatal(err)
		}
		if n := len(r.odd); n != 10 || r.odd[9].Count != 512 || r.odd[9].What.String() != "text" || len(r.odd[0].Excerpt) > mostExcerpt+3 {
			t.Errorf("told %d times: %v", n, r.odd)
		}
	})
}

// TestClose ends a Conn in several ways.
func TestClose(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		var r records
		_, c := openLines(t, r.options(), polite(EraLegacy, func(*peer, message) {}))
		ended := make(chan error, 1)
		go func() {
			_, err := c.Do(t.Context(), toolCall(Request{}))
			ended <- err
		}()
		synctest.Wait()
		c.Close(t.Context())
		c.Close(t.Context())
		checkOutcome(t, Response{}, <-ended, ReasonClosed, mcp.CodeCallLost)
		checkNext(t, c, true)
		if len(r.endings()) != 0 {
			t.Errorf("its own end was told: %v", r.endings())
		}
		if err := c.Notify(t.Context(), "x", nil); !errors.Is(err, ErrUnsent) {
			t.Errorf("a notification has %v", err)
		}
	})
}

// TestGivenUpBefore sends nothing of a call whose context has ended.
func TestGivenUpBefore(t *testing.T) {
	t.Parallel()
	p, c := openLines(t, Options{}, polite(EraLegacy, nil))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // of two ways that are open, a select takes one at random
		if _, err := c.Do(ctx, toolCall(Request{})); !errors.Is(err, ErrUnsent) || !errors.Is(err, context.Canceled) {
			t.Errorf("the call has %v", err)
		}
	}
	checkNext(t, c, false)
	if p.count(mcp.MethodToolsCall) != 0 {
		t.Errorf("it got %v", p.methods())
	}
}

// TestTooLargeToSend refuses what no backend would take.
func TestTooLargeToSend(t *testing.T) {
	t.Parallel()
	_, c := openLines(t, Options{}, polite(EraLegacy, nil))
	_, err := c.Do(minute(t), Request{Method: mcp.MethodToolsCall, Params: []byte(`{"a":"` + strings.Repeat("x", MostMessage) + `"}`)})
	checkOutcome(t, Response{}, err, ReasonTooLarge, mcp.CodeInternalError)
	checkNext(t, c, false)
}

// TestFailureText keeps addresses out of what clients see.
func TestFailureText(t *testing.T) {
	t.Parallel()
	f := &Failure{Why: ReasonUnreachable, Outcome: NotRun, Text: "the backend cannot be reached", Err: errors.New("dial tcp 10.0.0.1:80")}
	if e := f.Wire(); e.Message != "the backend cannot be reached" || string(e.Data) != `{"reason":"unreachable","ran":false}` {
		t.Errorf("the error is %v %s", e, e.Data)
	}
	if !strings.Contains(f.Error(), "10.0.0.1") {
		t.Errorf("the log has %v", f)
	}
}

// TestPipe reads lines of all kinds.
func TestPipe(t *testing.T) {
	t.Parallel()
	p := NewPipe(strings.NewReader("a\r\n\n"+strings.Repeat("b", 100_000)+"\nc\rd\ne"), NewFeed(), func() error { return nil })
	defer p.Close()
	for _, want := range []string{"a", "", strings.Repeat("b", 100_000), "c\rd", "e"} {
		if got, err := p.Receive(); err != nil || string(got) != want {
			t.Errorf("a line is %q and %v, want %q", shorten(string(got)), err, shorten(want))
		}
	}
	if _, err := p.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("the end is %v", err)
	}
	long := NewPipe(io.MultiReader(strings.NewReader(strings.Repeat("x", MostMessage)+"\n"), strings.NewReader(strings.Repeat("x", MostMessage+3))), NewFeed(), func() error { return nil })
	defer long.Close()
	if line, err := long.Receive(); len(line) != MostMessage || err != nil {
		t.Errorf("the longest line has %d bytes and %v", len(line), err)
	}
	if _, err := long.Receive(); !errors.Is(err, ErrLongLine) {
		t.Errorf("a longer line has %v", err)
	}
}
