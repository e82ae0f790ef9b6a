package upstream

import (
	"bytes"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// FuzzReceive has a machine with a call of each kind open receive anything.
func FuzzReceive(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"resultType":"task"}}`, `{"jsonrpc":"2.0","id":2,"error":{"code":1,"message":""}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"a":"` + "\xff" + `"}}`, `[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":1,"result":{}}]`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}`, `{"jsonrpc":"2.0","id":"q","method":"ping"}`,
		`{"jsonrpc":"2.0","id":"q","method":"roots/list"}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`,
		`{"jsonrpc":"2.0","method":"x","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":3}}}`, "\xef\xbb\xbf{}", `{"id":1`, "",
	} {
		f.Add([]byte(seed), int64(0), false)
		f.Add([]byte(seed), int64(1), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, on int64, modern bool) {
		k := newCalls(0)
		k.ready, k.modern = true, modern
		for _, method := range []string{mcp.MethodToolsCall, mcp.MethodToolsCall, mcp.MethodSubscriptionsListen} {
			_, _ = k.begin(Request{Method: method, Progress: func([]byte) {}, Event: func(Event) {}})
		}
		finished := map[int64]bool{}
		for _, e := range k.receive(nil, data, on) {
			switch e.do {
			case finishCall:
				switch {
				case finished[e.call.id]:
					t.Errorf("%q ends a call twice", data)
				case k.open[e.call.id] != nil:
					t.Errorf("%q leaves an ended call open", data)
				case e.failure == nil && (e.response.Result == nil) == (e.response.Error == nil):
					t.Errorf("%q has both or neither", data)
				case e.failure == nil && !codec.Valid(append(e.response.Result, e.response.Error...)):
					t.Errorf("%q has an answer that is no JSON", data)
				case on != 0 && on != e.call.id:
					t.Errorf("%q ends another call", data)
				}
				if e.failure == nil {
					_ = e.response.Err()
				}
				finished[e.call.id] = true
			case sendReply:
				var m codec.Message
				if err := codec.Scan(e.reply, &m, codec.Limits{}); err != nil || modern {
					t.Errorf("%q is answered with %q: %v", data, e.reply, err)
				}
			case tellEvent:
				if e.event.ID != nil && (modern || !k.takeQuestion(e.event.ID)) {
					t.Errorf("%q asks what is not open", data)
				}
			}
		}
		if len(k.open)+len(finished) != 3 || len(k.questions) > 0 {
			t.Errorf("%q leaves %d open", data, len(k.open))
		}
	})
}

// FuzzHandshake answers the handshake with anything.
func FuzzHandshake(f *testing.F) {
	for _, seed := range []string{modernDiscover, bothDiscover, legacyInit, `{}`, `{"code":-32022,"message":"","data":{"supported":["2025-11-25"]}}`, `{"code":-32601,"message":""}`} {
		f.Add([]byte(seed), []byte(legacyInit), byte(0), uint8(0))
	}
	f.Fuzz(func(t *testing.T, one, two []byte, order byte, options uint8) {
		if !isObject(one) || !isObject(two) {
			return
		}
		one, two = bytes.TrimSpace(one), bytes.TrimSpace(two)
		h := handshake{known: Era(options & 3), pinned: options&4 != 0, want: Era(options >> 3 & 3), oneEra: options&32 != 0}
		answer := func(raw []byte) Response {
			if code := codec.Field(raw, "code"); code != nil {
				return Response{Kind: Refused, Error: raw}
			}
			return Response{Kind: kindOf(raw), Result: raw}
		}
		probing, waited, initializing := false, false, false
		m := h.begin()
		for step := 0; ; step++ {
			if step > 12 {
				t.Fatalf("%q and %q go on without end", one, two)
			}
			switch {
			case m.settled != nil:
				if s := m.settled; !s.Revision.Valid() || s.Capabilities != nil && s.Capabilities[0] != '{' {
					t.Errorf("settled on %+v", s)
				}
				return
			case m.failed != nil:
				_ = m.failed.Error()
				return
			case m.probe:
				if probing {
					t.Fatal("two probes at once")
				}
				probing, waited = true, false
			case m.initialize != 0:
				if initializing || m.initialize.Stateless() {
					t.Fatalf("initialize with %v", m.initialize)
				}
				initializing = true
			}
			order = order>>1 | order<<7
			if m.hurry && order&4 != 0 {
				if m = h.initializeSilent(); m.settled == nil {
					t.Fatal("nothing to settle on")
				}
				continue
			}
			switch {
			case probing && order&1 != 0 && !initializing && !waited:
				waited = true // a timer tells of the silence, once for each probe
				m = h.probeSilent()
			case probing && (order&2 != 0 || !initializing):
				probing = false
				m = h.probeAnswered(answer(one))
			case initializing:
				initializing = false
				m = h.initializeAnswered(answer(two))
			case probing:
				probing = false
				m = h.probeFailed(&Failure{Why: ReasonEnded})
			default:
				t.Fatalf("%q and %q wait for nothing", one, two)
			}
		}
	})
}

