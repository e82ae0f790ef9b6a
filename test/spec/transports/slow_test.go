package transports_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestMiddlewareTakesItsTime has Options.Middleware think before it passes a request on, before it reads a body itself, and in the midst of
// that: the client, which has sent all that it could, is not taken for a slow one. It is taken for one while somebody waits for its body.
func TestMiddlewareTakesItsTime(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	const think = 40 * time.Second
	middleware := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(think)
			if r.URL.Path == "/mcp" {
				next.ServeHTTP(w, r)
				return
			}
			part := make([]byte, 10)
			for n := 0; ; {
				m, err := io.ReadFull(r.Body, part)
				if n += m; err == io.EOF || err == io.ErrUnexpectedEOF {
					fmt.Fprint(w, n)
					return
				} else if err != nil {
					http.Error(w, err.Error(), http.StatusRequestTimeout)
					return
				}
				time.Sleep(think)
			}
		})
	}
	ping := request{method: "POST", path: "/mcp", head: typed, body: host.Method("1", "ping", "")}
	upload := request{method: "POST", path: "/upload", body: strings.Repeat("x", 45)}
	for _, w := range wires {
		if w.middleware {
			continue // that is another one
		}
		t.Run(w.name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				dial, _ := w.begin(t, troupe.Options{Middleware: middleware})
				for _, r := range []request{ping, upload} {
					if w.http2 {
						f := newFrames(dial(), 64<<10)
						id := f.send(r, false)
						synctest.Wait()
						f.write(0, 1, id, []byte(r.body))
						if end := <-f.over; end.err != nil || end.status != 0x88 || end.reset {
							t.Errorf("%s: %+v, %v, want 200", r, end, end.err)
						}
						continue
					}
					conn := dial()
					head, body, _ := strings.Cut(r.text(""), "\r\n\r\n")
					_, _ = io.WriteString(conn, head+"\r\n\r\n")
					synctest.Wait()
					go func() { _, _ = io.WriteString(conn, body) }()
					resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
					if err != nil {
						t.Fatal(err)
					}
					got, err := io.ReadAll(resp.Body)
					want := "45"
					if r.path == "/mcp" {
						want = `"result":{}`
					}
					if resp.StatusCode != 200 || !bytes.Contains(got, []byte(want)) || err != nil {
						t.Errorf("%s: %s %q, %v", r, resp.Status, got, err)
					}
				}
			})
		})
	}
}
