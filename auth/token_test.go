package auth

import (
	"bytes"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// all are the names of the keys of the issuer in the tables.
var all = []string{"a", "rsa", "rsa1024", "p384", "p521", "ed"}

// TestTokens has a row for each rule: what a token must be, and what it must not.
func TestTokens(t *testing.T) {
	signed := func(header, claims members) func() string {
		return func() string { return token("a", header, claims) }
	}
	by := func(name string, header members) func() string {
		return func() string { return token(name, header, nil) }
	}
	parts := func(change func(parts []string)) func() string {
		return func() string {
			p := strings.Split(token("a", nil, nil), ".")
			change(p)
			return strings.Join(p, ".")
		}
	}
	rawHeader := func(header string) func() string {
		return func() string {
			return rawToken(header, encoded(goodClaims()), func(text string) []byte { return pairs()["a"].sign("ES256", text) })
		}
	}
	rawClaims := func(change func(string) string) func() string {
		return func() string {
			p := pairs()["a"]
			return rawToken(encoded(p.header()), change(encoded(goodClaims())), func(text string) []byte { return p.sign("ES256", text) })
		}
	}
	rows := []struct {
		name  string
		token func() string
		want  string
	}{
		{"good", signed(nil, nil), "200"},

		// Algorithms and keys: RFC 8725, 3.1 and 3.2.
		{"RS256", by("rsa", nil), "200"},
		{"RS384", by("rsa", members{"alg": "RS384"}), "200"},
		{"RS512", by("rsa", members{"alg": "RS512"}), "200"},
		{"PS256", by("rsa", members{"alg": "PS256"}), "200"},
		{"PS384", by("rsa", members{"alg": "PS384"}), "200"},
		{"PS512", by("rsa", members{"alg": "PS512"}), "200"},
		{"ES384", by("p384", nil), "200"},
		{"ES512", by("p521", nil), "200"},
		{"EdDSA", by("ed", nil), "200"},
		{"RSA with 1,024 bits", by("rsa1024", nil), "401 key"},
		{"none", func() string {
			return rawToken(encoded(members{"alg": "none"}), encoded(goodClaims()), func(string) []byte { return nil })
		}, "401 algorithm"},
		{"none in capitals", signed(members{"alg": "NONE"}, nil), "401 algorithm"},
		{"no alg", signed(members{"alg": nil}, nil), "401 algorithm"},
		{"HS256 with the public key", hs256, "401 algorithm"},
		{"ES256K", signed(members{"alg": "ES256K"}, nil), "401 algorithm"},
		{"alg of another type", signed(members{"alg": json.RawMessage("[\"ES256\"]")}, nil), "401 algorithm"},
		{"alg of another curve", by("p384", members{"alg": "ES256", "kid": "a"}), "401 signature"},
		{"alg that the key cannot have", signed(members{"kid": "rsa"}, nil), "401 key"},
		{"signature stripped", parts(func(p []string) { p[2] = "" }), "401 signature"},
		{"signature of another token", parts(func(p []string) { p[2] = strings.Split(token("a", nil, members{"sub": "bob"}), ".")[2] }), "401 signature"},
		{"claims of another token", parts(func(p []string) { p[1] = strings.Split(token("a", nil, members{"sub": "bob"}), ".")[1] }), "401 signature"},
		{"signature of another key", by("b", members{"kid": "a"}), "401 signature"},

		// The name of the key.
		{"kid unknown", by("b", nil), "401 key"},
		{"kid absent", signed(members{"kid": nil}, nil), "200"},
		{"kid absent, signed by another", by("b", members{"kid": nil}), "401 key"},
		{"kid of 10 KB", signed(members{"kid": strings.Repeat("a", 10_000)}, nil), "401 malformed"},
		{"kid of 257 bytes", signed(members{"kid": strings.Repeat("a", 257)}, nil), "401 malformed"},
		{"kid is a path", signed(members{"kid": "../../../../dev/null"}, nil), "401 key"},
		{"kid is a number", signed(members{"kid": 7}, nil), "401 malformed"},

		// What the token brings: RFC 8725, 3.10; RFC 7515, 4.1.11.
		{"jwk", by("b", members{"jwk": pairs()["b"].jwk()}), "401 header"},
		{"jku", by("b", members{"jku": "https://evil.example.com/keys"}), "401 header"},
		{"x5u", by("b", members{"x5u": "https://evil.example.com/cert"}), "401 header"},
		{"x5c", by("b", members{"x5c": []string{"AA"}}), "401 header"},
		{"crit", signed(members{"crit": []string{"exp"}, "exp": 1}, nil), "401 header"},
		{"crit is null", signed(members{"crit": json.RawMessage("null")}, nil), "401 header"},
		{"b64", signed(members{"b64": false}, nil), "401 header"},
		{"encrypted", func() string { return "eyJhbGciOiJSU0EtT0FFUCIsImVuYyI6IkEyNTZHQ00ifQ.a.b.c.d" }, "401 encrypted"},
		{"enc", signed(members{"enc": "A256GCM"}, nil), "401 encrypted"},

		// Form: RFC 7515, 5.2; RFC 7519, 7.2.
		{"four parts", func() string { return token("a", nil, nil) + ".e30" }, "401 malformed"},
		{"one part", func() string { return "abcdef" }, "401 malformed"},
		{"empty", func() string { return "" }, "401 malformed"},
		{"16 KiB and more", signed(nil, members{"x": strings.Repeat("a", 12_400)}), "401 malformed"},
		{"almost 16 KiB", signed(nil, members{"x": strings.Repeat("a", 11_500)}), "200"},
		{"a line in it", func() string { return strings.Replace(token("a", nil, nil), ".", ".\n", 1) }, "401 malformed"},
		{"bits behind the claims", func() string {
			p := strings.Split(token("a", nil, members{"sub": "alicia"}), ".")
			return p[0] + "." + looseBits(p[1]) + "." + p[2]
		}, "401 malformed"},
		{"bits behind the signature", parts(func(p []string) { p[2] = looseBits(p[2]) }), "401 malformed"},
		{"claim twice", rawClaims(func(s string) string { return `{"sub":"bob",` + s[1:] }), "401 malformed"},
		{"claim twice, once escaped", rawClaims(func(s string) string { return `{"s\u0075b":"bob",` + s[1:] }), "401 malformed"},
		{"member twice, further down", rawClaims(func(s string) string { return `{"x":[{"y":1,"y":2}],` + s[1:] }), "401 malformed"},
		{"alg twice", rawHeader(`{"alg":"none","alg":"ES256","kid":"a"}`), "401 malformed"},
		{"another case is another claim", rawClaims(func(s string) string { return `{"SUB":"bob",` + s[1:] }), "200"},
		{"deep", rawClaims(func(s string) string {
			return `{"x":` + strings.Repeat("[", 16) + strings.Repeat("]", 16) + "," + s[1:]
		}), "401 malformed"},
		{"almost deep", rawClaims(func(s string) string {
			return `{"x":` + strings.Repeat("[", 15) + strings.Repeat("]", 15) + "," + s[1:]
		}), "200"},
		{"very deep", rawClaims(func(s string) string { return strings.Repeat("[", 6000) }), "401 malformed"},
		{"more behind the claims", rawClaims(func(s string) string { return s + "{}" }), "401 malformed"},
		{"claims are an array", rawClaims(func(s string) string { return "[" + s + "]" }), "401 malformed"},
		{"claims are null", rawClaims(func(s string) string { return "null" }), "401 malformed"},
		{"not UTF-8", rawClaims(func(s string) string { return strings.Replace(s, "alice", "al\xffce", 1) }), "401 malformed"},
		{"half a surrogate", rawClaims(func(s string) string { return strings.Replace(s, "alice", `al\ud800ce`, 1) }), "401 subject"},
		{"a large number that nobody reads", signed(nil, members{"x": json.RawMessage("1e999")}), "200"},

		// The kind of token: RFC 9068, 4; RFC 8725, 3.11; OpenID Connect Core, 2.
		{"typ JWT", signed(members{"typ": "JWT"}, nil), "200"},
		{"typ jwt", signed(members{"typ": "jwt"}, nil), "200"},
		{"typ AT+JWT", signed(members{"typ": "AT+JWT"}, nil), "200"},
		{"typ application/at+jwt", signed(members{"typ": "application/at+jwt"}, nil), "200"},
		{"typ absent", signed(members{"typ": nil}, nil), "200"},
		{"typ oauth-id-jag+jwt", signed(members{"typ": "oauth-id-jag+jwt"}, nil), "401 type"},
		{"typ logout+jwt", signed(members{"typ": "logout+jwt"}, nil), "401 type"},
		{"typ dpop+jwt", signed(members{"typ": "dpop+jwt"}, nil), "401 type"},
		{"typ of another type", signed(members{"typ": 1}, nil), "401 type"},
		{"typ ID", signed(nil, members{"typ": "ID"}), "401 id_token"},
		{"typ Refresh", signed(nil, members{"typ": "Refresh"}), "401 id_token"},
		{"typ Bearer", signed(nil, members{"typ": "Bearer"}), "200"},
		{"token_use id", signed(nil, members{"token_use": "id"}), "401 id_token"},
		{"token_use access", signed(nil, members{"token_use": "access"}), "200"},
		{"at_hash", signed(nil, members{"at_hash": "x"}), "401 id_token"},
		{"c_hash", signed(nil, members{"c_hash": "x"}), "401 id_token"},
		{"nonce", signed(nil, members{"nonce": "x"}), "401 id_token"},
		{"nonce is null", signed(nil, members{"nonce": json.RawMessage("null")}), "200"},
		{"events", signed(nil, members{"events": members{}}), "401 id_token"},
		{"bound by DPoP", signed(nil, members{"cnf": members{"jkt": "x"}}), "401 bound"},
		{"bound to a certificate", signed(nil, members{"cnf": members{"x5t#S256": "x"}}), "401 bound"},

		// The issuer: RFC 9068, 4.
		{"iss with a slash more", signed(nil, members{"iss": issuerURL + "/"}), "401 issuer"},
		{"iss in capitals", signed(nil, members{"iss": strings.ToUpper(issuerURL)}), "401 issuer"},
		{"iss absent", signed(nil, members{"iss": nil}), "401 issuer"},
		{"iss of another type", signed(nil, members{"iss": []string{issuerURL}}), "401 issuer"},
		{"another issuer", signed(nil, members{"iss": "https://evil.example.com"}), "401 issuer"},

		// Time: RFC 7519, 4.1.4 to 4.1.6.
		{"exp absent", signed(nil, members{"exp": nil}), "401 expired"},
		{"exp is a string", signed(nil, members{"exp": "4102444800"}), "401 malformed"},
		{"exp is null", signed(nil, members{"exp": json.RawMessage("null")}), "401 malformed"},
		{"exp past", signed(nil, members{"exp": fromNow(-time.Minute)}), "401 expired"},
		{"exp 1e300", signed(nil, members{"exp": json.RawMessage("1e300")}), "401 malformed"},
		{"exp 1e999", signed(nil, members{"exp": json.RawMessage("1e999")}), "401 malformed"},
		{"exp negative", signed(nil, members{"exp": -1}), "401 malformed"},
		{"exp in the year 10000", signed(nil, members{"exp": json.RawMessage("253402300800")}), "401 malformed"},
		{"exp with a part of a second", signed(nil, members{"exp": json.RawMessage("4102444800.5")}), "200"},
		{"exp as a power", signed(nil, members{"exp": json.RawMessage("4.1e9")}), "200"},
		{"nbf ahead", signed(nil, members{"nbf": fromNow(time.Minute)}), "401 early"},
		{"nbf a string", signed(nil, members{"nbf": "1"}), "401 malformed"},
		{"iat ahead", signed(nil, members{"iat": fromNow(time.Minute)}), "401 early"},
		{"iat 1e300", signed(nil, members{"iat": json.RawMessage("1e300")}), "401 malformed"},
		{"iat absent", signed(nil, members{"iat": nil}), "200"},

		// The audience: RFC 9068, 4; RFC 8707, 2.
		{"aud absent", signed(nil, members{"aud": nil}), "401 audience"},
		{"aud empty", signed(nil, members{"aud": []string{}}), "401 audience"},
		{"aud of another mount", signed(nil, members{"aud": public + "/other"}), "401 audience"},
		{"aud a prefix", signed(nil, members{"aud": server[:len(server)-1]}), "401 audience"},
		{"aud longer", signed(nil, members{"aud": server + "x"}), "401 audience"},
		{"aud further down", signed(nil, members{"aud": server + "/x"}), "401 audience"},
		{"aud the origin", signed(nil, members{"aud": public}), "401 audience"},
		{"aud with a slash", signed(nil, members{"aud": server + "/"}), "200"},
		{"aud with two slashes", signed(nil, members{"aud": server + "//"}), "401 audience"},
		{"aud with the host in capitals", signed(nil, members{"aud": "HTTPS://MCP.Example.COM/mcp"}), "200"},
		{"aud with the path in capitals", signed(nil, members{"aud": public + "/MCP"}), "401 audience"},
		{"aud with the default port", signed(nil, members{"aud": "https://mcp.example.com:443/mcp"}), "200"},
		{"aud with another port", signed(nil, members{"aud": "https://mcp.example.com:80/mcp"}), "401 audience"},
		{"aud with another scheme", signed(nil, members{"aud": "http://mcp.example.com/mcp"}), "401 audience"},
		{"aud with a query", signed(nil, members{"aud": server + "?x"}), "401 audience"},
		{"aud with a user", signed(nil, members{"aud": "https://mcp.example.com@evil.example.com/mcp"}), "401 audience"},
		{"one of several", signed(nil, members{"aud": []string{"account", server}}), "200"},
		{"aud of another type", signed(nil, members{"aud": members{server: true}}), "401 malformed"},
		{"aud with a number", signed(nil, members{"aud": []any{server, 1}}), "401 malformed"},

		// Who: RFC 9068, 5.
		{"neither sub nor client", signed(nil, members{"sub": nil, "client_id": nil}), "401 subject"},
		{"sub empty", signed(nil, members{"sub": ""}), "401 subject"},
		{"sub is null", signed(nil, members{"sub": json.RawMessage("null")}), "401 subject"},
		{"sub is a number", signed(nil, members{"sub": 1}), "401 subject"},
		{"sub with a line", signed(nil, members{"sub": "alice\nbob"}), "401 subject"},
		{"sub of 2 KB", signed(nil, members{"sub": strings.Repeat("a", 2048)}), "401 subject"},
		{"client of another type", signed(nil, members{"client_id": []string{"x"}}), "401 subject"},

		{"scope of another type", signed(nil, members{"scope": 1}), "401 malformed"},
		{"scope absent", signed(nil, members{"scope": nil}), "200"},
	}
	pairs()
	for _, tt := range rows {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l logged
				a := newAuthority(t, newStub(all...), func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&l, nil)) })
				text := tt.token()
				v, err := a.Verify(t.Context(), text, server)
				if got := outcome(err); got != tt.want {
					t.Fatalf("got %s, want %s (%v)", got, tt.want, err)
				}
				if (v == nil) == (err == nil) {
					t.Errorf("%v and %v", v, err)
				}
				r, _ := err.(*Refusal)
				if r == nil {
					return
				}
				if r.Code != InvalidToken || r.Text != TextInvalid {
					t.Errorf("code %s, text %q", r.Code, r.Text)
				}
				slog.New(slog.NewTextHandler(&l, nil)).Info("refused", slog.Any("auth", r))
				for _, part := range strings.Split(text, ".") {
					if len(part) > 30 && strings.Contains(l.String()+r.Error(), part) {
						t.Errorf("the log has the token: %s", l.String())
					}
				}
			})
		})
	}
}

