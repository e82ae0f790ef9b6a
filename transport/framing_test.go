package transport

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/transport/server"
)

// pieces writes text in pieces of n bytes, as far as the server reads.
func pieces(conn net.Conn, text string, n int) {
	for len(text) > 0 {
		n := min(n, len(text))
		if _, err := io.WriteString(conn, text[:n]); err != nil {
			return
		}
		text = text[n:]
	}
}

// hidden is a body for a request in chunks and, if it has a length too, a request within that length.
const hidden = "0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"

// framings are heads of requests. faulty says that two servers may take different ends for the request.
var framings = map[string]struct {
	head   string
	faulty bool
}{
	"both":                {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", true},
	"the other way":       {"Transfer-Encoding: chunked\r\nHost: x\r\nContent-Length: 5\r\n", true},
	"in any case":         {"cOnTENT-lENGTH: 5\r\nTRANSFER-encoding: chunked\r\n", true},
	"without a blank":     {"Content-Length:5\r\nTransfer-Encoding:chunked\r\n", true},
	"lines without CR":    {"Content-Length: 5\nTransfer-Encoding: chunked\n", true},
	"a folded line":       {"X: y\r\n\tz\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n", true},
	"a folded length":     {"Content-Length:\r\n 5\r\n", true},
	"a length of nothing": {"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", true},
	"far apart":           {"Content-Length: 5\r\nX: " + strings.Repeat("y", 9000) + "\r\nTransfer-Encoding: chunked\r\n", true},
	"chunked alone":       {"Transfer-Encoding: chunked\r\n", false},
	"another name":        {"Transfer-Encoding: chunked\r\nX-Content-Length: 5\r\nContent-Lengths: 5\r\n", false},
	"a value":             {"Transfer-Encoding: chunked\r\nX: content-length: 5\r\n", false},
	"a length, no chunk":  {"Content-Length: 5\r\nTE: trailers\r\nX-Transfer-Encoding: chunked\r\n", false},
	"the length twice":    {"Content-Length: 5\r\nContent-Length: 5\r\n", false},
}

// TestFraming sends requests whose end two servers may see in different places, whole and in pieces, on new and on kept
// connections, and behind other requests that are sent with them. A request that is hidden in such a body never runs.
func TestFraming(t *testing.T) {
	when.Unraced(t, "one goroutine does all of it")
	t.Parallel()
	const get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	before := map[string]struct {
		text string
		n    int // requests
		kept bool
	}{
		"new":           {"", 0, false},
		"kept":          {get, 1, true},
		"a GET":         {get, 1, false},
		"three":         {get + get + get, 3, false},
		"a body":        {post("Content-Length: 70\r\n", "POST /b HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nx"), 1, false},
		"an empty line": {post("Content-Length: 5\r\n", "12345\r\n"), 1, false},
		"chunks":        {post("Transfer-Encoding: chunked\r\n", "6;x=y\r\n0\r\n\r\n\n\r\n00A\r\n0123456789\r\n0\r\nContent-Length: 3\r\n\r\n"), 1, false},
		"a bare chunk":  {post("Transfer-Encoding: chunked\r\n", "0\r\n\r\n") + get, 2, false},
	}
	for served, front := range map[string]func(net.Listener, *http.Server) net.Listener{"front": front, "net/http": func(ln net.Listener, _ *http.Server) net.Listener { return ln }} {
		for name, row := range framings {
			for what, first := range before {
				for _, piece := range []int{1, 3, 7, 1 << 20} {
					synctest.Test(t, func(t *testing.T) {
						first := first
						what := fmt.Sprintf("%s, %s, after %s, by %d", served, name, what, piece)
						c := crowdBehind(t, server.Crowd{PerAddress: 9}, front)
						conn, _ := c.dial("192.0.2.1", "")
						_ = conn.SetReadDeadline(time.Time{})
						br := bufio.NewReader(conn)
						rest := "POST /a HTTP/1.1\r\nHost: x\r\n" + row.head + "\r\n" + hidden
						begin := time.Now()
						ask := func() *http.Response {
							resp, err := http.ReadResponse(br, nil)
							if err != nil {
								t.Fatalf("%s: %v", what, err)
							}
							return resp
						}
						if first.kept {
							go pieces(conn, first.text, 1<<20)
							ask()
							synctest.Wait()
							first.text, first.n = "", 0
						}
						go pieces(conn, first.text+rest, piece)
						for i := range first.n {
							if resp := ask(); resp.StatusCode != 200 || resp.Close {
								t.Errorf("%s: the response before, %d: %s, close %t", what, i, resp.Status, resp.Close)
							}
						}
						resp := ask()
						want, refused := 200, 0
						if row.faulty {
							want, refused = 400, 1
						}
						if resp.StatusCode != want || resp.Close != row.faulty {
							t.Errorf("%s: %s, close %t; want %d", what, resp.Status, resp.Close, want)
						}
						if took := time.Since(begin); took > 0 {
							t.Errorf("%s: answered after %v", what, took)
						}
						if seen := c.seen(); len(seen) != refused || refused == 1 && seen[0] != "400 framing" {
							t.Errorf("%s: %q is counted", what, seen)
						}
						if row.faulty {
							if rest, err := io.ReadAll(br); string(rest) != "400 Bad Request" || err != nil {
								t.Errorf("%s: then comes %q, %v", what, rest, err)
							}
						}
						_ = conn.Close()
						time.Sleep(time.Second) // net/http lingers after a 400
					})
				}
			}
		}
	}
}

func post(headers, body string) string {
	return "POST /p HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n" + body
}
