package http1

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

const get = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"

func post(headers, body string) string {
	return "POST /p HTTP/1.1\r\nHost: h\r\n" + headers + "\r\n" + body
}

// requests are what clients send on one connection. odd says that net/http serves it.
var requests = []struct {
	name, raw, want string
	odd             bool
}{
	{"plain", get, "200 open", false},
	{"a body", post("Content-Length: 3\r\n", "abc"), "200 open", false},
	{"two at once", post("Content-Length: 3\r\n", "abc") + get, "200 200 open", false},
	{"three at once", get + post("content-length:3\r\n", "abc") + get, "200 200 200 open", false},
	{"close", "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n" + get, "200 closed", false},
	{"Close", "GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive\r\nConnection: Close\r\n\r\n", "200 closed", false},
	{"keep-alive", "GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive\r\n\r\n", "200 open", false},
	{"keep-alive, close", "GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, close\r\n\r\n", "200 closed", true},
	{"close that is cached", strings.Repeat("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 2), "200 closed", false},
	{"HEAD", "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n", "200 open", true},
	{"HTTP/1.0", "GET / HTTP/1.0\r\nHost: h\r\n\r\n", "200 closed", true},
	{"absolute", "GET http://x/y HTTP/1.1\r\nHost: h\r\n\r\n", "200 open", true},
	{"two slashes", "GET //x/y HTTP/1.1\r\nHost: h\r\n\r\n", "200 open", true},
	{"a query", "GET /x%20y/?a=b;c&d#e HTTP/1.1\r\nHost: h:80\r\n\r\n", "200 open", false},
	{"a bad escape", "GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n", "400 closed", true},
	{"no Host", "GET / HTTP/1.1\r\n\r\n", "400 closed", true},
	{"an empty Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", "200 open", true},
	{"two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "400 closed", true},
	{"a bad Host", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "400 closed", true},
	{"two Hosts after one", "GET / HTTP/1.1\r\nX: 1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: b\r\nHost: a\r\n\r\n", "200 400 closed", true},
	{"another Host", get + "GET /a HTTP/1.1\r\nHost: other\r\n\r\n" + get, "200 200 200 open", false},
	{"Host elsewhere", "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\nY: 2\r\n\r\nGET / HTTP/1.1\r\nX: 1\r\nHost: b\r\nY: 2\r\n\r\nGET / HTTP/1.1\r\nX: 1\r\nHost: b\r\n\r\n", "200 200 200 open", false},
	{"no Host after one", get + "GET /a HTTP/1.1\r\nX: y\r\n\r\n", "200 400 closed", true},
	{"fields in turn", "GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\nA: 2\r\nB: 3\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nB: 3\r\nA: 2\r\nA: 1\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nB: 3\r\n\r\n", "200 200 200 open", false},
	{"two lengths", post("Content-Length: 3\r\nContent-Length: 3\r\n", "abc"), "200 open", true},
	{"two unlike lengths", post("Content-Length: 3\r\nContent-Length: 4\r\n", "abcd"), "400 closed", true},
	{"a list of lengths", post("Content-Length: 3, 3\r\n", "abc"), "400 closed", true},
	{"a signed length", post("Content-Length: +3\r\n", "abc"), "400 closed", true},
	{"a negative length", post("Content-Length: -3\r\n", "abc"), "400 closed", true},
	{"a length in hex", post("Content-Length: 0x3\r\n", "abc"), "400 closed", true},
	{"a length with zeros", post("Content-Length: 0003\r\n", "abc"), "200 open", false},
	{"an empty length", post("Content-Length: \r\n", ""), "400 closed", true},
	{"a huge length", post("Content-Length: 99999999999999999999\r\n", ""), "400 closed", true},
	{"chunked", post("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n") + get, "200 200 open", true},
	{"chunked after plain", get + post("transfer-encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n") + get, "200 200 200 open", true},
	{"chunked and a length", post("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"), "200 open", true},
	{"xchunked", post("Transfer-Encoding: xchunked\r\n", ""), "501 closed", true},
	{"chunked in a list", post("Transfer-Encoding: gzip, chunked\r\n", ""), "501 closed", true},
	{"chunked, folded", post("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n"), "200 open", true},
	{"space before the colon", post("Content-Length : 3\r\n", "abc"), "400 closed", true},
	{"space before the colon of Transfer-Encoding", post("Transfer-Encoding : chunked\r\n", "0\r\n\r\n"), "400 closed", true},
	{"space before a name", "GET / HTTP/1.1\r\n Host: h\r\n\r\n", "400 closed", true},
	{"folded", "GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n", "200 open", true},
	{"a bare LF", "GET / HTTP/1.1\nHost: h\r\n\r\n", "200 open", true},
	{"bare LFs alone", "GET / HTTP/1.1\nHost: h\n\n", "200 open", true},
	{"a bare LF at the end", "GET / HTTP/1.1\r\nHost: h\r\n\n", "200 open", true},
	{"a bare LF in a value", "GET / HTTP/1.1\r\nHost: h\r\nX: a\nContent-Length: 3\r\n\r\nabc", "200 open", true},
	{"a bare CR in a value", "GET / HTTP/1.1\r\nHost: h\r\nX: a\rb\r\n\r\n", "400 closed", true},
	{"NUL in a value", "GET / HTTP/1.1\r\nHost: h\r\nX: a\x00b\r\n\r\n", "400 closed", true},
	{"NUL in a name", "GET / HTTP/1.1\r\nHost: h\r\nX\x00: a\r\n\r\n", "400 closed", true},
	{"NUL in a target", "GET /\x00 HTTP/1.1\r\nHost: h\r\n\r\n", "400 closed", true},
	{"bytes beyond ASCII", "GET / HTTP/1.1\r\nHost: h\r\nX: \xc3\xa4\r\n\r\n", "200 open", true},
	{"no name", "GET / HTTP/1.1\r\nHost: h\r\n: a\r\n\r\n", "400 closed", true},
	{"no colon", "GET / HTTP/1.1\r\nHost: h\r\nabc\r\n\r\n", "400 closed", true},
	{"an empty value", "GET / HTTP/1.1\r\nHost: h\r\nX:\r\nY: \t\r\n\r\n", "200 open", false},
	{"Pragma", "GET / HTTP/1.1\r\nHost: h\r\nPragma: no-cache\r\n\r\n", "200 open", true},
	{"Trailer", post("Trailer: X\r\nContent-Length: 1\r\n", "a"), "200 open", true},
	{"Expect", post("Expect: 100-continue\r\nContent-Length: 1\r\n", "a"), "100 200 open", true},
	{"another Expect", post("Expect: tea\r\nContent-Length: 1\r\n", "a"), "417 closed", true},
	{"Upgrade", "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", "200 open", true},
	{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "200 closed", true},
	{"another version", "GET / HTTP/2.0\r\nHost: h\r\n\r\n", "505 closed", true},
	{"no request", "hello there\r\n\r\n", "400 closed", true},
	{"an empty line first", "\r\n" + get, "400 closed", true},
	{"an empty line after a body", post("Content-Length: 3\r\n", "abc\r\n") + get, "200 200 open", false},
	{"an empty line at the end", post("Content-Length: 3\r\n", "abc\r\n"), "200 open", false},
	{"an empty line after each body", strings.Repeat(post("Content-Length: 3\r\n", "abc\r\n"), 3), "200 200 200 open", false},
	{"two empty lines after a body", post("Content-Length: 3\r\n", "abc\n\r\n\n") + get, "200 200 open", false},
	{"three empty lines after a body", post("Content-Length: 3\r\n", "abc\r\n\r\n\r\n") + get, "200 400 closed", true},
	{"an empty line after a GET", get + "\r\n" + get, "200 400 closed", true},
	{"an empty line before chunks", post("Content-Length: 3\r\n", "abc\r\n") + post("Transfer-Encoding: chunked\r\n", "0\r\n\r\n"), "200 200 open", true},
	{"many fields", "GET / HTTP/1.1\r\nHost: h\r\n" + strings.Repeat("X: y\r\n", 100) + "\r\n", "200 open", true},
	{"a body of 10 KB", post("Content-Length: 10000\r\n", strings.Repeat("b", 10_000)) + get, "200 200 open", false},
	{"a body of 1 MB", post("Content-Length: 1000000\r\n", strings.Repeat("b", 1_000_000)) + get, "200 200 open", false},
	{"a large head", "GET / HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("y", 9<<10) + "\r\n\r\n" + get, "200 200 open", false},
	{"a larger head", "GET / HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("y", 20<<10) + "\r\n\r\n" + get, "200 200 open", true},
	{"too large a head", "GET / HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("y", 40<<10) + "\r\n\r\n" + get, "431 closed", true},
}

// TestRequests requires that each request is answered as net/http answers it, and that its handler sees the same.
func TestRequests(t *testing.T) {
	t.Parallel()
	for _, row := range requests {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			both(t, record, func(w *world) string {
				p := w.dial().send(row.raw)
				time.Sleep(time.Second)
				short, whole := p.result()
				if short != row.want {
					t.Errorf("front %v: got %s, want %s", w.front != nil, short, row.want)
				}
				if w.front != nil && w.handed() != row.odd {
					t.Errorf("served by net/http: %v, want %v", w.handed(), row.odd)
				}
				return w.notes() + "\n" + whole
			})
		})
	}
}

// TestRequestsInPieces sends the same a few bytes at a time.
func TestRequestsInPieces(t *testing.T) {
	t.Parallel()
	for _, row := range requests {
		if len(row.raw) > 1000 {
			continue
		}
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			for _, size := range []int{1, 7} {
				both(t, record, func(w *world) string {
					p := w.dial()
					go func() {
						for rest := row.raw; rest != ""; {
							n := min(size, len(rest))
							if _, err := p.Write([]byte(rest[:n])); err != nil {
								return
							}
							rest = rest[n:]
							time.Sleep(time.Millisecond)
						}
					}()
					time.Sleep(5 * time.Second)
					short, whole := p.result()
					if short != row.want {
						t.Errorf("%d bytes at a time, front %v: got %s, want %s", size, w.front != nil, short, row.want)
					}
					return w.notes() + "\n" + whole
				})
			}
		})
	}
}

// TestHeaderOfItsOwn has a handler change the header of a request: the next one, which is the same, must not have that.
func TestHeaderOfItsOwn(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(http.Header){
		"set":    func(h http.Header) { h.Set("Authorization", "admin") },
		"add":    func(h http.Header) { h.Add("Authorization", "admin") },
		"new":    func(h http.Header) { h.Set("X-Role", "admin") },
		"delete": func(h http.Header) { h.Del("Authorization") },
		"values": func(h http.Header) { h["Authorization"][0] = "admin" },
		"moved":  func(h http.Header) { h["X"] = h["Authorization"]; delete(h, "Authorization") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			both(t, func(w *world) http.HandlerFunc {
				return func(_ http.ResponseWriter, r *http.Request) {
					w.note("%s", shown(r))
					change(r.Header)
				}
			}, func(w *world) string {
				p := w.dial().send(strings.Repeat("GET / HTTP/1.1\r\nHost: h\r\nAuthorization: me\r\nB: 1\r\n\r\n", 3))
				time.Sleep(time.Second)
				_, whole := p.result()
				return w.notes() + whole
			})
		})
	}
}
