package server

import (
	"bytes"
	"net/http"
	"strconv"
)

// framedKey marks the context of a connection whose headers a Listener reads.
type framedKey struct{}

// Framed reports whether r cannot have had two lengths: a framing has read its header. A request in chunks that comes
// in another way, over TLS or to a server without a Listener, may have had a Content-Length too. Its connection is
// closed after it, so that nothing is taken for a further request.
func Framed(r *http.Request) bool { return r.Context().Value(framedKey{}) != nil }

// framing follows the requests of a connection from header to header, to find one whose end two servers in a row may see in
// different places, so that a client gets a request of its own past the first one (RFC 9112, 6.1 and 6.3). net/http deletes
// Content-Length from a request that has Transfer-Encoding too, and ignores Transfer-Encoding in one of HTTP/1.0, so that no
// handler can see that it was there. A body that net/http cannot read is not followed, as the connection ends with it.
type framing struct {
	part           part
	line           [48]byte // of the line that comes in pieces, the beginning and, if it is longer, the end
	n              int      // of line
	long           bool     // it is longer than that
	sent           int      // bytes of the header that earlier reads have returned, at most peeked
	begun          bool     // the first line of the header has come
	old            bool     // it is of HTTP/1.0
	length, coding bool     // seen so far
	left           int64    // bytes of the body, or of its chunk
}

// part is what comes next.
type part uint8

const (
	inHeader    part = iota // or the empty lines before it
	inBody                  // of a known length
	inChunkSize             // a line
	inChunk
	inChunkEnd // the empty line after it
	inTrailer
	notFollowed
)

// peeked is how many bytes of a request net/http must have to answer it on a kept connection.
const peeked = 4

var (
	contentLength    = []byte("content-length:")
	transferEncoding = []byte("transfer-encoding:")
	version10        = []byte("HTTP/1.0")
)

// skipped has the bytes with which a line of a header begins that says nothing of the body, and is not the empty line.
var skipped = func() (t [256]bool) {
	for i := range t {
		t[i] = i != '\r' && i|0x20 != 'c' && i|0x20 != 't'
	}
	return t
}()

// followBytes takes the next bytes of a connection, and returns how many of them may be read. If a header among them is faulty,
// that is what is before it, and as much of it as net/http must have to refuse it.
func (f *framing) followBytes(p []byte) (n int, faulty bool) {
	header := 0 // where the header begins in p
	for at := 0; at < len(p) && f.part != notFollowed; {
		if f.part == inBody || f.part == inChunk {
			n := min(f.left, int64(len(p)-at))
			at += int(n)
			if f.left -= n; f.left > 0 {
				break
			}
			if f.part == inChunk {
				f.part = inChunkEnd
			} else {
				f.part, f.sent, header = inHeader, 0, at
			}
			continue
		}
		end := bytes.IndexByte(p[at:], '\n')
		if end < 0 {
			f.keepPiece(p[at:])
			break
		}
		line := p[at : at+end]
		if f.begun && f.n == 0 && f.part == inHeader && end > 0 && skipped[line[0]] { // most lines of a header
			at += end + 1
			continue
		}
		f.long = f.long || len(line) > len(f.line)
		if at += end + 1; f.n > 0 {
			f.keepPiece(line)
			line, f.n = f.line[:f.n], 0
		}
		if f.takeLine(line) {
			return min(len(p), max(0, header+peeked-f.sent)), true
		}
		f.long = false
		if f.part == inHeader && !f.begun {
			header, f.sent = at, 0
		}
	}
	if f.part == inHeader {
		f.sent = min(peeked, f.sent+len(p)-header)
	}
	return len(p), false
}

// keepPiece adds to a line that comes in pieces.
func (f *framing) keepPiece(piece []byte) {
	n := copy(f.line[f.n:], piece)
	f.n += n
	if piece = piece[n:]; len(piece) > 0 {
		f.long = true
		end := f.line[len(f.line)-len(version10)-1:] // with a CR
		n := min(len(piece), len(end))
		copy(end, end[n:])
		copy(end[len(end)-n:], piece[len(piece)-n:])
	}
}

// takeLine takes a line, and reports whether it makes the header faulty.
func (f *framing) takeLine(line []byte) (faulty bool) {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	switch f.part {
	case inHeader:
		switch {
		case len(line) > 0 && f.begun:
			return f.judgeHeaderLine(line)
		case len(line) > 0:
			f.begun, f.old = true, bytes.HasSuffix(line, version10)
		case f.begun:
			f.endHeader()
		}
	case inChunkSize:
		f.readChunkSize(line)
	case inChunkEnd:
		if f.part = inChunkSize; len(line) > 0 {
			f.part = notFollowed
		}
	case inTrailer:
		if len(line) == 0 {
			f.part = inHeader
		}
	}
	return false
}

// judgeHeaderLine looks at a line of a header.
func (f *framing) judgeHeaderLine(line []byte) (faulty bool) {
	switch line[0] | 0x20 {
	case 'c':
		if !hasName(line, contentLength) {
			return false
		}
		n, err := strconv.ParseInt(string(bytes.Trim(line[len(contentLength):], " \t")), 10, 64)
		if err != nil || n < 0 || f.length && n != f.left || f.long { // of a long line that came in pieces the middle is not known
			return true
		}
		f.length, f.left = true, n
	case 't':
		f.coding = f.coding || hasName(line, transferEncoding)
	}
	return f.coding && (f.length || f.old)
}

// endHeader ends a header.
func (f *framing) endHeader() {
	switch {
	case f.coding:
		f.part = inChunkSize
	case f.left > 0:
		f.part = inBody
	}
	f.begun, f.length, f.coding = false, false, false
}

// readChunkSize takes the line before a chunk.
func (f *framing) readChunkSize(line []byte) {
	digits := 0
	for digits < len(line) && (line[digits]-'0' < 10 || line[digits]|0x20-'a' < 6) {
		digits++
	}
	n, err := strconv.ParseInt(string(line[:digits]), 16, 64)
	switch {
	case err != nil:
		f.part = notFollowed
	case n == 0:
		f.part = inTrailer
	default:
		f.part, f.left = inChunk, n
	}
}

// expectRequest makes f go on with the next request, for which the server waits, also if f has not seen the end of the last.
func (f *framing) expectRequest() {
	if f.part != inHeader {
		*f = framing{}
	}
}

// awaitsRequest reports whether nothing of a request has come but an empty line, which may end the one before.
func (f *framing) awaitsRequest() bool {
	return f.part == inHeader && !f.begun && (f.n == 0 || f.n == 1 && f.line[0] == '\r')
}

func hasName(line, name []byte) bool {
	return len(line) >= len(name) && bytes.EqualFold(line[:len(name)], name)
}
