package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

type originKey struct{}

// originated returns options of a runtime whose middleware puts a value into the context of requests, and whose callers
// have tokens.
func originated(dir string) troupe.Options {
	return troupe.Options{
		Dir: dir, HTTP: troupe.HTTPOptions{StoredHeaders: []string{"x-locale", "x-big", "x-absent"}},
		Middleware: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), originKey{}, "of "+r.Method)))
			})
		},
		Authenticate: func(r *http.Request) (troupe.Principal, error) {
			return troupe.Principal{Issuer: "test", Subject: "ada", Token: troupe.NewSecret(r.Header.Get("Authorization"))}, nil
		},
	}
}

// addOrigin adds a tool that returns what it knows of its request. If the call must wait, its first run does not end.
func addOrigin(h *host.Host) {
	troupe.AddTool(h.Server, troupe.Tool{Name: "origin", Rerun: troupe.Safe}, func(ctx context.Context, call *troupe.Call, in struct {
		MS int `json:"ms,omitempty"`
	}) (string, error) {
		if call.Attempt() == 1 {
			if err := host.Sleep(ctx, in.MS); err != nil {
				return "", err
			}
		}
		if big := call.Header().Get("X-Big"); call.Attempt() > 1 && big != "" {
			return "", errors.New("too much is stored")
		}
		return fmt.Sprintf("%s|%s|%s|%v|%v", call.Header().Get("X-Locale"), call.Header().Get("X-Other"), call.Principal().Token.Reveal(), ctx.Value(originKey{}), call.Principal()), ctx.Err()
	})
}

var originHeader = http.Header{"X-Locale": {"de"}, "X-Other": {"o"}, "Authorization": {"s3cret-token"}}

// TestOriginOfACall checks what a handler knows of the HTTP request of its call, on every way that a call takes.
func TestOriginOfACall(t *testing.T) {
	const want = "de|o|s3cret-token|of POST|ada of test"
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, originated(""), nil)
		addOrigin(h)
		c := h.Client()
		c.Header = originHeader
		c.Initialize(`{}`)
		host.Equal(t, "plain", c.Post(host.Call("1", "origin", `{}`)).Body, host.TextResult("1", want))
		host.Equal(t, "a stream", host.Last(t, c.Post(host.Call("1", "origin", `{"ms":1000}`))), host.TextResult("1", want))
		gone := c.Post(host.Call("1", "origin", `{"ms":1000}`))
		first, _ := gone.Next()
		gone.Close()
		time.Sleep(2 * time.Second)
		host.Equal(t, "resumed", host.Last(t, c.Get(first.ID)), host.TextResult("1", want))
		m := h.Stateless(`{}`)
		m.Client.Header = originHeader
		a, id := m.Tool("origin", `{}`)
		host.Equal(t, "stateless", m.Done(a, id), want)
		b := h.Unchecked()
		b.Header = originHeader
		b.InitializeAs("2025-03-26", `{}`)
		host.Equal(t, "a batch", b.Post(host.Batch(host.Call("1", "origin", `{}`))).Body, "["+host.TextResult("1", want)+"]")
	})
}

// TestOriginOverACrash runs a call again in the next process: it has what was stored, which includes no secret and no
// header beyond 8 KiB.
func TestOriginOverACrash(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		h := host.New(t, originated(dir), nil)
		addOrigin(h)
		c := h.Client()
		c.Header = originHeader.Clone()
		c.Header.Set("X-Big", strings.Repeat("x", 8<<10))
		c.Initialize(`{}`)
		a := c.Post(host.Call("1", "origin", `{"ms":3600000}`))
		first, _ := a.Next()
		host.Listen(a)
		next := host.New(t, originated(host.CopyDir(t, dir)), nil)
		addOrigin(next)
		host.Equal(t, "the second run", host.Last(t, next.Moved(c).Get(first.ID)), host.TextResult("1", "de|||<nil>|ada of test"))
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			if err == nil && bytes.Contains(data, []byte("s3cret")) {
				t.Errorf("the token is stored in %s", path)
			}
			return err
		})
	})
}

