package auth_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/issuer"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// lists makes a stateless request, whose status it returns. A refusal for an outage says when to come back, and asks for no token.
func lists(t *testing.T, h *host.Host, token string) int {
	t.Helper()
	c := h.Unchecked()
	c.Header = http.Header{"Authorization": {"Bearer " + token}}
	a := ways[1].send(c)
	if no := a.StatusCode == http.StatusServiceUnavailable; no && (a.Header.Get("Retry-After") == "" || a.Header.Get("WWW-Authenticate") != "") {
		t.Errorf("%s with Retry-After %q and the challenge %q", a.Status, a.Header.Get("Retry-After"), a.Header.Get("WWW-Authenticate"))
	}
	return a.StatusCode
}

// answered fails the test unless tokens are answered with a status.
func answered(t *testing.T, h *host.Host, when string, want int, tokens ...string) {
	t.Helper()
	for n, token := range tokens {
		if got := lists(t, h, token); got != want {
			t.Errorf("%s, token %d: %d, want %d", when, n, got, want)
		}
	}
}

// TestDayWithoutIssuer has the issuer down from a moment after its keys were fetched. For a day each valid token is answered, on the node that fetched them and on one that is started
// again in the middle of the day; then all are told to come back. None is ever told that it does not count.
func TestDayWithoutIssuer(t *testing.T) {
	when.Unraced(t, "a day of virtual time")
	kit.Bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		var o troupe.Options
		d, _ := virtualDoor(t, func(of *troupe.Options) {
			of.Dir, of.Store.Lease = dir, time.Hour
			o = *of
		})
		long := d.id.Token("alice", resource, issuer.Claims{"exp": time.Now().Add(100 * time.Hour).Unix()})
		fresh := func() string { return d.id.Token("bob", resource, nil) }
		answered(t, d.Host, "at first", 200, long)
		time.Sleep(time.Second) // the keys are stored after those who wait for them were told
		d.id.SetDown(true)
		hosts := []*host.Host{d.Host}
		for hour := 1; hour <= 23; hour++ {
			time.Sleep(time.Hour)
			if hour == 12 {
				o.Dir = host.CopyDir(t, dir)
				hosts = append(hosts, host.New(t, o, nil))
			}
			for n, h := range hosts {
				answered(t, h, fmt.Sprintf("node %d after %d h", n, hour), 200, long, fresh())
			}
		}
		asked := d.id.Asked()
		time.Sleep(time.Hour - time.Second)
		o.Dir = host.CopyDir(t, dir)
		hosts = append(hosts, host.New(t, o, nil)) // one that finds nothing that counts
		for n, h := range hosts {
			answered(t, h, fmt.Sprintf("node %d after a day", n), 503, long, fresh(), long)
			if got := h.Gauge("troupe.http.refused", "auth-unavailable"); got != 3 {
				t.Errorf("node %d counts %d", n, got)
			}
		}
		if d.id.Asked() == asked {
			t.Error("nobody asks the issuer any more")
		}
		d.id.SetDown(false)
		time.Sleep(5 * time.Minute)
		for n, h := range hosts {
			answered(t, h, fmt.Sprintf("node %d when the issuer is up again", n), 200, long, fresh())
			if got := h.Gauge("troupe.http.refused", "auth-key") + h.Gauge("troupe.http.refused", "auth-signature"); got != 0 {
				t.Errorf("node %d has refused %d tokens", n, got)
			}
		}
	})
}

// TestMadeUpKeyIDsAreFailures has an address send tokens with random kids, which get 503 until the issuer was asked again: they are failures nevertheless, and the next ones are not looked at.
func TestMadeUpKeyIDsAreFailures(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		d, _ := virtualDoor(t, func(o *troupe.Options) { o.Shared.AuthFailures = 0.2 }) // two at once
		good := d.id.Token("alice", resource, nil)
		answered(t, d.Host, "at first", 200, good)
		time.Sleep(time.Second)
		for n, want := range []int{503, 503, 429, 429} {
			answered(t, d.Host, fmt.Sprint("made up ", n), want, d.id.Signed(issuer.Header(issuer.Claims{"kid": fmt.Sprint("made up ", n)}), d.id.Claims("alice", resource, nil)))
		}
		answered(t, d.Host, "a token that is known", 200, good)
		answered(t, d.Host, "a good one that is not", 429, d.id.Token("bob", resource, nil))
		time.Sleep(20 * time.Second)
		answered(t, d.Host, "later", 200, d.id.Token("bob", resource, nil))
	})
}

// TestRotation has an issuer sign with another key, while both are there, and when the old one is gone: within one refresh what that has signed is refused, also where it is known.
func TestRotation(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		d, _ := virtualDoor(t)
		by := func(kid string) string {
			return d.id.Signed(issuer.Header(issuer.Claims{"kid": kid}), d.id.Claims("alice", resource, issuer.Claims{"exp": time.Now().Add(10 * time.Hour).Unix()}))
		}
		old := by("1")
		alice := d.as(old).Initialize(`{}`)
		time.Sleep(time.Minute)
		d.id.Publish(d.id.Key("1"), d.id.Key("2"))
		answered(t, d.Host, "with an overlap", 200, by("2"), by("1"), old)
		time.Sleep(time.Minute)
		d.id.Publish(d.id.Key("3"))
		removed, known := time.Now(), by("2")
		for alice.Post(listTools).StatusCode == 200 {
			if time.Sleep(time.Second); time.Since(removed) > time.Hour {
				t.Fatal("a key that is gone counts for more than a refresh")
			}
		}
		t.Logf("refused after %s", time.Since(removed))
		if a := alice.Post(listTools); a.StatusCode != 401 || d.Refused("auth-key") == 0 {
			t.Errorf("a token of the key that is gone, in a session: %s", a.Status)
		}
		answered(t, d.Host, "a key that is gone", 401, old, known)
		answered(t, d.Host, "the key that is there", 200, by("3"))
		time.Sleep(time.Minute)
		d.id.Publish(d.id.Key("4")) // without an overlap
		answered(t, d.Host, "a key that nobody knew", 200, by("4"))
		answered(t, d.Host, "the one before", 401, by("3"))
		alice.Header = http.Header{"Authorization": {"Bearer " + by("4")}}
		if a := alice.Post(listTools); a.StatusCode != 200 {
			t.Errorf("the session with a token of the new key: %s %s", a.Status, a.Body)
		}
	})
}
