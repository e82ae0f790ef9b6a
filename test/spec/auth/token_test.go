package auth_test

import (
	"bufio"
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/issuer"
)

// way is a request that needs a token.
type way struct {
	name     string
	resource string
	send     func(c *kit.Client) *kit.Answer
}

var ways = []way{
	{"session", resource, func(c *kit.Client) *kit.Answer {
		return c.Post(initialize)
	}},
	{"stateless", resource, func(c *kit.Client) *kit.Answer {
		return c.Post(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
			"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list")
	}},
	{"GET", resource, func(c *kit.Client) *kit.Answer { return c.Get("") }},
	{"DELETE", resource, func(c *kit.Client) *kit.Answer { return c.Do("DELETE", "") }},
	{"HTTP+SSE", older, func(c *kit.Client) *kit.Answer {
		c.URL = strings.TrimSuffix(c.URL, "/mcp") + "/sse"
		return c.Do("GET", "", "Accept", "text/event-stream")
	}},
	{"a message of HTTP+SSE", older, func(c *kit.Client) *kit.Answer {
		c.URL = strings.TrimSuffix(c.URL, "/mcp") + "/messages?sessionId=none"
		return c.Post(listTools)
	}},
}

// weak is an RSA key that is too short, and its JWK.
func weak() (*rsa.PrivateKey, any) {
	k, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		panic(err)
	}
	b64 := base64.RawURLEncoding.EncodeToString
	return k, map[string]any{"kty": "RSA", "use": "sig", "kid": "weak", "n": b64(k.N.Bytes()), "e": b64(big.NewInt(int64(k.E)).Bytes())}
}

// tokenRow is a token, or another form of credentials, and how it is refused. An empty code and reason of status 200 is one that counts.
type tokenRow struct {
	name          string
	authorization func(aud string) []string
	status        int
	code, reason  string
}

// refused is a row of a token that does not count.
func refused(name, reason string, token func(aud string) string) tokenRow {
	return tokenRow{name, func(aud string) []string { return []string{"Bearer " + token(aud)} }, 401, "invalid_token", reason}
}

