package transports_test

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestPublicURL has clients of HTTP+SSE come through a proxy that cuts the beginning off their paths. The address of the
// session's messages has it.
func TestPublicURL(t *testing.T) {
	for public, want := range map[string]string{
		"":                               "/messages",
		"https://example.com":            "/messages",
		"https://example.com/":           "/messages",
		"https://example.com/sub":        "/sub/messages",
		"http://example.com:8443/a%20b/": "/a%20b/messages",
		"https://example.com/\u00e4/b":   "/%C3%A4/b/messages",
	} {
		kit.Bubble(t, func(t *testing.T) {
			h := host.New(t, troupe.Options{HTTP: troupe.HTTPOptions{PublicURL: public}}, nil)
			s := h.SSE()
			at, err := url.Parse(s.Messages)
			if err != nil || at.EscapedPath() != want {
				t.Errorf("%q: messages go to %s, %v, want %s", public, s.Messages, err, want)
			}
		})
	}
	for _, public := range []string{"example.com/sub", "/sub", "ftp://example.com/", "https:///sub", "https://user@example.com/", "https://example.com/?a=b", "https://example.com/#a",
		"https://example.com//evil.example", "https://example.com/a/../b", "https://example.com/.", "https://example.com/%zz"} {
		rt, err := troupe.New(troupe.Options{HTTP: troupe.HTTPOptions{PublicURL: public}})
		if err == nil {
			_ = rt.Close(context.Background())
		}
		if err == nil || !strings.Contains(err.Error(), "Options.HTTP.PublicURL is ") {
			t.Errorf("%q: %v", public, err)
		}
	}
}
