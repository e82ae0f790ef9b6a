package transport

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestFraming sends requests whose end two servers may see in different places, whole and in pieces, on new and on kept
// connections. A request that is hidden in such a body never runs.
func TestFraming(t *testing.T) {
	t.Parallel()
	const body = "0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, row := range map[string]struct {
		head string
		both bool
	}{
		"both":               {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", true},
		"the other way":      {"Transfer-Encoding: chunked\r\nHost: x\r\nContent-Length: 5\r\n", true},
		"in any case":        {"cOnTENT-lENGTH: 5\r\nTRANSFER-encoding: chunked\r\n", true},
		"without a blank":    {"Content-Length:5\r\nTransfer-Encoding:chunked\r\n", true},
		"lines without CR":   {"Content-Length: 5\nTransfer-Encoding: chunked\n", true},
		"a folded line":      {"X: y\r\n\tz\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n", true},
		"far apart":          {"Content-Length: 5\r\nX: " + strings.Repeat("y", 9000) + "\r\nTransfer-Encoding: chunked\r\n", true},
		"chunked alone":      {"Transfer-Encoding: chunked\r\n", false},
		"another name":       {"Transfer-Encoding: chunked\r\nX-Content-Length: 5\r\nContent-Lengths: 5\r\n", false},
		"a value":            {"Transfer-Encoding: chunked\r\nX: content-length: 5\r\n", false},
		"a length, no chunk": {"Content-Length: 5\r\nTE: trailers\r\nX-Transfer-Encoding: chunked\r\n", false},
	} {
		for _, kept := range []bool{false, true} {
			for _, piece := range []int{1, 7, 1 << 20} {
				synctest.Test(t, func(t *testing.T) {
					c := crowdOf(t, Crowd{PerAddress: 9})
					first := ""
					if kept {
						first = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
					}
					conn, _ := c.dial("192.0.2.1", "")
					_ = conn.SetReadDeadline(time.Time{})
					br := bufio.NewReader(conn)
					respond := func(text string, piece int) *http.Response {
						go func() {
							for len(text) > 0 {
								n := min(piece, len(text))
								if _, err := io.WriteString(conn, text[:n]); err != nil {
									return
								}
								text = text[n:]
							}
						}()
						resp, err := http.ReadResponse(br, nil)
						if err != nil {
							t.Fatalf("%s: %v", name, err)
						}
						return resp
					}
					if kept {
						respond(first, 1<<20)
						synctest.Wait()
					}
					begin := time.Now()
					resp := respond("POST /a HTTP/1.1\r\nHost: x\r\n"+row.head+"\r\n"+body, piece)
					want, refused := 200, 0
					if row.both {
						want, refused = 400, 1
					}
					if resp.StatusCode != want || resp.Close != row.both {
						t.Errorf("%s, kept %t, by %d: %s, close %t; want %d", name, kept, piece, resp.Status, resp.Close, want)
					}
					if took := time.Since(begin); took > 0 {
						t.Errorf("%s, kept %t, by %d: answered after %v", name, kept, piece, took)
					}
					seen := c.seen()
					if len(seen) != refused || refused == 1 && seen[0] != "400 framing" {
						t.Errorf("%s: %q is counted", name, seen)
					}
					_ = conn.Close()
					time.Sleep(time.Second) // net/http lingers after a 400
				})
			}
		}
	}
}

// BenchmarkFraming reads the header of a usual request.
func BenchmarkFraming(b *testing.B) {
	head := []byte(request("POST", "127.0.0.1:8080", ping, "Mcp-Session-Id: 0123456789abcdef0123456789abcdef", "Mcp-Protocol-Version: 2025-11-25", "User-Agent: node"))
	b.ReportAllocs()
	for b.Loop() {
		var f framing
		f.twice(head)
	}
}