// FuzzJudge judges responses.
func FuzzJudge(f *testing.F) {
	f.Add(200, "application/json", []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`), true, int64(1), "")
	f.Add(404, "text/plain", []byte(`session`), true, int64(1), "7")
	f.Add(503, "", []byte(``), false, int64(0), "Sat, 28 Nov 2026 10:00:00 GMT")
	f.Fuzz(func(t *testing.T, status int, kind string, body []byte, session bool, id int64, after string) {
		r := httpReply{status: status, header: http.Header{"Content-Type": {kind}, "Retry-After": {after}}, body: body, session: session, id: id}
		message, failure := r.judge(time.Unix(1795860000, 0))
		switch {
		case failure != nil && (message != nil || failure.Why == "" || failure.Text == ""):
			t.Errorf("%d %q has %q and %v", status, body, message, failure)
		case failure == nil && message == nil && id != 0:
			t.Errorf("%d %q says nothing of a request", status, body)
		case failure != nil && (failure.After < 0 || failure.After > mostAfter || len(failure.Excerpt) > mostExcerpt*3+3):
			t.Errorf("the failure is %+v", failure)
		}
	})
}

// FuzzParams makes params for another connection.
func FuzzParams(f *testing.F) {
	f.Add([]byte(`{"name":"x","_meta":{"progressToken":1,"a":1.0},"b":1e400}`), true, int64(7))
	f.Add([]byte(`{"_meta":null}`), false, int64(0))
	f.Add([]byte(`{"\u005fmeta":{"progress\u0054oken":1}}`), true, int64(1))
	f.Add([]byte(`{}`), false, int64(0))
	f.Fuzz(func(t *testing.T, params []byte, modern bool, token int64) {
		if !isObject(params) {
			return
		}
		h := hop{revision: mcp.LatestLegacy, progress: token}
		if modern {
			h.revision = mcp.Latest
		}
		got := appendParams(nil, params, h)
		if !isObject(got) {
			t.Fatalf("%q becomes %q", params, got)
		}
		if a, b := others(params, false), others(got, false); !reflect.DeepEqual(a, b) {
			t.Errorf("%q becomes %q", params, got)
		}
		meta := codec.Field(got, "_meta")
		raw := codec.Field(meta, mcp.MetaProgressToken)
		if want := fmt.Sprint(token); token == 0 && raw != nil || token != 0 && string(raw) != want {
			t.Errorf("%q becomes %q", params, got)
		}
		if version := codec.Field(meta, mcp.MetaProtocolVersion); modern && !codec.SameString(version, mcp.Latest.String()) || !modern && version != nil {
			t.Errorf("%q becomes %q", params, got)
		}
		if a, b := others(firstMeta(params), true), others(meta, true); isObject(firstMeta(params)) && !reflect.DeepEqual(a, b) {
			t.Errorf("%q becomes %q: %q and %q", params, got, a, b)
		}
		if line := onOneLine(got); bytes.ContainsAny(line, "\r\n") || !codec.Valid(line) {
			t.Errorf("%q on one line is %q", got, line)
		}
	})
}

// firstMeta returns the first _meta of params, which is the one that counts.
func firstMeta(params []byte) []byte {
	for key, value := range codec.Members(params) {
		if sameKey(key, "_meta") {
			return value
		}
	}
	return nil
}

// others returns the members that are not made anew, in their order.
func others(object []byte, meta bool) (all []string) {
	for key, value := range codec.Members(object) {
		if meta && (hop{}).replaces(key) || !meta && sameKey(key, "_meta") {
			continue
		}
		if meta && strings.Contains(string(key), "logLevel") { // whether it stays depends on the era
			continue
		}
		all = append(all, string(key)+":"+string(value))
	}
	return all
}

// FuzzHeaders reads schemas and arguments of tools.
func FuzzHeaders(f *testing.F) {
	f.Add([]byte(`{"properties":{"a":{"type":"string","x-mcp-header":"R"},"b":{"properties":{"c":{"type":"integer","x-mcp-header":"N"}}}}}`), []byte(`{"a":"é\n","b":{"c":1.0}}`))
	f.Add([]byte(`{"items":{"x-mcp-header":"A"}}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, schema, arguments []byte) {
		if !codec.Valid(schema) || !codec.Valid(arguments) {
			return
		}
		params, err := HeaderParams(schema)
		if err != nil {
			return
		}
		for name, values := range ParamHeaders(params, arguments) {
			text, ok := codec.DecodeHeader(values[0])
			if len(values) != 1 || !ok || !isFieldName(name) {
				t.Errorf("%q with %q has %q: %q, %q", schema, arguments, name, values, text)
			}
		}
	})
}