// tokenRows are what the issue of tokens must not let in. The issuer's keys must have been fetched half a minute after the tokens of old were issued.
func tokenRows(t *testing.T, id, other *issuer.Issuer) (rows []tokenRow) {
	t.Helper()
	weakKey, weakJWK := weak()
	id.Publish(id.Key("1"), id.Key("2"), weakJWK)
	// A token that was issued long before the keys were fetched is refused at once if its key is not among them: the issuer had it.
	old := issuer.Claims{"iat": time.Now().Add(-10 * time.Minute).Unix()}
	claims := func(more issuer.Claims) func(string) string {
		return func(aud string) string {
			all := issuer.Claims{"aud": aud}
			for name, v := range more {
				all[name] = v
			}
			return id.Token("alice", aud, all)
		}
	}
	header := func(more issuer.Claims) func(string) string {
		return func(aud string) string { return id.Signed(issuer.Header(more), id.Claims("alice", aud, old)) }
	}
	text := func(change func(claims string) string) func(string) string {
		return func(aud string) string {
			data, err := json.Marshal(id.Claims("alice", aud, nil))
			if err != nil {
				t.Fatal(err)
			}
			return id.SignedText(change(string(data)))
		}
	}
	hash := func(k *rsa.PrivateKey) func([]byte) []byte {
		return func(text []byte) []byte {
			sum := sha256.Sum256(text)
			signature, err := rsa.SignPKCS1v15(rand.Reader, k, crypto.SHA256, sum[:])
			if err != nil {
				t.Fatal(err)
			}
			return signature
		}
	}
	signed := func(header string, sign func([]byte) []byte) func(string) string {
		return func(aud string) string {
			data, err := json.Marshal(id.Claims("alice", aud, old))
			if err != nil {
				t.Fatal(err)
			}
			return issuer.Compact(header, string(data), sign)
		}
	}
	parts := func(change func(p []string, aud string)) func(string) string {
		return func(aud string) string {
			p := strings.Split(id.Token("alice", aud, nil), ".")
			change(p, aud)
			return strings.Join(p, ".")
		}
	}
	own := func(values ...string) func(string) []string { return func(string) []string { return values } }
	with := func(form string) func(string) []string {
		return func(aud string) []string {
			return []string{strings.ReplaceAll(form, "TOKEN", id.Token("alice", aud, nil))}
		}
	}
	return []tokenRow{
		{"good", with("Bearer TOKEN"), 200, "", ""},
		{"bearer in lower case", with("bearer TOKEN"), 200, "", ""},
		{"kid absent", func(aud string) []string { return []string{"Bearer " + header(issuer.Claims{"kid": nil})(aud)} }, 200, "", ""},
		{"typ JWT", func(aud string) []string { return []string{"Bearer " + header(issuer.Claims{"typ": "JWT"})(aud)} }, 200, "", ""},

		{"no credentials", own(), 401, "", "missing"},
		{"Basic", own("Basic YTpi"), 401, "", "missing"},
		{"two headers", func(aud string) []string { return append(with("Bearer TOKEN")(aud), with("Bearer TOKEN")(aud)...) }, 400, "invalid_request", "request"},
		{"two headers of two schemes", func(aud string) []string { return append(with("Bearer TOKEN")(aud), "Basic YTpi") }, 400, "invalid_request", "request"},
		{"two tokens", with("Bearer TOKEN, Bearer TOKEN"), 400, "invalid_request", "request"},
		{"no token", own("Bearer"), 400, "invalid_request", "request"},
		{"a tab in it", with("Bearer TOK\tEN"), 400, "invalid_request", "request"},
		{"what is no token", own("Bearer <x>"), 401, "invalid_token", "malformed"},
		{"over 16 KiB", own("Bearer " + strings.Repeat("x", 16<<10+1)), 401, "invalid_token", "malformed"},
		{"opaque", own("Bearer abc"), 401, "invalid_token", "malformed"},

		refused("alg none", "algorithm", signed(`{"alg":"none"}`, func([]byte) []byte { return nil })),
		refused("alg none, signed", "algorithm", header(issuer.Claims{"alg": "none"})),
		refused("HS256 with the public key", "algorithm", signed(`{"alg":"HS256","kid":"weak"}`, func(text []byte) []byte {
			der, err := x509.MarshalPKIXPublicKey(&weakKey.PublicKey)
			if err != nil {
				t.Fatal(err)
			}
			h := hmac.New(sha256.New, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
			h.Write(text)
			return h.Sum(nil)
		})),
		refused("RSA of 1,024 bits", "key", signed(`{"alg":"RS256","kid":"weak"}`, hash(weakKey))),
		refused("signature stripped", "signature", parts(func(p []string, _ string) { p[2] = "" })),
		refused("signature swapped", "signature", parts(func(p []string, aud string) { p[2] = strings.Split(id.Token("bob", aud, nil), ".")[2] })),
		refused("claims swapped", "signature", parts(func(p []string, aud string) { p[1] = strings.Split(id.Token("bob", aud, nil), ".")[1] })),
		refused("kid of the wrong key", "signature", func(aud string) string {
			p := strings.Split(id.Token("alice", aud, nil), ".")
			return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"EdDSA","kid":"2"}`)) + "." + p[1] + "." + p[2]
		}),
		refused("kid unknown", "key", header(issuer.Claims{"kid": "gone"})),
		refused("kid of another issuer", "key", func(aud string) string {
			return other.Signed(issuer.Header(issuer.Claims{"kid": "of-another"}), id.Claims("alice", aud, old))
		}),
		refused("signed by another issuer", "signature", func(aud string) string { return other.Signed(issuer.Header(nil), id.Claims("alice", aud, nil)) }),
		refused("kid of 10 KB", "malformed", header(issuer.Claims{"kid": strings.Repeat("k", 10_000)})),
		refused("kid is a path", "key", header(issuer.Claims{"kid": "../../../../dev/null"})),
		refused("jwk", "header", header(issuer.Claims{"kid": "evil", "jwk": id.Key("evil")})),
		refused("jku", "header", header(issuer.Claims{"jku": other.URL + "/keys"})),
		refused("x5u", "header", header(issuer.Claims{"x5u": other.URL + "/keys"})),
		refused("crit", "header", header(issuer.Claims{"crit": []string{"exp"}})),
		refused("encrypted", "encrypted", func(string) string {
			return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RSA-OAEP","enc":"A256GCM"}`)) + ".a.b.c.d"
		}),
		refused("a header of encryption", "encrypted", header(issuer.Claims{"enc": "A256GCM"})),
		refused("ID-JAG", "type", header(issuer.Claims{"typ": "oauth-id-jag+jwt"})),
		refused("DPoP proof", "type", header(issuer.Claims{"typ": "dpop+jwt"})),

		refused("claim twice", "malformed", text(func(s string) string { return `{"sub":"bob",` + s[1:] })),
		refused("audience twice", "malformed", text(func(s string) string { return `{"aud":"https://else.example.com",` + s[1:] })),
		refused("claim twice, once escaped", "malformed", text(func(s string) string { return `{"s\u0075b":"bob",` + s[1:] })),
		refused("deep", "malformed", text(func(s string) string {
			return `{"x":` + strings.Repeat("[", 4000) + strings.Repeat("]", 4000) + "," + s[1:]
		})),
		refused("deep, and never closed", "malformed", text(func(string) string { return strings.Repeat("[", 11_000) })),
		refused("huge", "malformed", claims(issuer.Claims{"x": strings.Repeat("x", 13_000)})),
		refused("a huge number", "malformed", text(func(s string) string { return strings.Replace(s, `"exp":`, `"exp":`+strings.Repeat("9", 10_000), 1) })),
		refused("claims are no object", "malformed", text(func(s string) string { return "[" + s + "]" })),

		refused("exp missing", "expired", claims(issuer.Claims{"exp": nil})),
		refused("exp past", "expired", claims(issuer.Claims{"exp": time.Now().Add(-time.Minute).Unix()})),
		refused("exp a string", "malformed", claims(issuer.Claims{"exp": fmt.Sprint(time.Now().Add(time.Hour).Unix())})),
		refused("exp 1e300", "malformed", claims(issuer.Claims{"exp": json.RawMessage("1e300")})),
		refused("nbf ahead", "early", claims(issuer.Claims{"nbf": time.Now().Add(time.Hour).Unix()})),
		refused("iat ahead", "early", claims(issuer.Claims{"iat": time.Now().Add(time.Hour).Unix()})),
		refused("iss with a slash more", "issuer", claims(issuer.Claims{"iss": id.URL + "/"})),
		refused("iss missing", "issuer", claims(issuer.Claims{"iss": nil})),
		refused("another issuer", "issuer", func(aud string) string { return other.Token("alice", aud, nil) }),
		refused("aud missing", "audience", claims(issuer.Claims{"aud": nil})),
		refused("aud is another mount", "audience", claims(issuer.Claims{"aud": public + "/second/mcp"})),
		refused("aud is the other transport", "audience", func(aud string) string {
			return id.Token("alice", map[string]string{resource: older, older: resource}[aud], nil)
		}),
		refused("aud by a prefix", "audience", func(aud string) string { return id.Token("alice", aud+"/more", nil) }),
		refused("aud is a prefix", "audience", func(aud string) string { return id.Token("alice", aud[:len(aud)-1], nil) }),
		refused("aud is the origin", "audience", claims(issuer.Claims{"aud": public})),
		refused("an ID token", "id-token", claims(issuer.Claims{"nonce": "x"})),
		refused("an ID token of Cognito", "id-token", claims(issuer.Claims{"token_use": "id"})),
		refused("bound and not proven", "bound", claims(issuer.Claims{"cnf": map[string]any{"jkt": "x"}})),
		refused("of nobody", "subject", claims(issuer.Claims{"sub": nil, "client_id": nil})),
	}
}

