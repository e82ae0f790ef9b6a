package transport

import (
	"bytes"
	"net/http"
)

// framedKey marks the context of a connection whose headers a DrainListener reads.
type framedKey struct{}

// framed reports whether r cannot have had two lengths: a framing has read its header. A request in chunks that comes
// in another way, over TLS or to a server without a DrainListener, may have had a Content-Length too. Its connection is
// closed after it, so that nothing is taken for a further request.
func framed(r *http.Request) bool { return r.Context().Value(framedKey{}) != nil }

// framing looks for a request whose header has both Content-Length and Transfer-Encoding (RFC 9112, 6.3). Two servers
// in a row may take different ends for such a request, so that a client gets a request of its own past the first one.
// net/http deletes Content-Length from it, so that no handler can see that it was there.
type framing struct {
	line           [len("transfer-encoding:")]byte // the beginning of the line that comes
	n              int                             // of line
	length, coding bool                            // seen so far
	over           bool                            // the header is complete
}

var (
	contentLength    = []byte("content-length:")
	transferEncoding = []byte("transfer-encoding:")
)

// twice takes the next bytes of a connection, and reports whether the header has both.
func (f *framing) twice(p []byte) bool {
	for len(p) > 0 && !f.over {
		end := bytes.IndexByte(p, '\n')
		if end < 0 || f.n > 0 { // a line in several pieces
			whole := end >= 0
			if !whole {
				end = len(p)
			}
			if f.n += copy(f.line[f.n:], p[:end]); !whole {
				break
			}
			f.judge(f.line[:f.n])
			f.n = 0
		} else {
			f.judge(p[:end])
		}
		p = p[end+1:]
	}
	return f.length && f.coding
}

// judge looks at a line, of which the beginning is enough.
func (f *framing) judge(line []byte) {
	if len(line) == 0 || len(line) == 1 && line[0] == '\r' {
		f.over = true
		return
	}
	switch line[0] | 0x20 {
	case 'c':
		f.length = f.length || hasName(line, contentLength)
	case 't':
		f.coding = f.coding || hasName(line, transferEncoding)
	}
}

func hasName(line, name []byte) bool {
	return len(line) >= len(name) && bytes.EqualFold(line[:len(name)], name)
}