// FuzzState reads records.
func FuzzState(f *testing.F) {
	s := State{Epoch: 1, Last: 7, Session: "s", Settled: Settled{Revision: mcp.LatestLegacy, Found: EraBoth, Supported: mcp.Revisions(), Result: []byte(legacyInit)},
		Requests: []Pending{{7, "m", "e"}}, Questions: [][]byte{[]byte(`"q"`)}}
	data, err := s.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := UnmarshalState(data)
		if err != nil {
			return
		}
		again, err := s.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := UnmarshalState(again); err != nil || !reflect.DeepEqual(got, s) {
			t.Errorf("%q becomes %q: %v", data, again, err)
		}
	})
}

// FuzzPipe reads lines.
func FuzzPipe(f *testing.F) {
	f.Add([]byte("a\r\n\nb\r"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p := NewPipe(bytes.NewReader(data), NewFeed(), func() error { return nil })
		defer p.Close()
		var got []string
		for {
			line, err := p.Receive()
			if err != nil {
				break
			}
			got = append(got, string(line))
		}
		var want []string
		for line := range strings.SplitAfterSeq(string(data), "\n") {
			if whole, ended := strings.CutSuffix(line, "\n"); ended {
				want = append(want, strings.TrimSuffix(whole, "\r"))
			} else if line != "" {
				want = append(want, line)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q has the lines %q, want %q", data, got, want)
		}
	})
}

// FuzzEndpoint resolves the endpoints of HTTP+SSE.
func FuzzEndpoint(f *testing.F) {
	for _, seed := range []string{"/m", "m?x", "//b", "http://a/x", "http://a@b", "\\\\b", "http:b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, endpoint string) {
		got, err := endpointOf("http://a/sse", endpoint)
		if err != nil {
			return
		}
		r, err := http.NewRequest(http.MethodPost, got, http.NoBody)
		if err != nil || !strings.EqualFold(r.URL.Hostname(), "a") || r.URL.Port() != "" && r.URL.Port() != "80" || r.URL.Scheme != "http" {
			t.Errorf("%q is %q: %v", endpoint, got, err)
		}
	})
}
