package transports_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestStreamsBeginWithAByte requires that the first byte of an event stream comes with its header, in all revisions and kinds
// of streams, though the first event may be long in coming: proxies such as nginx show the header of a response to a client of
// HTTP/2 only then.
func TestStreamsBeginWithAByte(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		begins := func(what, method, url, body string, header http.Header) *http.Response {
			r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
			for k, v := range header {
				r.Header[http.CanonicalHeaderKey(k)] = v
			}
			resp, err := h.HTTP.Do(r)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			begin := time.Now()
			n, err := resp.Body.Read(make([]byte, 1))
			if took := time.Since(begin); n != 1 || took > 0 || err != nil || resp.Header.Get("Content-Type") != "text/event-stream" {
				t.Errorf("%s: %s, the first byte comes %v after the header, %v", what, resp.Status, took, err)
			}
			t.Cleanup(func() { _ = resp.Body.Close() })
			return resp
		}
		for _, revision := range []string{"2025-03-26", "2025-06-18", "2025-11-25"} {
			c := h.Unchecked().InitializeAs(revision, `{}`)
			session := http.Header{"Mcp-Session-Id": {c.Session}}
			_ = begins("GET, "+revision, "GET", h.URL, "", session).Body.Close()
			s := c.Get("")
			if revision != "2025-11-25" { // whose streams begin with an event
				h.AddTool("new-in-"+revision, 0, func(context.Context, *troupe.Call) (string, error) { return "", nil })
			}
			e, _ := s.Next()
			s.Close()
			begins("a resume, "+revision, "GET", h.URL, "", http.Header{"Mcp-Session-Id": {c.Session}, "Last-Event-Id": {e.ID}})
			begins("a call, "+revision, "POST", h.URL, host.Call("1", "sleep", `{"ms":60000}`), session)
		}
		begins("HTTP+SSE", "GET", "http://127.0.0.1/sse", "", nil)
		m := h.Stateless(`{}`)
		for name, params := range map[string]string{"tools/call": host.ToolParams("sleep", `{"ms":60000}`), "subscriptions/listen": `{"notifications":{"toolsListChanged":true}}`} {
			body, header := m.Body("1", name, params, ""), http.Header{}
			for all := m.Header(name, body); len(all) > 0; all = all[2:] {
				header[all[0]] = all[1:2]
			}
			begins(name, "POST", h.URL, body, header)
		}
	})
}
