package auth_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/issuer"
	"github.com/troupe-run/troupe/test/spec/host"
)

const (
	ofRequest = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	toListen  = `{"jsonrpc":"2.0","id":5,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + ofRequest + `}}`
)

// listen has a client listen for changes of the tools (2026-07-28).
func listen(c *kit.Client, header ...string) *kit.Answer {
	return c.Post(toListen, append(header, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen")...)
}

// opened is what somebody has opened.
type opened struct {
	name    string
	session *kit.Client
	streams map[string]*host.Listening
	calls   []<-chan string // the answers to those that nobody could resume
}

// open opens everything that can be open with a token, and with one for HTTP+SSE.
func (d *door) open(name, token, sse string) *opened {
	d.T.Helper()
	o := &opened{name: name, session: d.as(token).Initialize(`{}`)}
	call := o.session.Post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","arguments":{"to":60,"delay_ms":1000},"_meta":{"progressToken":"p"}}}`)
	s := d.as(sse).OpenSSE("/sse")
	s.Handshake("2025-03-26", `{}`)
	o.streams = map[string]*host.Listening{}
	for what, a := range map[string]*kit.Answer{"the standalone stream": o.session.Get(""), "the call's stream": call, "the listener": listen(d.as(token)), "HTTP+SSE": s.Stream} {
		if !a.Stream() {
			d.T.Fatalf("%s of %s: %s %s", what, name, a.Status, a.Body)
		}
		o.streams[what] = host.Listen(a)
	}
	const sleep = `{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"sleep","arguments":{"ms":60000}`
	for _, later := range []<-chan *kit.Answer{
		d.as(token).InitializeAs("2025-06-18", `{}`).PostLater(sleep + `}}`),
		d.as(token).PostLater(sleep+`,`+ofRequest+`}}`, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "sleep"),
	} {
		answer := make(chan string, 1)
		o.calls = append(o.calls, answer)
		go func() {
			if a := <-later; a.Stream() {
				answer <- fmt.Sprint(a.All())
			} else {
				answer <- a.Body
			}
		}()
	}
	return o
}

// expect fails the test unless all streams have ended, and the listener was told so, or with no reason none has.
func (o *opened) expect(t *testing.T, reason string) {
	t.Helper()
	for what, l := range o.streams {
		if got, ended := l.Now(); ended != (reason != "") {
			t.Errorf("%s of %s has ended: %v, after %q", what, o.name, ended, got)
		}
	}
	if told := told(o.streams["the listener"]); told != reason {
		t.Errorf("the listener of %s is told %q, want %q", o.name, told, reason)
	}
}

// told is the reason for which a listener was told that it ends.
func told(l *host.Listening) (reason string) {
	got, _ := l.Now()
	if i := slices.IndexFunc(got, func(m string) bool { return strings.Contains(m, "notifications/cancelled") }); i >= 0 {
		_, reason, _ = strings.Cut(got[i], `"reason":"`)
		reason, _, _ = strings.Cut(reason, `"`)
	}
	return reason
}

// answered closes the streams, and checks that each call which nobody could resume is answered.
func (o *opened) answered(t *testing.T) {
	t.Helper()
	for _, l := range o.streams {
		l.Close()
	}
	for _, answer := range o.calls {
		if got := <-answer; !strings.Contains(got, "slept") {
			t.Errorf("a call of %s that nobody could resume: %q", o.name, got)
		}
	}
}

// unreachable is a Transport that reaches no issuer.
type unreachable struct{}

func (unreachable) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("no route")
}

// forgetful is a KeyCache that keeps nothing.
type forgetful struct{}

func (forgetful) Load(context.Context, string) ([]byte, error) { return nil, nil }
func (forgetful) Store(context.Context, string, []byte) error  { return nil }

