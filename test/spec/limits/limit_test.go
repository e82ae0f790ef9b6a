package limits_test

import (
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// limitEnv is a runtime with some clients: two sessions of ann, one of bob, and one of
// an anonymous client.
type limitEnv struct {
	*host.Host
	ann, too, bob, nobody *kit.Client
}

// begin begins a call of 10 seconds, whose response is a stream by now.
func (e *limitEnv) begin(c *kit.Client, ids ...string) {
	e.T.Helper()
	for _, id := range ids {
		a := c.Post(host.Call(id, "sleep", `{"ms":10000}`))
		if !a.Stream() {
			e.T.Errorf("call %s: %s %s", id, a.Status, a.Body)
		}
		e.T.Cleanup(a.Close)
	}
}

// hear opens a standalone stream.
func (e *limitEnv) hear(c *kit.Client) *kit.Answer {
	e.T.Helper()
	a := c.Get("")
	if !a.Stream() {
		e.T.Errorf("GET: %s %s", a.Status, a.Body)
	}
	e.T.Cleanup(a.Close)
	return a
}

// park begins a call that asks a question, and returns its stream.
func (e *limitEnv) park(c *kit.Client, id string) (*kit.Answer, host.Asked) {
	e.T.Helper()
	a := c.Post(host.Call(id, "ask", `{"question":"?"}`))
	e.T.Cleanup(a.Close)
	return a, host.NextQuestion(e.T, a)
}

// settled is park with the question answered.
func (e *limitEnv) settled(c *kit.Client, id string) *kit.Answer {
	e.T.Helper()
	a, q := e.park(c, id)
	host.Reply(c, q.ID, "result", `{"action":"cancel"}`)
	return a
}

// replays expects n more messages on a resumed stream.
func (e *limitEnv) replays(a *kit.Answer, n int) {
	e.T.Helper()
	if !a.Stream() {
		e.T.Fatalf("resume: %s %s", a.Status, a.Body)
	}
	if got := host.Payloads(a.All()); len(got) != n {
		e.T.Errorf("resume: %d messages, want %d: %q", len(got), n, got)
	}
}

// old begins a session that may send batches.
func (e *limitEnv) old(name string) *kit.Client {
	return host.As(e.Unchecked(), name).InitializeAs("2025-03-26", `{}`)
}

// passes expects a call to succeed.
func (e *limitEnv) passes(what string, c *kit.Client, n int) {
	e.T.Helper()
	for i := range n {
		id := fmt.Sprintf(`"%s %d"`, what, i)
		host.Equal(e.T, what, c.Post(host.Call(id, "echo", `{"text":"x"}`)).Body, host.TextResult(id, "x"))
	}
}

// refused is how a client learns of a limit. body is the response, or the last event of
// a stream.
type refused struct {
	status      int
	retry, body string
}

func seen(t *testing.T, a *kit.Answer) refused {
	t.Helper()
	if a.Stream() {
		return refused{a.StatusCode, a.Header.Get("Retry-After"), host.Last(t, a)}
	}
	return refused{a.StatusCode, a.Header.Get("Retry-After"), a.Body}
}

// limitRow fills up to a limit, and makes one more request.
type limitRow struct {
	name   string
	o      troupe.Options
	fill   func(e *limitEnv) // every request of it passes
	more   func(e *limitEnv) *kit.Answer
	want   refused
	limit  *limits.Row
	others func(e *limitEnv)             // checks that others are not harmed; nil means every client except ann
	room   func(e *limitEnv)             // makes room, or takes time
	again  func(e *limitEnv) *kit.Answer // passes then; nil means more
}

func limitRows() []limitRow {
	echo := func(c func(e *limitEnv) *kit.Client) func(e *limitEnv) *kit.Answer {
		return func(e *limitEnv) *kit.Answer { return c(e).Post(host.Call(`"x"`, "echo", `{"text":"x"}`)) }
	}
	ann := func(e *limitEnv) *kit.Client { return e.ann }
	withToo := func(e *limitEnv) {
		e.passes("ann's other session", e.too, 1)
		e.passes("bob", e.bob, 1)
		e.passes("nobody", e.nobody, 1)
	}
	wait := func(d time.Duration) func(*limitEnv) { return func(*limitEnv) { time.Sleep(d) } }
	// long is a call with one event a second, each in an append of its own.
	long := func(e *limitEnv) []kit.Event {
		return e.ann.Post(host.CallWith(`"x"`, "count", `{"to":10,"delay_ms":1000}`, `"t"`)).All()
	}
	resumed := func(i int) func(e *limitEnv) *kit.Answer {
		return func(e *limitEnv) *kit.Answer { return e.ann.Get(long(e)[i].ID) }
	}
	tooOld := refused{400, "", host.Fault("", -32011, host.BadEventText, "")}
	padded := func(e *limitEnv, pad string) *kit.Answer {
		return e.ann.Post(host.CallWith(`"x"`, "echo", `{"text":"x"}`, `"t","pad":`+pad))
	}
	big := func(e *limitEnv) *kit.Answer { return padded(e, `"`+strings.Repeat("x", 200<<10)+`"`) }   // costs four
	many := func(e *limitEnv) *kit.Answer { return padded(e, `[`+strings.Repeat("1,", 30_000)+`1]`) } // costs four
	return []limitRow{
		{
			name: "calls per second of a session", o: troupe.Options{Limits: troupe.Limits{CallRate: 2, CallBurst: 3}}, limit: limits.CallRate.Row,
			fill: func(e *limitEnv) {
				e.passes("ann", e.ann, 2)
				e.ann.Post(host.Method("1", "completion/complete", `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":""}}`))
			},
			more: echo(ann), want: refused{200, "1", host.Fault(`"x"`, host.Invalid, "too many calls per second in this session", `{"retryAfterMs":500}`)},
			others: func(e *limitEnv) {
				withToo(e)
				for range 10 { // only calls count
					host.Equal(e.T, "ping", e.ann.Post(host.Method("1", "ping", "")).Body, `{"jsonrpc":"2.0","id":1,"result":{}}`)
				}
			},
			room: wait(500 * time.Millisecond),
		},
		{
			name: "calls per second of a principal", o: troupe.Options{Shared: troupe.SharedLimits{PrincipalRate: 0.5, PrincipalBurst: 3}}, limit: limits.PrincipalRate.Row,
			fill: func(e *limitEnv) { e.passes("ann", e.ann, 2); e.passes("ann", e.too, 1) },
			more: echo(ann), want: refused{200, "2", host.Fault(`"x"`, host.Invalid, "too many calls per second from this client", `{"retryAfterMs":2000}`)},
			room: wait(2 * time.Second),
		},
		{
			name: "requests of every kind per second of a session", o: troupe.Options{Limits: troupe.Limits{CallRate: 2, CallBurst: 7}}, limit: limits.CallRate.Row,
			fill: func(e *limitEnv) {
				for i, m := range [][2]string{
					{"tools/list", `{}`}, {"resources/read", `{"uri":"test://static-text"}`}, {"prompts/get", `{"name":"greet","arguments":{"who":"x"}}`},
					{"resources/subscribe", `{"uri":"test://static-text"}`}, {"resources/unsubscribe", `{"uri":"test://static-text"}`}, {"logging/setLevel", `{"level":"error"}`}, {"x/y", `{}`},
				} {
					if a := e.ann.Post(host.Method(fmt.Sprint(i), m[0], m[1])); strings.Contains(a.Body, "too many") {
						e.T.Errorf("%s: %s", m[0], a.Body)
					}
				}
			},
			more: func(e *limitEnv) *kit.Answer { return e.ann.Post(host.Method(`"x"`, "tools/list", `{}`)) },
			want: refused{200, "1", host.Fault(`"x"`, host.Invalid, "too many calls per second in this session", `{"retryAfterMs":500}`)}, others: withToo,
			room: wait(500 * time.Millisecond),
		},
		{
			name: "bytes per second of a session", o: troupe.Options{Limits: troupe.Limits{CallRate: 2, CallBurst: 5}}, limit: limits.CallRate.Row,
			fill: func(e *limitEnv) { host.Equal(e.T, "the first", big(e).Body, host.TextResult(`"x"`, "x")) },
			more: big, want: refused{200, "2", host.Fault(`"x"`, host.Invalid, "too many calls per second in this session", `{"retryAfterMs":1500}`)}, others: withToo,
			room: wait(1500 * time.Millisecond),
		},
		{
			name: "values per second of a principal", o: troupe.Options{Shared: troupe.SharedLimits{PrincipalRate: 2, PrincipalBurst: 5}}, limit: limits.PrincipalRate.Row,
			fill: func(e *limitEnv) { host.Equal(e.T, "the first", many(e).Body, host.TextResult(`"x"`, "x")) },
			more: many, want: refused{200, "2", host.Fault(`"x"`, host.Invalid, "too many calls per second from this client", `{"retryAfterMs":1500}`)},
			room: wait(1500 * time.Millisecond),
		},
		{
			name: "GETs per second of a principal", o: troupe.Options{Shared: troupe.SharedLimits{PrincipalRate: 0.5, PrincipalBurst: 3}}, limit: limits.PrincipalRate.Row,
			fill: func(e *limitEnv) { e.hear(e.ann); e.hear(e.too); e.passes("ann", e.too, 1) },
			more: func(e *limitEnv) *kit.Answer { return e.ann.Get("") },
			want: refused{429, "2", host.Fault("", host.Invalid, "too many calls per second from this client", `{"retryAfterMs":2000}`)},
			room: wait(2 * time.Second),
		},
		{
			name: "resumes per second of a principal", o: troupe.Options{Shared: troupe.SharedLimits{PrincipalRate: 1, PrincipalBurst: 5}}, limit: limits.PrincipalRate.Row,
			fill: func(e *limitEnv) { e.replays(resumed(0)(e), 11) },
			more: func(e *limitEnv) *kit.Answer { return e.ann.Get("0-0-0") },
			want: refused{429, "5", host.Fault("", host.Invalid, "too many calls per second from this client", `{"retryAfterMs":5000}`)},
			room: wait(5 * time.Second), again: resumed(0),
		},
		{
			name: "notifications per second of a principal", o: troupe.Options{Shared: troupe.SharedLimits{PrincipalRate: 0.5, PrincipalBurst: 3}}, limit: limits.PrincipalRate.Row,
			fill: func(e *limitEnv) {
				for range 26 { // two sessions have cost four of thirty
					host.Equal(e.T, "a notification", e.ann.Post(host.Note("notifications/x", "")).Status, "202 Accepted")
				}
			},
			more: func(e *limitEnv) *kit.Answer { return e.ann.Post(host.Note("notifications/x", "")) },
			want: refused{429, "1", host.Fault("", host.Invalid, "too many calls per second from this client", `{"retryAfterMs":200}`)},
			others: func(e *limitEnv) {
				e.passes("a call", e.ann, 1)
				e.passes("bob", e.bob, 1)
			},
			room: wait(200 * time.Millisecond), again: func(e *limitEnv) *kit.Answer {
				host.Equal(e.T, "later", e.ann.Post(host.Note("notifications/x", "")).Status, "202 Accepted")
				return e.ann.Post(host.Call("1", "echo", `{"text":"x"}`))
			},
		},
		{
			name: "requests in flight of a session", o: troupe.Options{Limits: troupe.Limits{CallsPerSession: 2}}, limit: limits.CallsPerSession.Row,
			fill: func(e *limitEnv) { e.begin(e.ann, "1", "2") },
			more: echo(ann), want: refused{200, "1", host.Fault(`"x"`, host.Invalid, "too many requests in flight in this session", `{"retryAfterMs":1000}`)},
			others: withToo,
			room: func(e *limitEnv) {
				e.ann.Post(host.Note("notifications/cancelled", `{"requestId":1}`))
				synctest.Wait()
			},
		},
		{
			name: "requests in flight of a principal", o: troupe.Options{Shared: troupe.SharedLimits{CallsPerPrincipal: 2}}, limit: limits.CallsPerPrincipal.Row,
			fill: func(e *limitEnv) { e.begin(e.ann, "1"); e.begin(e.too, "1") },
			more: echo(ann), want: refused{200, "1", host.Fault(`"x"`, host.Invalid, "too many requests in flight from this client", `{"retryAfterMs":1000}`)},
			room: func(e *limitEnv) {
				e.too.Post(host.Note("notifications/cancelled", `{"requestId":1}`))
				synctest.Wait()
			},
		},
		{
			name: "requests in flight on the node", o: troupe.Options{Shared: troupe.SharedLimits{CallsPerNode: 2}}, limit: limits.CallsPerNode.Row,
			fill: func(e *limitEnv) { e.begin(e.ann, "1"); e.begin(e.bob, "1") },
			more: echo(ann), want: refused{200, "1", host.Fault(`"x"`, host.Internal, "too many requests in flight on this node", `{"retryAfterMs":1000}`)},
			others: func(e *limitEnv) {
				if a := e.nobody.Post(host.Call("1", "echo", `{"text":"x"}`)); !strings.Contains(a.Body, "too many requests in flight on this node") {
					e.T.Errorf("a stranger on a full node: %s %s", a.Status, a.Body)
				}
			},
			room: wait(20 * time.Second),
		},
		{
			name: "a share of the node", o: troupe.Options{Shared: troupe.SharedLimits{CallsPerNode: 8}}, limit: limits.NodeShare.Row,
			fill: func(e *limitEnv) { e.begin(e.ann, "1", "2", "3"); e.begin(e.too, "1", "2", "3"); e.begin(e.bob, "1") },
			more: echo(ann), want: refused{200, "1", host.Fault(`"x"`, host.Internal, "this node is busy, and this client has its share of it", `{"retryAfterMs":1000}`)},
			room: wait(20 * time.Second),
		},
		{
			name: "sessions of a principal", o: troupe.Options{Shared: troupe.SharedLimits{SessionsPerPrincipal: 2}}, limit: limits.SessionsPerPrincipal.Row,
			more: func(e *limitEnv) *kit.Answer { return host.As(e.Client(), "ann").Post(host.InitializeRequest) },
			want: refused{429, "1800", host.Fault("0", host.Invalid, "too many new sessions from this client", `{"retryAfterMs":1800000}`)},
			others: func(e *limitEnv) {
				host.As(e.Client(), "bob").Initialize(`{}`)
				host.As(e.Client(), "carol").Initialize(`{}`)
				e.passes("in the sessions that she has", e.ann, 1)
			},
			room: func(e *limitEnv) {
				e.too.Do("DELETE", "") // which returns nine tenths
				time.Sleep(3 * time.Minute)
			},
		},
		{
			name: "sessions of a principal, in time", o: troupe.Options{Shared: troupe.SharedLimits{SessionsPerPrincipal: 2}}, limit: limits.SessionsPerPrincipal.Row,
			more: func(e *limitEnv) *kit.Answer { return host.As(e.Client(), "ann").Post(host.InitializeRequest) },
			want: refused{429, "1800", host.Fault("0", host.Invalid, "too many new sessions from this client", `{"retryAfterMs":1800000}`)},
			room: wait(30 * time.Minute),
		},
		{
			name: "event streams of a session", o: troupe.Options{Limits: troupe.Limits{StreamsPerSession: 2}}, limit: limits.StreamsPerSession.Row,
			fill: func(e *limitEnv) { e.hear(e.ann); e.begin(e.ann, "1") },
			more: func(e *limitEnv) *kit.Answer { return e.ann.Get("") },
			want: refused{429, "1", host.Fault("", host.Invalid, "too many open streams in this session", `{"retryAfterMs":1000}`)},
			others: func(e *limitEnv) {
				e.passes("a call", e.ann, 1)
				e.hear(e.too).Close()
				withToo(e)
			},
			room: wait(time.Minute),
		},
		{
			name: "event streams of a principal", o: troupe.Options{Shared: troupe.SharedLimits{StreamsPerPrincipal: 2}}, limit: limits.StreamsPerPrincipal.Row,
			fill: func(e *limitEnv) { e.hear(e.too); e.begin(e.ann, "1") },
			more: func(e *limitEnv) *kit.Answer { return e.ann.Get("") },
			want: refused{429, "1", host.Fault("", host.Invalid, "too many open streams from this client", `{"retryAfterMs":1000}`)},
			others: func(e *limitEnv) {
				e.passes("a call", e.ann, 1)
				e.hear(e.bob).Close()
				e.hear(e.nobody).Close()
			},
			room: wait(time.Minute),
		},
		{
			name: "questions of a session", o: troupe.Options{Limits: troupe.Limits{PendingPerSession: 1}}, limit: limits.PendingPerSession.Row,
			fill:   func(e *limitEnv) { e.park(e.ann, "1") },
			more:   func(e *limitEnv) *kit.Answer { return e.ann.Post(host.Call(`"x"`, "ask", `{"question":"?"}`)) },
			want:   refused{200, "", host.ToolFault(`"x"`, "too many calls wait for the client")},
			others: withToo,
			room: func(e *limitEnv) {
				e.ann.Post(host.Note("notifications/cancelled", `{"requestId":1}`))
				synctest.Wait()
			},
			again: func(e *limitEnv) *kit.Answer { return e.settled(e.ann, `"x"`) },
		},
		{
			name: "questions of a principal", o: troupe.Options{Shared: troupe.SharedLimits{PendingPerPrincipal: 2}}, limit: limits.PendingPerPrincipal.Row,
			fill: func(e *limitEnv) { e.park(e.ann, "1"); e.park(e.too, "1") },
			more: func(e *limitEnv) *kit.Answer { return e.ann.Post(host.Call(`"x"`, "ask", `{"question":"?"}`)) },
			want: refused{200, "", host.ToolFault(`"x"`, "too many calls wait for the client")},
			room: func(e *limitEnv) {
				e.too.Post(host.Note("notifications/cancelled", `{"requestId":1}`))
				synctest.Wait()
			},
			again: func(e *limitEnv) *kit.Answer { return e.settled(e.ann, `"x"`) },
		},
		{
			name: "subscriptions of a session", o: troupe.Options{Limits: troupe.Limits{SubscriptionsPerSession: 2}}, limit: limits.SubscriptionsPerSession.Row,
			fill: func(e *limitEnv) {
				for _, uri := range []string{"test://one", "test://items/1", "test://one"} {
					host.Equal(e.T, uri, e.ann.Post(host.Method("1", "resources/subscribe", `{"uri":"`+uri+`"}`)).Body, `{"jsonrpc":"2.0","id":1,"result":{}}`)
				}
			},
			more: func(e *limitEnv) *kit.Answer {
				return e.ann.Post(host.Method("1", "resources/subscribe", `{"uri":"test://items/2"}`))
			},
			want: refused{200, "", host.Fault("1", host.Invalid, "the session subscribes to as many resources as it may", "")},
			room: func(e *limitEnv) { e.ann.Post(host.Method("1", "resources/unsubscribe", `{"uri":"test://one"}`)) },
		},
		{
			name: "bytes of a URI", o: troupe.Options{Limits: troupe.Limits{MaxURI: 20}}, limit: limits.MaxURI.Row,
			fill: func(e *limitEnv) {
				host.Equal(e.T, "20 bytes", e.ann.Post(host.Method("1", "resources/subscribe", `{"uri":"test://items/7890123"}`)).Body, `{"jsonrpc":"2.0","id":1,"result":{}}`)
			},
			more: func(e *limitEnv) *kit.Answer {
				return e.ann.Post(host.Method("1", "resources/read", `{"uri":"test://items/78901234"}`))
			},
			want: refused{200, "", host.Fault("1", host.BadParam, "uri is longer than 20 bytes", "")},
			again: func(e *limitEnv) *kit.Answer {
				return e.ann.Post(host.Method("1", "resources/subscribe", `{"uri":"test://one"}`))
			},
		},
		{
			name: "time of a call", o: troupe.Options{Limits: troupe.Limits{MaxCall: 2 * time.Second}}, limit: limits.MaxCall.Row,
			fill: func(e *limitEnv) {
				host.Equal(e.T, "a second", host.Last(e.T, e.ann.Post(host.Call("1", "sleep", `{"ms":1000}`))), host.TextResult("1", "slept"))
			},
			more:  func(e *limitEnv) *kit.Answer { return e.ann.Post(host.Call("1", "sleep", `{"ms":3000}`)) },
			want:  refused{200, "", host.ToolFault("1", "the call ran for too long")},
			again: func(e *limitEnv) *kit.Answer { return e.ann.Post(host.Call("1", "sleep", `{"ms":1000}`)) },
		},
		{
			name: "time of a question", o: troupe.Options{Limits: troupe.Limits{MaxAsk: 2 * time.Second}}, limit: limits.MaxAsk.Row,
			fill: func(e *limitEnv) {
				host.Equal(e.T, "in time", host.Last(e.T, e.settled(e.ann, "1")), host.TextResult("1", "cancel "))
			},
			more:  func(e *limitEnv) *kit.Answer { return e.ann.Post(host.Call("1", "ask", `{"question":"?"}`)) },
			want:  refused{200, "", host.ToolFault("1", "the client did not answer in time")},
			again: func(e *limitEnv) *kit.Answer { return e.settled(e.ann, "1") },
		},
		{
			name: "age of a replay", o: troupe.Options{Store: troupe.StoreOptions{ReplayAge: time.Minute}}, limit: limits.ReplayAge.Row,
			more: func(e *limitEnv) *kit.Answer {
				id := long(e)[3].ID
				time.Sleep(3 * time.Minute)
				return e.ann.Get(id)
			},
			want:  tooOld,
			again: resumed(3),
		},
		{
			name: "appends of a replay", o: troupe.Options{Store: troupe.StoreOptions{ReplayEvents: 4}}, limit: limits.ReplayEvents.Row,
			fill: func(e *limitEnv) { e.replays(resumed(8)(e), 3) },
			more: resumed(5), want: tooOld, again: resumed(10),
		},
		{
			name: "bytes of a replay", o: troupe.Options{Store: troupe.StoreOptions{ReplayBytes: 600}}, limit: limits.ReplayBytes.Row,
			fill: func(e *limitEnv) { e.replays(resumed(10)(e), 1) },
			more: resumed(1), want: tooOld, again: resumed(10),
		},
		{
			name: "bytes of a request", o: troupe.Options{Limits: troupe.Limits{MaxBody: 1000}}, limit: limits.MaxBody.Row,
			fill: func(e *limitEnv) {
				b := host.Method("1", "ping", "")
				host.Equal(e.T, "1,000 bytes", e.ann.Post(b+strings.Repeat(" ", 1000-len(b))).Body, `{"jsonrpc":"2.0","id":1,"result":{}}`)
			},
			more: func(e *limitEnv) *kit.Answer {
				return e.ann.Post(host.Call("1", "echo", `{"text":"`+strings.Repeat("x", 1000)+`"}`))
			},
			want:  refused{413, "", host.Fault("", host.Invalid, "the message is too large: max-body allows 1000 bytes", "")},
			again: echo(ann),
		},
		{
			name: "levels of JSON", o: troupe.Options{Limits: troupe.Limits{MaxDepth: 5}}, limit: limits.MaxDepth.Row,
			fill: func(e *limitEnv) {
				host.Contains(e.T, "two more", e.ann.Post(host.Call("1", "echo", `{"text":[[]]}`)).Body, "isError")
			},
			more:  func(e *limitEnv) *kit.Answer { return e.ann.Post(host.Call("1", "echo", `{"text":[[[]]]}`)) },
			want:  refused{400, "", host.Fault("1", host.BadJSON, "nested too deep, at byte 93", "")},
			again: echo(ann),
		},
		{
			name: "messages of a batch", o: troupe.Options{Limits: troupe.Limits{MaxBatch: 2}}, limit: limits.MaxBatch.Row,
			fill: func(e *limitEnv) {
				if a := e.old("ann").Post("[" + host.Method("1", "ping", "") + "," + host.Method("2", "ping", "") + "]"); a.StatusCode != 200 {
					e.T.Errorf("a batch of two: %s %s", a.Status, a.Body)
				}
			},
			more: func(e *limitEnv) *kit.Answer {
				return e.old("ann").Post("[" + host.Method("1", "ping", "") + "," + host.Method("2", "ping", "") + "," + host.Method("3", "ping", "") + "]")
			},
			want:  refused{400, "", host.Fault("", host.Invalid, "the batch has too many messages", "")},
			again: echo(ann),
		},
		{
			name: "values in the JSON of a message, or of a batch", o: troupe.Options{Limits: troupe.Limits{MaxValues: 20}}, limit: limits.MaxValues.Row,
			fill: func(e *limitEnv) {
				host.Contains(e.T, "few values", e.ann.Post(host.Call("1", "echo", `{"text":[1,2,3]}`)).Body, "isError")
			},
			more: func(e *limitEnv) *kit.Answer {
				return e.ann.Post(host.Call("1", "echo", `{"text":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18]}`))
			},
			want:  refused{400, "", host.Fault("1", host.Invalid, "the message has too many values", "")},
			again: echo(ann),
		},
	}
}

// TestLimits has a row for each limit (invariant I6): up to the limit every request
// passes. One more is refused with exactly this response and counted, no other client
// is harmed, and there is room again afterwards.
func TestLimits(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	for _, row := range limitRows() {
		t.Run(row.name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				m := host.NewMeter()
				var log host.Lines
				row.o.Authenticate, row.o.Telemetry.MeterProvider, row.o.Log = host.User, m, slog.New(slog.NewJSONHandler(&log, nil))
				h := host.New(t, row.o, nil)
				full := `{"elicitation":{"form":{}}}`
				e := &limitEnv{h, host.As(h.Client(), "ann").Initialize(full), host.As(h.Client(), "ann").Initialize(full), host.As(h.Client(), "bob").Initialize(full), h.Session()}
				if row.fill != nil {
					row.fill(e)
				}
				metric, reason := row.limit.By.Metric(), row.limit.Counted
				if n := m.Count(metric, reason); n != 0 {
					t.Errorf("%s counts %d for %s up to the limit", metric, n, reason)
				}
				if diff := gocmp.Diff(row.want, seen(t, row.more(e)), gocmp.AllowUnexported(refused{})); diff != "" {
					t.Errorf("one more (-want +got):\n%s", diff)
				}
				if n := m.Count(metric, reason); n != 1 {
					t.Errorf("%s counts %d for %s, want 1", metric, n, reason)
				}
				told := fmt.Sprintf(`"limit":%q,"times":1,"setting":"%s"`, row.limit.Name, row.limit.Setting())
				if row.limit == limits.NodeShare.Row {
					told = fmt.Sprintf(`"limit":%q,"times":1,"setting":"calls-per-node"`, row.limit.Name)
				}
				if got := strings.Count(log.String(), told) == 1; got == row.limit.Usual {
					t.Errorf("the log, which should have the limit: %t:\n%s", !row.limit.Usual, log.String())
				}
				if row.others != nil {
					row.others(e)
				} else {
					e.passes("bob", e.bob, 1)
					e.passes("nobody", e.nobody, 1)
				}
				if row.room != nil {
					row.room(e)
				}
				again := row.again
				if again == nil {
					again = row.more
				}
				if a := again(e); a.StatusCode != 200 {
					t.Errorf("with room again: %s %s", a.Status, a.Body)
				} else if got := lastOrNone(a); strings.Contains(got, `"error"`) || strings.Contains(got, `"isError"`) {
					t.Errorf("with room again: %s", got)
				}
			})
		})
	}
}

