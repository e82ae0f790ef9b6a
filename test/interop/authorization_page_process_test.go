//go:build full

package interop

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestAuthorizationOfAPage has a page in Chromium go from 401 to an answered call: see authorization_page.html. Its origin is neither that of the server nor that of the
// authorization server, so that it sees only what their answers allow it to. Its client is known before: the authorization server lets no page register one. Where the page is on the loopback
// interface its port may be any (RFC 8252, 7.3).
func TestAuthorizationOfAPage(t *testing.T) {
	t.Parallel()
	s := startSite(t, "ES256")
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "authorization_page.html") }))
	t.Cleanup(pages.Close)
	b := startBrowser(t)
	c := s.client("pre")
	b.do(t, "Page.navigate", map[string]any{"url": pages.URL + "/callback?" + url.Values{"server": {s.endpoint}, "client": {c.ID}}.Encode()})
	var outcome string
	eventually(t, func() bool {
		var now struct{ Origin, Outcome string }
		b.evaluate(t, `JSON.stringify({ origin: location.origin, outcome: window.outcome })`, &now)
		if now.Origin == s.issuer { // its form, as a user fills it in
			b.evaluate(t, `(() => {
				const form = document.forms[0]
				if (!form || document.readyState !== 'complete' || window.sent) return '{}'
				for (const name of ['login', 'password']) if (form[name]) form[name].value = 'alice'
				window.sent = true
				form.querySelector('[type=submit]').click()
				return '{}'
			})()`, &now)
		}
		outcome = now.Outcome
		return outcome != ""
	}, func() string { return "the page comes to nothing" })
	c.checkStep(t, "call", outcome)
}

// browser is a page of Chromium that is told what to do through a pipe.
type browser struct {
	to      *os.File
	from    *bufio.Reader
	session string
	last    int
}

// startBrowser starts Chromium with an empty page, or skips the test where there is none.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("this test needs Chromium: %v", err)
	}
	in, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{in, out}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = in.Close(), out.Close()
	b := &browser{to: to, from: bufio.NewReader(from)}
	t.Cleanup(func() {
		b.session = ""
		b.do(t, "Browser.close", nil)
		_ = cmd.Wait()
		_, _ = to.Close(), from.Close()
	})
	var target struct{ TargetID, SessionID string }
	b.result(t, &target, "Target.createTarget", map[string]any{"url": "about:blank"})
	b.result(t, &target, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true})
	b.session = target.SessionID
	return b
}

// do has the browser do something, and returns its answer.
func (b *browser) do(t *testing.T, method string, params any) json.RawMessage {
	t.Helper()
	b.last++
	text, err := json.Marshal(map[string]any{"id": b.last, "method": method, "params": params, "sessionId": b.session})
	if err != nil {
		t.Fatal(err)
	}
	if b.session == "" {
		text = []byte(strings.Replace(string(text), `,"sessionId":""`, "", 1))
	}
	if _, err := b.to.Write(append(text, 0)); err != nil {
		t.Fatal(err)
	}
	answer := make(chan json.RawMessage, 1)
	go func() {
		for {
			line, err := b.from.ReadBytes(0)
			var m struct {
				ID            int
				Result, Error json.RawMessage
			}
			switch {
			case err != nil:
				answer <- json.RawMessage(fmt.Sprintf(`{"broken":%q}`, err))
				return
			case json.Unmarshal(line[:len(line)-1], &m) == nil && m.ID == b.last:
				answer <- append(m.Result, m.Error...)
				return
			}
		}
	}()
	return receive(t, answer)
}

func (b *browser) result(t *testing.T, into any, method string, params any) {
	t.Helper()
	answer := b.do(t, method, params)
	if err := json.Unmarshal(answer, into); err != nil {
		t.Fatalf("%s: %s: %v", method, answer, err)
	}
}

// evaluate reads the JSON that an expression comes to in the page. While the page changes to another one it may come to nothing.
func (b *browser) evaluate(t *testing.T, expression string, into any) {
	t.Helper()
	var r struct{ Result struct{ Value string } }
	b.result(t, &r, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true})
	if r.Result.Value == "" {
		return
	}
	if err := json.Unmarshal([]byte(r.Result.Value), into); err != nil {
		t.Fatalf("%s: %v", r.Result.Value, err)
	}
}
