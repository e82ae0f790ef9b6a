package transports_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestAuthenticateAborts has Authenticate break off the connections of callers whom it does not want: nothing stays counted for them,
// so that their address, and others, are served as before.
func TestAuthenticateAborts(t *testing.T) {
	for _, w := range wires {
		if w.http2 {
			continue // its client has a connection for all
		}
		t.Run(w.name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				dial, m := w.begin(t, troupe.Options{Shared: troupe.SharedLimits{MaxMemory: 8 << 20}, Authenticate: func(r *http.Request) (troupe.Principal, error) {
					if r.Header.Get("Authorization") == "" {
						panic(http.ErrAbortHandler)
					}
					return troupe.Principal{Subject: "ann"}, nil
				}})
				ping := request{method: "POST", path: "/mcp", head: typed, body: host.Method("1", "ping", "")}
				for range 100 { // 85 requests are all that may be held
					conn := dial()
					go func() { _, _ = io.WriteString(conn, ping.text("")) }()
					if got, err := io.ReadAll(conn); len(got) > 0 {
						t.Fatalf("a connection that is broken off brings %q, %v", got, err)
					}
				}
				synctest.Wait()
				if n := m.Count("troupe.memory.held", "bodies"); n != 0 {
					t.Errorf("%d bytes are held", n)
				}
				if status, body := ask(t, dial(), nil, ping.text("Authorization: x\r\n")); status != 200 {
					t.Errorf("the next one: %d %s", status, body)
				}
			})
		})
	}
}