// elsewhere names the tests of counted limits that need more than a row.
var elsewhere = map[*limits.Row]string{
	limits.BodyTimeout.Row:   "TestWhatAClientMayHoldUp",
	limits.BodyRate.Row:      "TestTrickledBodies",
	limits.MaxHeader.Row:     "TestHeaderLimit",
	limits.HeaderTimeout.Row: "TestSlowHeader",

	limits.ConnectionsPerAddress.Row: "TestConnectionsPerAddress",
	limits.Connections.Row:           "TestConnections",
	limits.HealthConnections.Row:     "TestHealthConnections",
	limits.ScrapeWait.Row:            "TestMetricsAreReadByOne",

	limits.AuthFailures.Row:   "TestManyFailures",
	limits.TurnWait.Row:       "TestLargeBodiesTakeTurns",
	limits.MemoryShare.Row:    "TestMemoryIsShared",
	limits.MaxMemory.Row:      "TestMemoryIsShared",
	limits.MaxQueued.Row:      "TestWhatAClientMayHoldUp",
	limits.WriteTimeout.Row:   "TestWhatAClientMayHoldUp",
	limits.LogRate.Row:        "TestLogRate",
	limits.EventID.Row:        "TestAdmission",
	limits.SubscribedURIs.Row: "TestSubscriptionLimits",
	limits.StoreShare.Row:     "TestOneClientDoesNotFillTheStore",
	limits.MaxStore.Row:       "TestFullStoreRefusesNewWorkAndLetsOldEnd",
	limits.RetryWait.Row:      "TestParkedCallsAreBoundedAndExpire",
	limits.Rounds.Row:         "TestEndlessQuestionsEnd",
	limits.Said.Row:           "TestTooMuchIsSaid",
	limits.SaidBytes.Row:      "TestTooManyBytesAreSaid",
	limits.BackendRounds.Row:  "TestInputWithoutEnd",
	limits.BackendPolls.Row:   "TestTaskThatCannotBeLookedAt",
	limits.MaxInstances.Row:   "TestObserved",
	limits.StateInput.Row:     "TestTooMuchInputHoldsNoPlace",
	limits.Recall.Row:         "TestTooMuchToRecall",
	limits.CallSteps.Row:      "TestStepsOfACallAreBounded",
	limits.CallStepBytes.Row:  "TestStepsOfACallAreBounded",
	limits.StateSteps.Row:     "TestStepsAreCarried",
	limits.KeptBody.Row:       "TestForgottenCallRunsAgain",
	limits.SessionVisits.Row:  "TestVisitsAreBounded",
	limits.LateCancels.Row:    "TestLateCancelsAreCounted",
	limits.RerunBody.Row:      "TestLargeBodiesAreStoredForThoseWhoInsist",

	limits.OpenTasksPerPrincipal.Row: "TestOpenTasksAreLimited",
	limits.OpenTasksPerNode.Row:      "TestOpenTasksAreLimited",
}

