package host

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/troupe-run/troupe/test/kit"
)

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error)
	return ok && timeout.Timeout()
}

// RawPost returns the head of a POST in c's session on a raw connection; length is the header that gives the length of
// the body.
func RawPost(c *kit.Client, length string) string {
	return "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n" +
		"Mcp-Session-Id: " + c.Session + "\r\n" + length + "\r\n\r\n"
}

// ReadRaw reads a response from a raw connection. ends says whether the connection ends with it.
func ReadRaw(t *testing.T, conn net.Conn) (resp *http.Response, body string, ends bool) {
	t.Helper()
	br := bufio.NewReader(conn)
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatalf("no response: %v", err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("response cut short: %v", err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	_, err = br.ReadByte()
	return resp, string(b), err != nil && !isTimeout(err)
}
