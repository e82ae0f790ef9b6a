package auth

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestMetadataURLs has the forms of the well-known path.
func TestMetadataURLs(t *testing.T) {
	t.Parallel()
	for issuer, want := range map[string]string{
		"https://a":        "https://a/.well-known/oauth-authorization-server https://a/.well-known/openid-configuration",
		"https://a/":       "https://a/.well-known/oauth-authorization-server https://a/.well-known/openid-configuration",
		"https://a:8443/t": "https://a:8443/.well-known/oauth-authorization-server/t https://a:8443/.well-known/openid-configuration/t https://a:8443/t/.well-known/openid-configuration",
		"https://a/t/v2/":  "https://a/.well-known/oauth-authorization-server/t/v2 https://a/.well-known/openid-configuration/t/v2 https://a/t/v2/.well-known/openid-configuration",
		"https://a/t%2Fu":  "https://a/.well-known/oauth-authorization-server/t%2Fu https://a/.well-known/openid-configuration/t%2Fu https://a/t%2Fu/.well-known/openid-configuration",
	} {
		if got := strings.Join(metadataURLs(issuer), " "); got != want {
			t.Errorf("%s: %s, want %s", issuer, got, want)
		}
	}
}

// TestDiscovery has a row for each way to find keys, and to find none.
func TestDiscovery(t *testing.T) {
	good := encoded(members{"issuer": issuerURL, "jwks_uri": keysURL})
	of := func(more members) string {
		return encoded(members{"issuer": issuerURL, "jwks_uri": keysURL}.with(more))
	}
	const elsewhere = "https://elsewhere.example.com/keys"
	redirect := func(to string) page { return page{status: http.StatusFound, header: http.Header{"Location": {to}}} }
	for name, tt := range map[string]struct {
		pages map[string]page
		want  string
	}{
		"RFC 8414":                           {map[string]page{oauthURL: {body: good}}, "200"},
		"OpenID Connect":                     {map[string]page{openIDURL: {body: good}}, "200"},
		"a page in place of the first":       {map[string]page{oauthURL: {body: "<html>"}, openIDURL: {body: good}}, "200"},
		"a fault in place of the first":      {map[string]page{oauthURL: {status: 500}, openIDURL: {body: good}}, "200"},
		"another issuer in the first":        {map[string]page{oauthURL: {body: of(members{"issuer": "https://evil.example.com"})}, openIDURL: {body: good}}, "200"},
		"neither":                            {nil, "503 unavailable"},
		"issuer with a slash more":           {map[string]page{oauthURL: {body: of(members{"issuer": issuerURL + "/"})}}, "503 unavailable"},
		"no issuer":                          {map[string]page{oauthURL: {body: of(members{"issuer": nil})}}, "503 unavailable"},
		"issuer twice":                       {map[string]page{oauthURL: {body: `{"issuer":"https://evil.example.com",` + good[1:]}}, "503 unavailable"},
		"no keys":                            {map[string]page{oauthURL: {body: of(members{"jwks_uri": nil})}}, "503 unavailable"},
		"keys elsewhere":                     {map[string]page{oauthURL: {body: of(members{"jwks_uri": elsewhere})}, elsewhere: {body: keySetOf("a")}}, "200"},
		"keys without TLS":                   {map[string]page{oauthURL: {body: of(members{"jwks_uri": "http://id.example.com/keys"})}, "http://id.example.com/keys": {body: keySetOf("a")}}, "503 unavailable"},
		"keys of this machine without TLS":   {map[string]page{oauthURL: {body: of(members{"jwks_uri": "http://127.0.0.1/keys"})}, "http://127.0.0.1/keys": {body: keySetOf("a")}}, "503 unavailable"},
		"keys with a user":                   {map[string]page{oauthURL: {body: of(members{"jwks_uri": "https://a:b@id.example.com/keys"})}, "https://a:b@id.example.com/keys": {body: keySetOf("a")}}, "503 unavailable"},
		"a file":                             {map[string]page{oauthURL: {body: of(members{"jwks_uri": "file:///etc/passwd"})}}, "503 unavailable"},
		"redirect within the host":           {map[string]page{oauthURL: redirect("/other"), issuerURL + "/other": {body: good}}, "200"},
		"redirect to the default port":       {map[string]page{oauthURL: redirect("https://ID.example.com:443/other"), "https://ID.example.com:443/other": {body: good}}, "200"},
		"redirect to another host":           {map[string]page{oauthURL: redirect("https://evil.example.com/other"), "https://evil.example.com/other": {body: good}}, "503 unavailable"},
		"redirect to another port":           {map[string]page{oauthURL: redirect("https://id.example.com:8443/other"), "https://id.example.com:8443/other": {body: good}}, "503 unavailable"},
		"redirect away from TLS":             {map[string]page{oauthURL: redirect("http://id.example.com/other"), "http://id.example.com/other": {body: good}}, "503 unavailable"},
		"redirect away from TLS on its port": {map[string]page{oauthURL: redirect("http://id.example.com:443/other"), "http://id.example.com:443/other": {body: good}}, "503 unavailable"},
		"redirect of the keys to elsewhere":  {map[string]page{oauthURL: {body: good}, keysURL: redirect(elsewhere), elsewhere: {body: keySetOf("a")}}, "503 unavailable"},
		"redirects without an end":           {map[string]page{oauthURL: redirect(oauthURL)}, "503 unavailable"},
		"metadata of more than 1 MiB":        {map[string]page{oauthURL: {body: good + strings.Repeat(" ", maxDocument)}}, "503 unavailable"},
		"keys of more than 1 MiB":            {map[string]page{oauthURL: {body: good}, keysURL: {body: keySetOf("a") + strings.Repeat(" ", maxDocument)}}, "503 unavailable"},
		"keys of almost 1 MiB":               {map[string]page{oauthURL: {body: good}, keysURL: {body: keySetOf("a") + strings.Repeat(" ", maxDocument-2000)}}, "200"},
		"keys after 4 seconds":               {map[string]page{oauthURL: {body: good}, keysURL: {body: keySetOf("a"), delay: 4 * time.Second}}, "200"},
		"keys after 6 seconds":               {map[string]page{oauthURL: {body: good}, keysURL: {body: keySetOf("a"), delay: 6 * time.Second}}, "503 unavailable"},
		"an empty 204":                       {map[string]page{oauthURL: {body: good}, keysURL: {status: 204}}, "503 unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newStub("a")
				delete(s.pages, oauthURL)
				for address, p := range tt.pages {
					s.set(address, p)
				}
				a := newAuthority(t, s)
				began := time.Now()
				expect(t, a, token("a", nil, nil), tt.want)
				if d := time.Since(began); d > fetchTime {
					t.Errorf("it took %v", d)
				}
				for _, address := range s.asked {
					if strings.Contains(address, "evil") || strings.Contains(address, ":8443") {
						t.Errorf("%s was asked for", address)
					}
				}
			})
		})
	}
}