// TestLimitsHaveTheirRow compares the rows of TestLimits with the table of limits.
func TestLimitsHaveTheirRow(t *testing.T) {
	t.Parallel()
	tested := map[*limits.Row]bool{}
	for _, row := range limitRows() {
		tested[row.limit] = true
	}
	for _, s := range limits.Sections() {
		for row := range limits.All(s) {
			if row.Counted != "" && !tested[row] && elsewhere[row] == "" {
				t.Errorf("nothing tests %s, %s", s, row.Name)
			}
			if tested[row] && elsewhere[row] != "" {
				t.Errorf("%s, %s has a row, and %s", s, row.Name, elsewhere[row])
			}
		}
	}
}

// TestEachOptionIsHeldToItsBounds sets each option of the table to values out of its
// bounds.
func TestEachOptionIsHeldToItsBounds(t *testing.T) {
	t.Parallel()
	for _, s := range limits.Sections() {
		for row := range limits.Settings(s) {
			bad := float64(row.Least) - 1
			if row.None {
				continue // every number is in its bounds
			}
			var o troupe.Options
			field := reflect.ValueOf(&o).Elem()
			for name := range strings.SplitSeq(row.Option, ".") {
				field = field.FieldByName(name)
			}
			if field.CanInt() {
				if field.SetInt(int64(bad)); bad == 0 {
					field.SetInt(-1) // 0 is the default
				}
			} else {
				field.SetFloat(bad)
			}
			if _, err := troupe.New(o); err == nil || !strings.Contains(err.Error(), row.Option+" is ") {
				t.Errorf("%s of %v: the error is %v, want one that names it", row.Option, bad, err)
			}
		}
	}
}