// TestSetAuthEndsStreams changes whose tokens count while streams are open. Those end at once whose tokens count no more, as if they had expired, and listeners are told whether
// another token could help. Sessions and calls go on, and so does everything of others.
func TestSetAuthEndsStreams(t *testing.T) {
	const replaced, fresh = "https://old.example.com", "https://new.example.com"
	signed := func(d *door, audience, scope string) string {
		return d.id.Token("alice", audience, issuer.Claims{"scope": scope})
	}
	for name, tt := range map[string]struct {
		tokens func(d *door) (own, sse string) // of alice; nil is for tokens of the first issuer
		change func(c *auth.Config)
		reason string               // why her listener ends
		status int                  // of her next request
		again  func(d *door) string // a token with which her session goes on

	}{
		"an issuer is removed": {change: func(c *auth.Config) { c.Issuers = c.Issuers[1:] }, reason: "revoked", status: 401},
		"an audience is removed": {
			tokens: func(d *door) (string, string) { return signed(d, replaced, "use"), signed(d, replaced, "use") },
			change: func(c *auth.Config) { c.Issuers[0].Audiences = []string{fresh} }, reason: "insufficient_authorization", status: 401,
			again: func(d *door) string { return signed(d, fresh, "use") },
		},
		"a scope does not imply any more what the server needs": {
			tokens: func(d *door) (string, string) { return signed(d, resource, "all"), signed(d, older, "all") },
			change: func(c *auth.Config) { c.Implies = nil }, reason: "insufficient_authorization", status: 403,
			again: func(d *door) string { return signed(d, resource, "all use") },
		},
		"API keys do not count any more": {
			tokens: func(d *door) (string, string) {
				_, secret, err := d.Runtime.APIKeys().Create(d.T.Context(), auth.APIKey{Name: "CI", Scopes: []string{"use"}})
				if err != nil {
					d.T.Fatal(err)
				}
				return secret, secret
			},
			change: func(c *auth.Config) { c.APIKeys = nil }, reason: "revoked", status: 401,
		},
		"something else changes":     {change: func(c *auth.Config) { c.Scopes = []string{"other"} }, status: 200},
		"no issuer can be asked now": {change: func(c *auth.Config) { c.Transport, c.Cache = unreachable{}, forgetful{} }, status: 503},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				settings := func(c *auth.Config) *auth.Config {
					c.Issuers[0].Audiences, c.Implies = []string{resource, older, replaced}, map[string][]string{"all": {"use"}}
					return c
				}
				var began auth.Config
				d, second := virtualDoorOf(t, &troupe.ServerOptions{Scopes: []string{"use"}}, func(o *troupe.Options) {
					o.Limits.PingEvery = -1
					began = *settings(o.Auth)
					began.Issuers = slices.Clone(began.Issuers)
				})
				own, sse := signed(d, resource, "use"), signed(d, older, "use")
				if tt.tokens != nil {
					own, sse = tt.tokens(d)
				}
				alice := d.open("alice", own, sse)
				bob := d.open("bob", second.Token("bob", resource, issuer.Claims{"scope": "use"}), second.Token("bob", older, issuer.Claims{"scope": "use"}))
				time.Sleep(3500 * time.Millisecond)
				alice.expect(t, "")
				tt.change(&began)
				if err := d.Runtime.SetAuth(&began); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Millisecond)
				alice.expect(t, tt.reason)
				time.Sleep(5 * time.Second)
				alice.expect(t, tt.reason)
				bob.expect(t, "")
				if logged := strings.Contains(d.log.String(), `"streams":4`); logged != (tt.reason != "") {
					t.Errorf("the log tells of the streams that have ended: %v", logged)
				}
				if a := alice.session.Post(listTools); a.StatusCode != tt.status {
					t.Errorf("her next request: %s %s", a.Status, a.Body)
				}
				if tt.again != nil {
					c := d.as(tt.again(d))
					c.Session = alice.session.Session
					if a := c.Post(listTools); a.StatusCode != 200 {
						t.Errorf("her session, with a token that counts: %s %s", a.Status, a.Body)
					}
				}
				alice.answered(t)
				bob.answered(t)
			})
		})
	}
}

// TestSetAuthEndsWhatHasJustBegun changes whose tokens count while the body of a request is on its way: what it opens ends a second later.
func TestSetAuthEndsWhatHasJustBegun(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		slow := &signalled{read: make(chan struct{}), begin: make(chan struct{})}
		d, second := virtualDoor(t, func(o *troupe.Options) {
			o.Middleware = func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("X-Slow") != "" {
						slow.ReadCloser = r.Body
						r.Body = slow
					}
					next.ServeHTTP(w, r)
				})
			}
		})
		answer := make(chan *kit.Answer)
		go func() { answer <- listen(d.as(d.id.Token("alice", resource, nil)), "X-Slow", "1") }()
		<-slow.read
		if err := d.Runtime.SetAuth(&auth.Config{Issuers: []auth.Issuer{{URL: second.URL}}, PublicURL: public, Transport: issuers{"jd.example.com": second}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
		close(slow.begin)
		a := <-answer
		if !a.Stream() {
			t.Fatalf("it is not let in: %s %s", a.Status, a.Body)
		}
		l := host.Listen(a)
		defer l.Close()
		time.Sleep(2 * time.Second)
		if got := told(l); got != "revoked" {
			t.Errorf("the listener is told %q", got)
		}
	})
}