// TestLoopbackIssuer needs no TLS, and neither do its keys.
func TestLoopbackIssuer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, host := range []string{"http://127.0.0.1:9000", "http://localhost:9000", "http://[::1]:9000"} {
			s := newStub()
			s.set(host+"/.well-known/oauth-authorization-server", page{body: encoded(members{"issuer": host, "jwks_uri": host + "/keys"})})
			s.set(host+"/keys", page{body: keySetOf("a")})
			a := newAuthority(t, s, func(c *Config) { c.Issuers[0].URL = host })
			expect(t, a, token("a", nil, members{"iss": host}), "200")
		}
	})
}

// TestMetadataIsAskedForAgain within an hour, and when the keys are not where it says. What was found is asked for first.
func TestMetadataIsAskedForAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStub("a")
		delete(s.pages, oauthURL)
		s.set(openIDURL, page{body: encoded(members{"issuer": issuerURL, "jwks_uri": keysURL})})
		a := newAuthority(t, s)
		expect(t, a, token("a", nil, nil), "200")
		time.Sleep(50 * time.Minute)
		if s.count(openIDURL) != 1 || s.count(oauthURL) != 1 || s.count(keysURL) != 4 {
			t.Errorf("asked for %q", s.asked)
		}
		s.set(openIDURL, page{body: encoded(members{"issuer": issuerURL, "jwks_uri": issuerURL + "/new"})})
		s.set(issuerURL+"/new", page{body: keySetOf("b")})
		time.Sleep(15 * time.Minute)
		expect(t, a, token("b", nil, nil), "200")
		if s.count(oauthURL) != 1 {
			t.Errorf("asked for %q", s.asked)
		}
		s.set(issuerURL+"/new", page{status: 404})
		s.set(openIDURL, page{body: encoded(members{"issuer": issuerURL, "jwks_uri": keysURL})})
		s.set(keysURL, page{body: keySetOf("c")})
		time.Sleep(16 * time.Minute)
		expect(t, a, token("c", nil, nil), "200")
	})
}

// TestIssuerMetadata hands on what the issuer says, byte by byte.
func TestIssuerMetadata(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, c := newStub("a"), &memoryCache{}
		odd := "{\n  \"jwks_uri\" : \"" + keysURL + "\", \"x\": \"<&>\", \"issuer\":\"" + issuerURL + "\" }\n"
		s.set(oauthURL, page{body: odd})
		cached := func(of *Config) { of.Cache = c }
		a := newAuthority(t, s, cached)
		for range 3 {
			if data, err := a.IssuerMetadata(t.Context()); string(data) != odd {
				t.Errorf("got %q, %v", data, err)
			}
		}
		if s.count(oauthURL) != 1 {
			t.Errorf("asked for %q", s.asked)
		}
		synctest.Wait() // for the cache
		s.setDown(errDown)
		if data, err := newAuthority(t, s, cached).IssuerMetadata(t.Context()); string(data) != odd {
			t.Errorf("in an outage: %q, %v", data, err)
		}
		if _, err := newAuthority(t, s).IssuerMetadata(t.Context()); outcome(err) != "503 unavailable" {
			t.Errorf("in an outage, and nothing is known: %v", err)
		}
	})
}

// TestAskedInterval reads Cache-Control and Age.
func TestAskedInterval(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		control []string
		age     string
		want    time.Duration
	}{
		{nil, "", noInterval},
		{[]string{"public"}, "", noInterval},
		{[]string{"max-age=600"}, "", 10 * time.Minute},
		{[]string{"public, Max-Age=600, must-revalidate"}, "", 10 * time.Minute},
		{[]string{"public", `max-age="600"`}, "60", 9 * time.Minute},
		{[]string{"max-age=600"}, "6000", 0},
		{[]string{"max-age=600"}, "x", 10 * time.Minute},
		{[]string{"max-age=600, no-store"}, "", 0},
		{[]string{"no-cache"}, "", 0},
		{[]string{"max-age=-1"}, "", noInterval},
		{[]string{"max-age=99999999999999999999"}, "", noInterval},
		{[]string{"s-maxage=600"}, "", noInterval},
	} {
		h := http.Header{"Cache-Control": tt.control}
		if tt.age != "" {
			h.Set("Age", tt.age)
		}
		if got := askedInterval(h); got != tt.want {
			t.Errorf("%q, age %q: %v, want %v", tt.control, tt.age, got, tt.want)
		}
	}
}