// hs256 is signed with the public key of the issuer in place of a secret.
func hs256() string {
	der, err := x509.MarshalPKIXPublicKey(pairs()["rsa"].private.Public().(*rsa.PublicKey))
	if err != nil {
		panic(err)
	}
	var secret bytes.Buffer
	_ = pem.Encode(&secret, &pem.Block{Type: "PUBLIC KEY", Bytes: der})
	return rawToken(encoded(members{"alg": "HS256", "kid": "rsa"}), encoded(goodClaims()), func(text string) []byte {
		h := hmac.New(sha256.New, secret.Bytes())
		h.Write([]byte(text))
		return h.Sum(nil)
	})
}

// looseBits sets bits behind the last byte of a base64 text, which a lax reader ignores.
func looseBits(s string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	if len(s)%4 == 0 {
		panic("no loose bits: " + s)
	}
	n := strings.IndexByte(alphabet, s[len(s)-1])
	return s[:len(s)-1] + string(alphabet[n|1])
}

// TestOrderOfChecks has tokens with all faults but the first ones, in the order in which docs/auth.md says what is checked.
func TestOrderOfChecks(t *testing.T) {
	faults := map[string]func(header, claims members){
		"header":    func(h, _ members) { h["jku"] = "https://id.example.com/keys" },
		"algorithm": func(h, _ members) { h["alg"] = "HS256" },
		"type":      func(h, _ members) { h["typ"] = "logout+jwt" },
		"issuer":    func(_, c members) { c["iss"] = issuerURL + "/" },
		"id_token":  func(_, c members) { c["nonce"] = "n" },
		"bound":     func(_, c members) { c["cnf"] = members{"jkt": "x"} },
		"expired":   func(_, c members) { c["exp"] = fromNow(-time.Hour) },
		"subject":   func(_, c members) { c["sub"], c["client_id"] = nil, nil },
		"audience":  func(_, c members) { c["aud"] = public },
		"key":       func(h, _ members) { h["kid"] = "another" },
	}
	text, err := os.ReadFile("../docs/auth.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## What is checked\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var order []string
	for _, m := range regexp.MustCompile("(?m)^\\| [^|]+ \\| [^|]+ \\| `(\\w+)`").FindAllStringSubmatch(table, -1) {
		if faults[m[1]] != nil && !slices.Contains(order, m[1]) {
			order = append(order, m[1])
		}
	}
	if len(order) != len(faults) {
		t.Fatalf("docs/auth.md has %v of %d checks", order, len(faults))
	}
	inBubble(t, func(t *testing.T) {
		a := newAuthority(t, newStub("a"))
		for i, reason := range order {
			header, claims := members{}, members{}
			for _, later := range order[i:] {
				faults[later](header, claims)
			}
			expect(t, a, token("a", header, claims), "401 "+reason)
		}
	})
}