// TestTokens has a row for each token and each form of credentials: its status, its challenge, its count, and what is logged, for each kind of request.
func TestTokens(t *testing.T) {
	t.Parallel()
	d, other := newDoor(t), issuer.New(t)
	d.Runtime.Mount("/second/mcp", troupe.NewServer(mcp.Implementation{Name: "second", Version: "1"}, nil))
	rows := tokenRows(t, d.id, other)
	d.user("alice") // the keys are known from here on
	var said challenges
	for _, row := range rows {
		for _, w := range ways {
			c := d.Unchecked()
			if values := row.authorization(w.resource); len(values) > 0 {
				c.Header = http.Header{"Authorization": values}
			}
			at := row.name + ", " + w.name
			label := "auth-" + row.reason
			before := d.Refused(label)
			a := w.send(c)
			if a.Stream() {
				a.Close()
			}
			got := challenge(t, a.Header)
			if row.status == 200 {
				if got != nil || a.StatusCode == 401 || a.StatusCode == 403 || a.StatusCode == 503 {
					t.Errorf("%s: %s %s", at, a.Status, a.Body)
				}
				continue
			}
			if a.StatusCode != row.status {
				t.Errorf("%s: %s %s, want %d", at, a.Status, a.Body, row.status)
			}
			want := map[string]string{"resource_metadata": where, "scope": "files:read"}
			if w.resource == older {
				want["resource_metadata"] = public + "/.well-known/oauth-protected-resource/sse"
			}
			if row.code != "" {
				want["error"], want["error_description"] = row.code, got["error_description"]
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: the challenge is %v, want %v", at, got, want)
			}
			if d.Refused(label) != before+1 {
				t.Errorf("%s: %s is not counted", at, label)
			}
			isRefusal(t, at, a)
			if text := strings.ReplaceAll(row.reason, "-", "_"); !strings.Contains(d.log.String(), "because of its access token: "+text) {
				t.Errorf("%s: nothing is logged", at)
			}
			said.add(a, row.reason, "files:read")
		}
	}
	if text := d.log.String(); strings.Contains(text, "eyJ") || !strings.Contains(text, `"unverified":{"aud":"\"`+public+`/second/mcp\"","want":["`+resource+`"]`) {
		t.Errorf("the log has a token, or not the audience that did not fit: %s", text)
	}
	said.compare(t, "tokens")
}

