package server

import (
	"strings"
	"testing"
)

// TestFramingOfOldRequests has a request of HTTP/1.0 come in chunks, which net/http does not read.
func TestFramingOfOldRequests(t *testing.T) {
	t.Parallel()
	for _, piece := range []int{1, 7, 1 << 20} {
		for _, path := range []string{"/", "/" + strings.Repeat("a", 300)} {
			var f framing
			text, got := "POST "+path+" HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n", false
			for ; len(text) > 0 && !got; text = text[min(piece, len(text)):] {
				_, got = f.followBytes([]byte(text[:min(piece, len(text))]))
			}
			if !got {
				t.Errorf("by %d, %s: nothing is noticed", piece, path)
			}
		}
	}
}

// TestFramingOfPaddedLengths cuts a request with a length that is padded with blanks in two, at each place, with another request behind it:
// the end of the first is where a server sees it, or the header is faulty. A length is never taken for another one.
func TestFramingOfPaddedLengths(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("x", 12) + "POST /x HTTP/1.1\r\nContent-Length: 1000\r\n\r\n" // what 12 bytes would make a header of
	body += strings.Repeat("x", 123-len(body))
	for _, blanks := range []string{"", " ", strings.Repeat(" ", 21), strings.Repeat("\t", 22), strings.Repeat(" ", 23), strings.Repeat(" ", 300)} {
		for _, after := range []string{"", strings.Repeat(" ", 7), strings.Repeat(" ", 8), strings.Repeat(" ", 9), strings.Repeat(" ", 300)} {
			head := "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length:" + blanks + "123" + after + "\r\n\r\n"
			text := head + body + "POST /mcp HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
			second := strings.LastIndex(text, "POST")
			for at := range second {
				var f framing
				n, faulty := f.followBytes([]byte(text[:at]))
				if !faulty {
					more := 0
					more, faulty = f.followBytes([]byte(text[at:]))
					n += more
				}
				refused := n < len(head) && len(blanks)+len(after) > 28 // the line has more than 48 bytes
				if !faulty || n != second+peeked && !refused {
					t.Fatalf("%q and %q around the length, cut at %d: faulty %t after %d bytes, want %d", blanks, after, at, faulty, n, second+peeked)
				}
			}
		}
	}
}

// BenchmarkFraming reads the header of a usual request, and its body.
func BenchmarkFraming(b *testing.B) {
	all := []byte("POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: 40\r\n" +
		"Mcp-Session-Id: 0123456789abcdef0123456789abcdef\r\nMcp-Protocol-Version: 2025-11-25\r\nUser-Agent: node\r\n\r\n" + `{"jsonrpc":"2.0","id":7,"method":"ping"}`)
	b.ReportAllocs()
	var f framing
	for b.Loop() {
		if n, faulty := f.followBytes(all); n != len(all) || faulty || f.part != inHeader {
			b.Fatalf("%+v", f)
		}
	}
}
