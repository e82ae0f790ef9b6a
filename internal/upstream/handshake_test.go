package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/bubble"
	"github.com/troupe-run/troupe/mcp"
)

const bothDiscover = `{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25","2030-01-01"],"capabilities":{}}`

// unsupported is an error that lists revisions.
func unsupported(m message, code int, supported string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"no","data":{"supported":%s,"requested":"x"}}}`, m.ID, code, supported)
}

// TestEra opens backends of all kinds over lines.
func TestEra(t *testing.T) {
	t.Parallel()
	refused := func(m message) string { return m.failure(mcp.CodeMethodNotFound, "what?") }
	initialized := func(m message) string { return m.result(legacyInit) }
	modern := func(m message) string { return m.result(modernDiscover) }
	none := func(message) string { return "" }
	text := func(s string) func(message) string { return func(message) string { return s } }
	result := func(s string) func(message) string { return func(m message) string { return m.result(s) } }
	once := func(first, then func(message) string) func(message) string {
		n := 0
		return func(m message) string {
			if n++; n == 1 {
				return first(m)
			}
			return then(m)
		}
	}
	after := func(d time.Duration, f func(message) string) func(message) string {
		return func(m message) string { return fmt.Sprint(d, "|", f(m)) }
	}
	for name, tt := range map[string]struct {
		o                    Options
		discover, initialize func(m message) string // "" for no answer, "5s|..." for a late one, "die" to end
		revision             mcp.Revision
		found                Era
		why                  Reason // of a Failure
		era                  Era    // of ReasonRestart
		came                 string
	}{
		"modern":                               {discover: modern, initialize: refused, revision: mcp.Latest, found: EraModern, came: "server/discover"},
		"legacy":                               {discover: refused, initialize: initialized, revision: mcp.LatestLegacy, found: EraLegacy, came: "server/discover, initialize, notifications/initialized"},
		"both":                                 {discover: result(bothDiscover), initialize: initialized, revision: mcp.Latest, found: EraBoth, came: "server/discover"},
		"both, and the older wanted":           {o: Options{Want: EraLegacy}, discover: result(bothDiscover), initialize: initialized, revision: mcp.LatestLegacy, found: EraBoth, came: "server/discover, initialize, notifications/initialized"},
		"both, by one process either":          {o: Options{Want: EraLegacy}, discover: result(bothDiscover), initialize: refused, why: ReasonRestart, era: EraBoth, came: "server/discover, initialize"},
		"modern, and the older wanted":         {o: Options{Want: EraLegacy}, discover: modern, initialize: refused, revision: mcp.Latest, found: EraModern, came: "server/discover, initialize"},
		"modern, and the older wanted in vain": {o: Options{Want: EraLegacy}, discover: modern, initialize: none, revision: mcp.Latest, found: EraModern, came: "server/discover, initialize"},
		"modern, and another revision of the older":     {o: Options{Want: EraLegacy}, discover: modern, initialize: func(m message) string { return unsupported(m, mcp.CodeUnsupportedVersion, `["2026-07-28"]`) }, revision: mcp.Latest, found: EraModern, came: "server/discover, initialize"},
		"modern, and dies of the older":                 {o: Options{Want: EraLegacy}, discover: modern, initialize: text("die"), why: ReasonRestart, era: EraModern},
		"modern by its list alone":                      {o: Options{Want: EraLegacy}, discover: modern, initialize: initialized, revision: mcp.LatestLegacy, found: EraBoth, came: "server/discover, initialize, notifications/initialized"},
		"modern by its late list alone":                 {o: Options{Want: EraLegacy}, discover: after(5*time.Second, modern), initialize: after(4*time.Second, initialized), revision: mcp.LatestLegacy, found: EraBoth, came: "server/discover, initialize, notifications/initialized"},
		"modern and late, and the older wanted in vain": {o: Options{Want: EraLegacy}, discover: after(5*time.Second, modern), initialize: none, revision: mcp.Latest, found: EraModern, came: "server/discover, initialize"},
		"pinned modern, and the older wanted":           {o: Options{Known: EraModern, Pinned: true, Want: EraLegacy}, discover: modern, initialize: initialized, revision: mcp.Latest, found: EraModern, came: "server/discover"},
		"legacy by its list":                            {discover: result(`{"supportedVersions":["2025-06-18","2024-11-05"]}`), initialize: result(strings.Replace(legacyInit, "2025-11-25", "2025-06-18", 1)), revision: mcp.Revision20250618, found: EraLegacy, came: "server/discover, initialize, notifications/initialized"},
		"legacy by its error":                           {discover: func(m message) string { return unsupported(m, mcp.CodeUnsupportedVersion, `["2025-11-25"]`) }, initialize: initialized, revision: mcp.LatestLegacy, found: EraLegacy, came: "server/discover, initialize, notifications/initialized"},
		"refuses what it lists, once":                   {discover: once(func(m message) string { return unsupported(m, mcp.CodeUnsupportedVersion, `["2026-07-28"]`) }, modern), revision: mcp.Latest, found: EraModern, came: "server/discover, server/discover"},
		"refuses what it lists":                         {discover: func(m message) string { return unsupported(m, mcp.CodeUnsupportedVersion, `["2026-07-28"]`) }, why: ReasonEra, came: "server/discover, server/discover"},
		"refuses what it lists, and speaks the older": {discover: func(m message) string {
			return unsupported(m, mcp.CodeUnsupportedVersion, `["2026-07-28","2025-11-25"]`)
		}, initialize: initialized, revision: mcp.LatestLegacy, found: EraLegacy},
		"a clean result says nothing":  {discover: result(`{}`), initialize: initialized, revision: mcp.LatestLegacy, found: EraUnknown, came: "server/discover, initialize, notifications/initialized"},
		"an empty list":                {discover: result(`{"supportedVersions":[]}`), initialize: initialized, revision: mcp.LatestLegacy, found: EraUnknown},
		"a list of numbers":            {discover: result(`{"supportedVersions":[1]}`), initialize: initialized, revision: mcp.LatestLegacy, found: EraUnknown},
		"a text for a list":            {discover: result(`{"supportedVersions":"2026-07-28"}`), initialize: initialized, revision: mcp.LatestLegacy, found: EraUnknown},
		"input required":               {discover: result(`{"resultType":"input_required","supportedVersions":["2026-07-28"]}`), initialize: initialized, revision: mcp.LatestLegacy, found: EraUnknown},
		"half an answer":               {discover: func(m message) string { s := m.result(modernDiscover); return s[:len(s)-9] }, initialize: initialized, revision: mcp.LatestLegacy, found: EraUnknown},
		"an answer that is no object":  {discover: result(`7`), initialize: initialized, revision: mcp.LatestLegacy, found: EraUnknown},
		"an error without an id":       {discover: text(`{"jsonrpc":"2.0","error":{"code":-32600,"message":"x"}}`), initialize: initialized, revision: mcp.LatestLegacy, found: EraLegacy},
		"silence":                      {discover: none, initialize: initialized, revision: mcp.LatestLegacy, found: EraUnknown, came: "server/discover, initialize, notifications/initialized"},
		"a late refusal":               {discover: after(10*time.Second, refused), initialize: after(20*time.Second, initialized), revision: mcp.LatestLegacy, found: EraLegacy},
		"a refusal after initialize":   {discover: after(20*time.Second, refused), initialize: after(10*time.Second, initialized), revision: mcp.LatestLegacy, found: EraUnknown},
		"a late list":                  {discover: after(10*time.Second, modern), initialize: after(20*time.Second, refused), why: ReasonRestart, era: EraModern},
		"a list after initialize":      {discover: after(20*time.Second, modern), initialize: after(10*time.Second, initialized), revision: mcp.LatestLegacy, found: EraUnknown},
		"a list after a refusal":       {discover: after(20*time.Second, modern), initialize: after(10*time.Second, refused), revision: mcp.Latest, found: EraModern},
		"silence and a refusal":        {discover: none, initialize: refused, why: ReasonSilent},
		"refusals":                     {discover: refused, initialize: refused, why: ReasonRefused},
		"late refusals":                {discover: after(20*time.Second, refused), initialize: refused, why: ReasonRefused},
		"nothing":                      {discover: none, initialize: none, why: ReasonSilent},
		"after the deadline":           {discover: none, initialize: after(time.Minute, initialized), why: ReasonSilent},
		"dies at the probe":            {discover: text("die"), initialize: initialized, why: ReasonRestart, era: EraLegacy},
		"dies at initialize":           {discover: refused, initialize: text("die"), why: ReasonEnded},
		"revisions of the future":      {discover: result(`{"supportedVersions":["2031-01-01"]}`), why: ReasonEra, came: "server/discover"},
		"only revisions of the future": {discover: func(m message) string { return unsupported(m, mcp.CodeUnsupportedVersion, `["2031-01-01"]`) }, why: ReasonEra, came: "server/discover"},
		"headers that do not match":    {discover: func(m message) string { return m.failure(mcp.CodeHeaderMismatch, "x") }, why: ReasonRefused, came: "server/discover"},
		"an unknown revision":          {discover: refused, initialize: result(strings.Replace(legacyInit, "2025-11-25", "1999-01-01", 1)), why: ReasonEra},
		"initialize of the newer era":  {discover: refused, initialize: result(strings.Replace(legacyInit, "2025-11-25", "2026-07-28", 1)), why: ReasonEra},
		"no revision":                  {discover: refused, initialize: result(`{}`), why: ReasonMalformed},
		"capabilities of wrong type":   {discover: refused, initialize: result(`{"protocolVersion":"2025-11-25","capabilities":[]}`), why: ReasonMalformed},
		"others of wrong type":         {discover: refused, initialize: result(`{"protocolVersion":"2025-11-25","capabilities":null,"serverInfo":1,"instructions":[]}`), revision: mcp.LatestLegacy, found: EraLegacy},
		"another revision": {discover: refused, initialize: func(m message) string {
			if strings.Contains(m.Raw, "2025-11-25") {
				return unsupported(m, mcp.CodeInvalidParams, `["2024-11-05","2025-03-26"]`)
			}
			return m.result(strings.Replace(legacyInit, "2025-11-25", "2025-03-26", 1))
		}, revision: mcp.Revision20250326, found: EraLegacy, came: "server/discover, initialize, initialize, notifications/initialized"},

		"remembered legacy":           {o: Options{Known: EraLegacy}, initialize: initialized, revision: mcp.LatestLegacy, found: EraLegacy, came: "initialize, notifications/initialized"},
		"remembered modern":           {o: Options{Known: EraModern}, discover: modern, revision: mcp.Latest, found: EraModern, came: "server/discover"},
		"remembered both":             {o: Options{Known: EraBoth, Want: EraLegacy}, initialize: initialized, revision: mcp.LatestLegacy, found: EraBoth, came: "initialize, notifications/initialized"},
		"no longer legacy":            {o: Options{Known: EraLegacy}, initialize: refused, why: ReasonRestart, era: EraUnknown, came: "initialize"},
		"no longer legacy, by a list": {o: Options{Known: EraLegacy}, initialize: func(m message) string { return unsupported(m, mcp.CodeUnsupportedVersion, `["2026-07-28"]`) }, why: ReasonRestart, era: EraModern, came: "initialize"},
		"remembered modern, and slow": {o: Options{Known: EraModern}, discover: after(50*time.Second, modern), revision: mcp.Latest, found: EraModern, came: "server/discover"},
		"no longer modern":            {o: Options{Known: EraModern}, discover: refused, initialize: initialized, revision: mcp.LatestLegacy, found: EraLegacy},
		"pinned legacy":               {o: Options{Known: EraLegacy, Pinned: true}, initialize: refused, why: ReasonRefused, came: "initialize"},
		"pinned modern":               {o: Options{Known: EraModern, Pinned: true}, discover: refused, why: ReasonEra, came: "server/discover"},
		"pinned modern, and slow":     {o: Options{Known: EraModern, Pinned: true}, discover: after(50*time.Second, modern), revision: mcp.Latest, found: EraModern, came: "server/discover"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble.Test(t, func(t *testing.T) {
				p, process := newPeer(t, func(p *peer, m message) {
					var answer string
					switch m.Method {
					case mcp.MethodServerDiscover:
						answer = tt.discover(m)
					case mcp.MethodInitialize:
						answer = tt.initialize(m)
					case mcp.MethodToolsList:
						answer = m.result(`{}`)
					}
					if d, text, late := strings.Cut(answer, "|"); late {
						d, _ := time.ParseDuration(d)
						time.AfterFunc(d, func() { p.say(text) })
					} else if answer == "die" {
						_ = p.out.Close()
					} else if answer != "" {
						p.say(answer)
					}
				})
				c, err := Open(minute(t), NewLines(process), tt.o)
				time.Sleep(time.Minute) // what is late comes
				synctest.Wait()
				came := strings.Join(p.methods(), ", ")
				if tt.came != "" && came != tt.came {
					t.Errorf("it got %s, want %s", came, tt.came)
				}
				if tt.why != "" {
					f, _ := errors.AsType[*Failure](err)
					if f == nil || f.Why != tt.why || f.Era != tt.era {
						t.Fatalf("it has %+v, want %s", err, tt.why)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close(context.Background())
				s := c.Settled()
				if s.Revision != tt.revision || s.Found != tt.found {
					t.Errorf("settled on %v of %v, want %v of %v", s.Revision, s.Found, tt.revision, tt.found)
				}
				if _, err := c.Do(minute(t), Request{Method: mcp.MethodToolsList}); err != nil {
					t.Error(err)
				}
				if err := c.Ping(minute(t)); tt.revision.Stateless() && err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestEraOverHTTP opens backends of all kinds over HTTP.
func TestEraOverHTTP(t *testing.T) {
	t.Parallel()
	status := func(status int, body string) func(w http.ResponseWriter, m message) {
		return func(w http.ResponseWriter, m message) {
			respond(w, status, strings.ReplaceAll(body, "ID", string(m.ID)))
		}
	}
	hang := func(w http.ResponseWriter, _ message) { time.Sleep(30 * time.Second); w.WriteHeader(504) }
	initialized := status(200, `{"jsonrpc":"2.0","id":ID,"result":`+legacyInit+`}`)
	modern := status(200, `{"jsonrpc":"2.0","id":ID,"result":`+modernDiscover+`}`)
	for name, tt := range map[string]struct {
		discover, initialize func(w http.ResponseWriter, m message)
		o                    Options
		revision             mcp.Revision
		found                Era
		why                  Reason
	}{
		"modern":                  {discover: modern, revision: mcp.Latest, found: EraModern},
		"a page":                  {discover: status(404, "<html>"), initialize: initialized, revision: mcp.LatestLegacy, found: EraLegacy},
		"no such method":          {discover: status(405, ""), initialize: initialized, revision: mcp.LatestLegacy, found: EraLegacy},
		"bad request":             {discover: status(400, ""), initialize: initialized, revision: mcp.LatestLegacy, found: EraLegacy},
		"bad request by an error": {discover: status(400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no session"}}`), initialize: status(200, `{"jsonrpc":"2.0","id":ID,"result":`+legacyInit+`}`), revision: mcp.LatestLegacy},
		"method not found":        {discover: status(200, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"x"}}`), initialize: initialized, revision: mcp.LatestLegacy, found: EraLegacy},
		"another revision":        {discover: status(400, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32022,"message":"x","data":{"supported":["2031-01-01"]}}}`), why: ReasonEra},
		"headers":                 {discover: status(400, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32020,"message":"x"}}`), why: ReasonRefused},
		"breaks":                  {discover: status(500, "oops"), initialize: initialized, revision: mcp.LatestLegacy, found: EraUnknown},
		"a proxy":                 {discover: status(502, "oops"), why: ReasonStatus},
		"credentials":             {discover: status(401, ""), why: ReasonCredentials},
		"busy":                    {discover: status(503, ""), why: ReasonBusy},
		"elsewhere":               {discover: status(301, ""), why: ReasonRedirected},
		"silence":                 {discover: hang, initialize: initialized, revision: mcp.LatestLegacy, found: EraUnknown},
		"no longer legacy":        {o: Options{Known: EraLegacy}, initialize: status(400, ""), discover: modern, revision: mcp.Latest, found: EraModern},
		"a session id of spaces": {discover: status(400, ""), initialize: func(w http.ResponseWriter, m message) {
			w.Header()["Mcp-Session-Id"] = []string{strings.Repeat("s", MostToken+1)}
			initialized(w, m)
		}, why: ReasonMalformed},
		"answers both late": {discover: func(w http.ResponseWriter, m message) {
			time.Sleep(5 * time.Second)
			modern(w, m)
		}, initialize: hang, revision: mcp.Latest, found: EraModern},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble.Test(t, func(t *testing.T) {
				_, h := serveHTTP(t, func(w http.ResponseWriter, r *http.Request, m message) {
					switch m.Method {
					case mcp.MethodServerDiscover:
						tt.discover(w, m)
					case mcp.MethodInitialize:
						tt.initialize(w, m)
					default:
						w.WriteHeader(202)
					}
				})
				c, err := Open(minute(t), NewHTTP(h), tt.o)
				if tt.why != "" {
					f, _ := errors.AsType[*Failure](err)
					if f == nil || f.Why != tt.why {
						t.Fatalf("it has %+v, want %s", err, tt.why)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close(context.Background())
				want := tt.found
				if name == "bad request by an error" {
					want = EraLegacy
				}
				if s := c.Settled(); s.Revision != tt.revision || s.Found != want {
					t.Errorf("settled on %v of %v, want %v of %v", s.Revision, s.Found, tt.revision, want)
				}
			})
		})
	}
}

// TestSecondInitialize offers another revision, without the session of the first.
func TestSecondInitialize(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		s, c := openHTTP(t, Options{}, politely(EraLegacy, func(http.ResponseWriter, *http.Request, message) {}))
		c.Close(t.Context())
		n := 0
		s.handle = func(w http.ResponseWriter, r *http.Request, m message) {
			switch {
			case m.Method == mcp.MethodInitialize:
				if n++; r.Header.Get("Mcp-Session-Id") != "" {
					t.Error("initialize names a session")
				}
				w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", n))
				if n == 1 {
					respond(w, 200, unsupported(m, mcp.CodeInvalidParams, `["2025-03-26"]`))
					return
				}
				respond(w, 200, m.result(strings.Replace(legacyInit, "2025-11-25", "2025-03-26", 1)))
			default:
				politely(EraLegacy, func(http.ResponseWriter, *http.Request, message) {})(w, r, m)
			}
		}
		again, err := Open(minute(t), NewHTTP(c.link.(*HTTP).o), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close(context.Background())
		checkNext(t, again, false)
		if head, _ := s.sent(mcp.MethodPromptsList); head.Get("Mcp-Session-Id") != "s2" || head.Get("Mcp-Protocol-Version") != "" {
			t.Errorf("it was sent %v", head)
		}
	})
}

// TestStart starts a process again that was spoken to in the wrong era.
func TestStart(t *testing.T) {
	t.Parallel()
	refuse := func(m message) string { return m.failure(mcp.CodeMethodNotFound, "what?") }
	for name, tt := range map[string]struct {
		handle func(p *peer, m message)
		known  Era
		starts int
		found  Era
		why    Reason
	}{
		"at once": {polite(EraModern, nil), EraUnknown, 1, EraModern, ""},
		"a slow one of the newer era": {func(p *peer, m message) {
			switch m.Method {
			case mcp.MethodServerDiscover:
				time.AfterFunc(5*time.Second, func() { p.say(m.result(modernDiscover)) })
			case mcp.MethodInitialize:
				time.AfterFunc(5*time.Second, func() { p.say(refuse(m)) })
			default:
				polite(EraModern, nil)(p, m)
			}
		}, EraUnknown, 2, EraModern, ""},
		"dies at the probe": {func(p *peer, m message) {
			if m.Method == mcp.MethodServerDiscover {
				_ = p.out.Close()
				return
			}
			polite(EraLegacy, nil)(p, m)
		}, EraUnknown, 2, EraLegacy, ""},
		"dies at everything": {func(p *peer, m message) { _ = p.out.Close() }, EraUnknown, 2, 0, ReasonEnded},
		"no longer legacy": {func(p *peer, m message) {
			if m.Method == mcp.MethodInitialize {
				p.say(refuse(m))
				return
			}
			polite(EraModern, nil)(p, m)
		}, EraLegacy, 2, EraModern, ""},
		"neither": {func(p *peer, m message) {
			if m.Method == mcp.MethodServerDiscover {
				_ = p.out.Close()
				return
			}
			p.say(refuse(m))
		}, EraUnknown, mostStarts, 0, ReasonRestart},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble.Test(t, func(t *testing.T) {
				starts := 0
				c, err := Start(minute(t), func(context.Context) (Link, error) {
					starts++
					_, process := newPeer(t, tt.handle)
					return NewLines(process), nil
				}, Options{Known: tt.known})
				if starts != tt.starts {
					t.Errorf("%d starts, want %d", starts, tt.starts)
				}
				if tt.why != "" {
					if f, _ := errors.AsType[*Failure](err); f == nil || f.Why != tt.why {
						t.Errorf("it has %v, want %s", err, tt.why)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close(context.Background())
				if got := c.Settled().Found; got != tt.found {
					t.Errorf("found %v, want %v", got, tt.found)
				}
				checkNext(t, c, false)
			})
		})
	}
}

// TestSettled checks what is known of a backend after the handshake.
func TestSettled(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		const more = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{ "x":1.0}},"serverInfo":{"name":"peer","version":"1","more":1e400},"instructions":"a\u0041"}`
		p, c := openLines(t, Options{ClientInfo: []byte(`{"name":"x","version":"2","more":1.0}`), Capabilities: []byte(`{"roots":{"listChanged":true}}`)}, func(p *peer, m message) {
			if m.Method == mcp.MethodInitialize {
				p.say(m.result(more))
				return
			}
			polite(EraLegacy, nil)(p, m)
		})
		s := c.Settled()
		if string(s.Capabilities) != `{"tools":{ "x":1.0}}` || string(s.ServerInfo) != `{"name":"peer","version":"1","more":1e400}` || string(s.Instructions) != `"a\u0041"` || string(s.Result) != more {
			t.Errorf("settled on %s, %s, %s, %s", s.Capabilities, s.ServerInfo, s.Instructions, s.Result)
		}
		want := `{"protocolVersion":"2025-11-25","capabilities":{"roots":{"listChanged":true}},"clientInfo":{"name":"x","version":"2","more":1.0}}`
		if got := string(p.last(mcp.MethodInitialize).Params); got != want {
			t.Errorf("it was told %s, want %s", got, want)
		}
		if slices.Contains(p.methods(), mcp.NotifyCancelled) {
			t.Error("the handshake was cancelled")
		}
		synctest.Wait()
	})
}