// TestNoCredentialElsewhere puts a good token where none can be: it is as if there were none, and is not logged.
func TestNoCredentialElsewhere(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	good := d.id.Token("alice", resource, nil)
	if a := d.as(good).Post(listTools); a.StatusCode == 401 {
		t.Fatalf("the token does not count: %s", a.Body)
	}
	form := url.Values{"access_token": {good}}.Encode()
	for name, send := range map[string]func(c *kit.Client) *kit.Answer{
		"the query": func(c *kit.Client) *kit.Answer { c.URL += "?access_token=" + good; return c.Post(listTools) },
		"a form": func(c *kit.Client) *kit.Answer {
			return c.Post(form, "Content-Type", "application/x-www-form-urlencoded")
		},
		"a form that is called JSON": func(c *kit.Client) *kit.Answer { return c.Post(form) },
		"a cookie":                   func(c *kit.Client) *kit.Answer { return c.Post(listTools, "Cookie", "access_token="+good) },
		"another header":             func(c *kit.Client) *kit.Answer { return c.Post(listTools, "X-Access-Token", "Bearer "+good) },
		"a header for proxies": func(c *kit.Client) *kit.Answer {
			return c.Post(listTools, "Proxy-Authorization", "Bearer "+good)
		},
		"a forwarded header": func(c *kit.Client) *kit.Answer {
			return c.Post(listTools, "X-Forwarded-Authorization", "Bearer "+good)
		},
		"the message": func(c *kit.Client) *kit.Answer {
			return c.Post(strings.Replace(listTools, "{", `{"access_token":"`+good+`",`, 1))
		},
	} {
		before := d.Refused("auth-missing")
		a := send(d.Unchecked())
		want := map[string]string{"resource_metadata": where, "scope": "files:read"}
		if got := challenge(t, a.Header); a.StatusCode != 401 || fmt.Sprint(got) != fmt.Sprint(want) || d.Refused("auth-missing") != before+1 {
			t.Errorf("%s: %s %v, %d counted", name, a.Status, got, d.Refused("auth-missing")-before)
		}
	}
	if strings.Contains(d.log.String(), good[:30]) {
		t.Errorf("the log has the token: %s", d.log.String())
	}
}

// TestControlCharacters sends them in the Authorization header. None of them gets to a handler, and the next connection is served.
func TestControlCharacters(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	good := d.id.Token("alice", resource, nil)
	address := strings.TrimSuffix(strings.TrimPrefix(d.URL, "http://"), "/mcp")
	for c := range 0x80 {
		if c >= 0x20 && c < 0x7f {
			continue
		}
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_, err = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s%c%s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n%s",
			address, good[:9], c, good[9:], len(listTools), listTools)
		if err != nil {
			t.Fatal(err)
		}
		a, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%#x: %v", c, err)
		}
		// A line feed ends the header, and what follows is none.
		if a.StatusCode != 400 {
			t.Errorf("%#x: %s", c, a.Status)
		}
		a.Body.Close()
		conn.Close()
	}
	if a := d.as(good).Post(listTools); a.StatusCode == 401 {
		t.Errorf("after them: %s", a.Status)
	}
}

// TestForgedHeaders says in every header that proxies set that the server is another: challenges and metadata have its public URL nevertheless.
func TestForgedHeaders(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	for name, value := range map[string]string{
		"X-Forwarded-Host": "evil.example.com", "X-Forwarded-Proto": "gopher", "X-Forwarded-Prefix": "/evil", "X-Forwarded-Port": "1", "Forwarded": "host=evil.example.com;proto=gopher", "X-Original-Host": "evil.example.com",
		"X-Original-URL": "/second/mcp", "X-Rewrite-URL": "/second/mcp", "X-Forwarded-Server": "evil.example.com",
	} {
		a := d.Unchecked().Post(listTools, name, value)
		if got := challenge(t, a.Header); a.StatusCode != 401 || got["resource_metadata"] != where {
			t.Errorf("%s: %s %v", name, a.Status, got)
		}
		for aud, want := range map[string]int{resource: 200, "https://evil.example.com/mcp": 401, public + "/evil/mcp": 401, public + "/second/mcp": 401} {
			c := d.as(d.id.Token("alice", aud, nil))
			if a := c.Post(initialize, name, value); a.StatusCode != want {
				t.Errorf("%s, a token for %s: %s, want %d", name, aud, a.Status, want)
			}
		}
	}
}