// TestOriginOfNobody checks the origin of an anonymous caller without a header.
func TestOriginOfNobody(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		addOrigin(h)
		c := h.Client()
		c.Header = originHeader
		c.Initialize(`{}`)
		host.Equal(t, "over HTTP", c.Post(host.Call("1", "origin", `{}`)).Body, host.TextResult("1", "de|o||<nil>|"))
		p := host.NewPipe(t, troupe.Options{})
		addOrigin(&host.Host{Server: p.Server})
		p.Initialize("2025-11-25")
		host.Equal(t, "over stdio", p.Ask(host.Call("1", "origin", `{}`)), host.TextResult("1", "|||<nil>|"))
		_ = p.In.Close()
		p.End()
	})
}

func TestSecretHeadersAreNotStored(t *testing.T) {
	for _, name := range []string{"authorization", "Cookie", "proxy-authorization", "Mcp-Session-Id"} {
		if rt, err := troupe.New(troupe.Options{HTTP: troupe.HTTPOptions{StoredHeaders: []string{"X-A", name}}}); err == nil {
			_ = rt.Close(t.Context())
			t.Errorf("%s can be stored", name)
		}
	}
}

// TestAuthError checks the responses to requests that Authenticate refuses.
func TestAuthError(t *testing.T) {
	why := errors.New("scope files:write is lacking, says the database at 10.0.0.1")
	for name, tt := range map[string]struct {
		err             error
		status          int
		challenge, body string
	}{
		"any other error": {why, 401, "Bearer", host.Fault("", host.Invalid, "Unauthorized", "")},
		"401":             {&troupe.AuthError{Err: why, Challenge: `Bearer resource_metadata="https://x"`}, 401, `Bearer resource_metadata="https://x"`, host.Fault("", host.Invalid, "Unauthorized", "")},
		"403 and wrapped": {fmt.Errorf("no: %w", &troupe.AuthError{Err: why, Status: 403, Challenge: `Bearer scope="w"`}), 403, `Bearer scope="w"`, host.Fault("", host.Invalid, "Forbidden", "")},
		"without more":    {&troupe.AuthError{Status: 403}, 403, "", host.Fault("", host.Invalid, "Forbidden", "")},
		"503":             {&troupe.AuthError{Status: 503}, 503, "", host.Fault("", host.Internal, "Service Unavailable", "")},
		"no status":       {&troupe.AuthError{Status: 200}, 401, "Bearer", host.Fault("", host.Invalid, "Unauthorized", "")},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				h := host.New(t, troupe.Options{Authenticate: func(*http.Request) (troupe.Principal, error) { return troupe.Principal{}, tt.err }}, nil)
				a := h.Unchecked().Post(host.InitializeRequest)
				if a.StatusCode != tt.status || a.Header.Get("WWW-Authenticate") != tt.challenge {
					t.Errorf("%s, challenge %q, want %d and %q", a.Status, a.Header.Get("WWW-Authenticate"), tt.status, tt.challenge)
				}
				host.Equal(t, "body", a.Body, tt.body)
			})
		})
	}
}

// TestHeaderIsACopy has a handler change the header that it gets: it reads the request's again, and so does the middleware.
func TestHeaderIsACopy(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		after := ""
		h := host.New(t, troupe.Options{}, &troupe.ServerOptions{MethodMiddleware: []troupe.MethodMiddleware{func(next troupe.MethodHandler) troupe.MethodHandler {
			return func(ctx context.Context, call *troupe.Call, method string, params json.RawMessage) (json.RawMessage, error) {
				defer func() { after = call.Header().Get("X-Locale") }()
				return next(ctx, call, method, params)
			}
		}}})
		h.AddTool("change", 0, func(_ context.Context, call *troupe.Call) (string, error) {
			header := call.Header()
			header["X-Locale"][0] = "changed"
			header.Set("X-Other", "changed")
			return call.Header().Get("X-Locale") + "|" + call.Header().Get("X-Other"), nil
		})
		c := h.Client()
		c.Header = http.Header{"X-Locale": {"de"}, "X-Other": {"o"}}
		c.Initialize(`{}`)
		host.Equal(t, "the handler", c.Post(host.Call("1", "change", `{}`)).Body, host.TextResult("1", "de|o"))
		host.Equal(t, "the middleware", after, "de")
	})
}
