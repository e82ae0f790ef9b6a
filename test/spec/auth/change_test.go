package auth_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/issuer"
)

// TestSetAuth changes whose tokens count while sessions are open: sessions of who may still come go on, and the others are refused from the next request on. A
// configuration that cannot be used changes nothing.
func TestSetAuth(t *testing.T) {
	t.Parallel()
	d, second := newDoor(t), issuer.New(t)
	alice := d.user("alice")
	rt := d.Runtime
	both := &auth.Config{Issuers: []auth.Issuer{{URL: d.id.URL}, {URL: second.URL}}, PublicURL: public + "/", Scopes: []string{"files:write"}}
	for tries, n := 1, int64(1); n > 0; tries++ {
		if err := rt.SetAuth(both); err != nil {
			t.Fatal(err)
		}
		asked := d.id.Asked()
		if a := alice.Post(listTools); a.StatusCode != 200 {
			t.Errorf("the session of an issuer that stays: %s %s", a.Status, a.Body)
		}
		if n = d.id.Asked() - asked; n > 0 && tries == 1000 { // its keys are stored a moment after those who wait for them were told
			t.Fatalf("the issuer that stays was asked %d times: its keys lie in the store", n)
		}
	}
	bob := d.as(second.Token("bob", resource, nil)).Initialize(`{}`)
	a := d.Unchecked().Post(listTools)
	if c := challenge(t, a.Header); c["scope"] != "files:write" || c["resource_metadata"] != where {
		t.Errorf("the challenge after the change is %v", c)
	}
	document := d.Unchecked()
	document.URL = strings.TrimSuffix(document.URL, "/mcp") + "/.well-known/oauth-protected-resource/mcp"
	if got := document.Do("GET", ""); !strings.Contains(got.Body, second.URL) {
		t.Errorf("the metadata after the change: %s %s", got.Status, got.Body)
	}
	for name, c := range map[string]*auth.Config{
		"nil":                nil,
		"no issuer":          {PublicURL: public},
		"another public URL": {Issuers: both.Issuers, PublicURL: "https://else.example.com"},
		"anonymous":          {Issuers: both.Issuers, PublicURL: public, AllowAnonymous: true},
		"a broken issuer":    {Issuers: []auth.Issuer{{URL: "http://id.example.com"}}, PublicURL: public},
		"keys of no file":    {Issuers: []auth.Issuer{{URL: second.URL, Keys: "absent.json"}}, PublicURL: public},
	} {
		if err := rt.SetAuth(c); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if a := bob.Post(listTools); a.StatusCode != 200 {
		t.Errorf("after changes that were refused: %s %s", a.Status, a.Body)
	}
	if err := rt.SetAuth(&auth.Config{Issuers: []auth.Issuer{{URL: second.URL}}, PublicURL: public}); err != nil {
		t.Fatal(err)
	}
	if a := alice.Post(listTools); a.StatusCode != 401 || d.Refused("auth-issuer") != 1 {
		t.Errorf("the session of an issuer that is gone: %s, %d counted", a.Status, d.Refused("auth-issuer"))
	}
	if a := bob.Post(listTools); a.StatusCode != 200 {
		t.Errorf("the session of the other one: %s %s", a.Status, a.Body)
	}
}

// TestSetAuthUnderLoad changes the configuration while tokens are verified that need an issuer: none of them is refused.
func TestSetAuthUnderLoad(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	var done sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		done.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				c := d.as(d.id.Token("alice", resource, issuer.Claims{"jti": n}))
				if a := c.Post(listTools); a.StatusCode == 401 || a.StatusCode == 503 {
					t.Errorf("a good token: %s %s", a.Status, a.Body)
					return
				}
			}
		})
	}
	for range 50 {
		if err := d.Runtime.SetAuth(&auth.Config{Issuers: []auth.Issuer{{URL: d.id.URL}}, PublicURL: public}); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	done.Wait()
}

// TestSetAuthKeepsWhatIsCounted changes the configuration while an address is over its bound of tokens that fail: it stays so, and what counted before passes as it did. API
// keys stay.
func TestSetAuthKeepsWhatIsCounted(t *testing.T) {
	t.Parallel()
	d := newDoor(t, func(o *troupe.Options) { o.Shared.AuthFailures, o.Auth.APIKeys = 0.001, auth.StoredKeys }) // one at once
	_, secret, err := d.Runtime.APIKeys().Create(t.Context(), auth.APIKey{Name: "CI"})
	if err != nil {
		t.Fatal(err)
	}
	alice, ci := d.user("alice"), d.as(secret).Initialize(`{}`)
	bad := d.as("abc")
	if got := [2]int{bad.Post(listTools).StatusCode, bad.Post(listTools).StatusCode}; got != [2]int{401, 429} {
		t.Fatalf("tokens that fail: %d", got)
	}
	set := func() {
		t.Helper()
		if err := d.Runtime.SetAuth(&auth.Config{Issuers: []auth.Issuer{{URL: d.id.URL}}, PublicURL: public, APIKeys: auth.StoredKeys}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		set()
		if a := bad.Post(listTools); a.StatusCode != 429 {
			t.Errorf("a token that fails, after the change: %s", a.Status)
		}
		if a := d.as(d.id.Token("bob", resource, nil)).Post(listTools); a.StatusCode != 429 {
			t.Errorf("a token that nobody has seen before: %s", a.Status)
		}
		for name, c := range map[string]*kit.Client{"token": alice, "key": ci} {
			if a := c.Post(listTools); a.StatusCode != 200 {
				t.Errorf("a %s that counted before: %s %s", name, a.Status, a.Body)
			}
		}
	}
	set()
	if _, err := d.Runtime.Revocations().Revoke(t.Context(), troupe.Revocation{Subject: "alice"}); err != nil {
		t.Fatal(err)
	}
	if a := alice.Post(listTools); a.StatusCode != 429 {
		t.Errorf("a token that counted before, of somebody who is revoked: %s", a.Status)
	}
}