// TestOptionsOutOfBounds checks the one rule for zero and negative options.
func TestOptionsOutOfBounds(t *testing.T) {
	t.Parallel()
	_, err := troupe.New(troupe.Options{Limits: troupe.Limits{MaxDepth: 2000, MaxURI: -1, WriteTimeout: 1, CallBurst: -1, Grace: -1, PingEvery: 900 * time.Millisecond}, Store: troupe.StoreOptions{ReplayEvents: 1001, Lease: -1}})
	for _, part := range []string{
		"Limits.WriteTimeout is 1ns: it must be at least 1ms",
		"Limits.MaxDepth is 2000: it must be from 1 to 1024", "Limits.MaxURI is -1: it must be at least 1B", "Store.ReplayEvents is 1001: it must be from 1 to 1000",
		"Limits.CallBurst is -1: it must be at least 0", "Limits.Grace is -1ns: it must be at least 1ms", "Store.Lease is -1ns: it must be at least 1s", "Limits.PingEvery is 900ms: it must be at least 1s",
	} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error is %v, want %s in it", err, part)
		}
	}
	rt, err := troupe.New(troupe.Options{Limits: troupe.Limits{CallRate: -1, StreamsPerSession: -1, LogRate: -1, PingEvery: -1}, Shared: troupe.SharedLimits{CallsPerNode: -1, PrincipalRate: -1}, DrainDelay: -1, Store: troupe.StoreOptions{Sync: -1}})
	if err != nil {
		t.Fatalf("none of what can be none: %v", err)
	}
	defer func() {
		if err := rt.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	defer func() {
		if v := fmt.Sprint(recover()); !strings.Contains(v, "Limits.MaxAsk is -1ns") {
			t.Errorf("a server's limit out of bounds: %s", v)
		}
	}()
	rt.Mount("/mcp", troupe.NewServer(mcp.Implementation{Name: "t", Version: "1"}, &troupe.ServerOptions{Limits: troupe.Limits{MaxAsk: -1}}))
}

// lastOrNone returns the response, or the last event of a stream that ends, "" for a
// stream that goes on.
func lastOrNone(a *kit.Answer) string {
	if !a.Stream() {
		return a.Body
	}
	got := make(chan string, 1)
	go func() {
		all := host.Payloads(a.All())
		got <- strings.Join(all[max(0, len(all)-1):], "")
	}()
	select {
	case s := <-got:
		return s
	case <-time.After(10 * time.Second):
		a.Close()
		<-got
		return ""
	}
}
