package http1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxUnsized is how much of a response without a Content-Length is kept back, in case that it is all.
	maxUnsized = 2048
	// maxCopied is how much of a body goes out in one write with what was before it.
	maxCopied = 16 << 10
	// sniffBytes is how much of a body http.DetectContentType looks at.
	sniffBytes = 512
)

// call is one request, its body and its response.
type call struct {
	conn *conn
	ctx  callContext
	url  url.URL
	body body
	response
}

// watchClient has the connection watched for its end, while the request goes on.
func (x *call) watchClient() bool { return x.conn.watchClient(x) }

// response is the part of a call that answers.
type response struct {
	header    http.Header
	status    int   // 0 until WriteHeader
	length    int64 // that the handler has announced; -1: none
	wrote     int64 // of the body
	out       []byte
	pooled    *[]byte // that out began as
	early     []byte  // a body of unknown length, whose head is not written
	typed     bool    // the handler has set Content-Type, or Content-Encoding, and the body is not looked at for one
	dated     bool    // the handler has set Date
	headEnded bool    // the head is in out whole, or was written
	chunked   bool
	last      bool // the connection is closed after it
	empty     bool // its status has no body
	hijacked  bool
	over      bool // the handler has returned
	err       error
}

var (
	_ http.ResponseWriter = (*call)(nil)
	_ http.Flusher        = (*call)(nil)
	_ http.Hijacker       = (*call)(nil)
)

func (r *response) begin(last bool) { r.length, r.last = -1, last }

// Header implements http.ResponseWriter.
func (x *call) Header() http.Header {
	if x.header == nil {
		if x.over {
			return make(http.Header) // that of the connection is another call's
		}
		x.header = x.conn.responseHeader()
	}
	return x.header
}

// WriteHeader implements http.ResponseWriter. The header is taken as it is now. Informational responses are not sent.
func (x *call) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("http1: invalid WriteHeader code %v", status)) // as net/http does
	}
	if x.status != 0 || x.hijacked || x.over || status < 200 {
		return
	}
	x.status = status
	x.empty = status == http.StatusNoContent || status == http.StatusNotModified
	x.pooled = outs.Get().(*[]byte)
	out := append((*x.pooled)[:0], "HTTP/1.1 "...)
	out = append(strconv.AppendInt(out, int64(status), 10), ' ')
	if text := http.StatusText(status); text != "" {
		out = append(out, text...)
	} else {
		out = strconv.AppendInt(append(out, "status code "...), int64(status), 10)
	}
	out = append(out, '\r', '\n')
	for key, values := range x.header {
		switch key {
		case "Connection":
			x.last = x.last || len(values) > 0 && strings.EqualFold(values[0], "close")
			continue
		case "Transfer-Encoding":
			continue
		case "Content-Length":
			if len(values) > 0 {
				x.setLength(values[0])
			}
			continue
		case "Content-Type":
			if x.typed = true; status == http.StatusNotModified {
				continue
			}
		case "Content-Encoding":
			x.typed = x.typed || len(values) > 0 && values[0] != ""
		case "Date":
			x.dated = true
		}
		if !isName(key) {
			continue
		}
		for _, v := range values {
			out = appendField(out, key, v)
		}
	}
	x.out = out
}

// setLength takes the Content-Length of a handler, if it is one.
func (x *call) setLength(value string) {
	if n, err := strconv.ParseInt(value, 10, 64); err == nil && n >= 0 {
		x.length = n
	}
}

// Write implements http.ResponseWriter.
func (x *call) Write(b []byte) (int, error) {
	switch {
	case x.hijacked:
		return 0, http.ErrHijacked
	case x.over:
		return 0, errOver
	}
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	switch {
	case x.err != nil:
		return 0, x.err
	case x.empty:
		return 0, http.ErrBodyNotAllowed
	}
	if x.wrote += int64(len(b)); x.length >= 0 && x.wrote > x.length {
		return 0, http.ErrContentLength
	}
	if x.length < 0 && !x.headEnded {
		if len(x.early)+len(b) <= maxUnsized {
			x.early = append(x.early, b...)
			return len(b), nil
		}
		x.endHead(b)
	} else if !x.headEnded {
		x.endHead(b)
	}
	x.appendBody(b)
	return len(b), x.err
}

// appendBody adds to the body, once the head is there.
func (x *call) appendBody(b []byte) {
	if len(b) == 0 {
		return
	}
	if x.chunked {
		x.out = append(strconv.AppendInt(x.out, int64(len(b)), 16), '\r', '\n')
	}
	if len(x.out)+len(b) > maxCopied {
		x.writePending()
		x.writeToConn(b)
	} else {
		x.out = append(x.out, b...)
	}
	if x.chunked {
		x.out = append(x.out, '\r', '\n')
	}
}

// endHead ends the head in out, before the body that begins with b.
func (x *call) endHead(b []byte) {
	x.headEnded = true
	if x.conn.ending() || !x.last && !x.body.discard() {
		x.last = true
	}
	out := x.out
	if !x.typed && !x.empty && len(x.early)+len(b) > 0 {
		first := x.early
		if len(first) < sniffBytes {
			first = append(first[:len(first):len(first)], b[:min(len(b), sniffBytes)]...)
		}
		out = appendField(out, "Content-Type", http.DetectContentType(first))
	}
	if !x.dated {
		out = append(append(append(out, "Date: "...), date()...), '\r', '\n')
	}
	switch {
	case x.empty:
	case x.length >= 0:
		out = append(strconv.AppendInt(append(out, "Content-Length: "...), x.length, 10), '\r', '\n')
	default:
		x.chunked = true
		out = append(out, "Transfer-Encoding: chunked\r\n"...)
	}
	if x.last {
		out = append(out, "Connection: close\r\n"...)
	}
	x.out = append(out, '\r', '\n')
	if early := x.early; len(early) > 0 {
		x.early = nil
		x.appendBody(early)
	}
}

// appendField appends a line of a header. What would end the line is a space in it, as net/http has it.
func appendField(out []byte, key, value string) []byte {
	out = append(append(out, key...), ':', ' ')
	if strings.IndexByte(value, '\n') >= 0 || strings.IndexByte(value, '\r') >= 0 {
		value = strings.NewReplacer("\n", " ", "\r", " ").Replace(value)
	}
	return append(append(out, value...), '\r', '\n')
}

// writePending writes what waits.
func (x *call) writePending() {
	if len(x.out) > 0 {
		b := x.out
		x.out = x.out[:0]
		x.writeToConn(b)
	}
}

func (x *call) writeToConn(b []byte) {
	if x.err != nil {
		return
	}
	if _, err := x.conn.rwc.Write(b); err != nil {
		x.err = err
		x.ctx.end()
	}
}

// Flush implements http.Flusher.
func (x *call) Flush() { _ = x.FlushError() }

// FlushError is Flush, for http.ResponseController.
func (x *call) FlushError() error {
	switch {
	case x.hijacked:
		return http.ErrHijacked
	case x.over:
		return errOver
	}
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	if !x.headEnded {
		x.endHead(nil)
	}
	x.writePending()
	return x.err
}

// finishResponse writes what the handler has left to write, and reports whether the connection can go on.
func (x *call) finishResponse() bool {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	if !x.headEnded {
		if x.length < 0 {
			x.length = int64(len(x.early))
		}
		x.endHead(nil)
	}
	if x.chunked {
		x.out = append(x.out, "0\r\n\r\n"...)
	}
	x.writePending()
	short := x.length >= 0 && !x.empty && x.wrote != x.length
	return x.err == nil && !x.last && !short
}

// releaseBuffers takes from the call what the next one uses again, also if the handler has left a goroutine behind that writes.
func (x *call) releaseBuffers() {
	x.over, x.header = true, nil
	if p := x.pooled; p != nil && cap(x.out) <= 2*maxCopied {
		*p = x.out[:0]
		outs.Put(p)
	}
	x.out, x.pooled = nil, nil
}

// errOver is returned to goroutines that a handler has left behind.
var errOver = errors.New("http1: the handler has returned")

// outs has the buffers in which responses are put together. A connection that waits has none.
var outs = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// Hijack implements http.Hijacker.
func (x *call) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if x.hijacked {
		return nil, nil, http.ErrHijacked
	}
	if x.over {
		return nil, nil, errOver
	}
	if x.status != 0 {
		_ = x.FlushError()
	}
	rest := x.conn.takeOver()
	x.hijacked, x.out, x.early, x.pooled = true, nil, nil, nil
	c := x.conn.rwc
	var from io.Reader = c
	if len(rest) > 0 {
		from = io.MultiReader(bytes.NewReader(rest), c)
	}
	rw := bufio.NewReadWriter(bufio.NewReaderSize(from, max(len(rest), 16)), bufio.NewWriterSize(c, 16))
	if len(rest) > 0 {
		_, _ = rw.Reader.Peek(len(rest))
	}
	return c, rw, nil
}

// SetReadDeadline is for http.ResponseController.
func (x *call) SetReadDeadline(t time.Time) error {
	x.conn.readDeadlineSet.Store(true)
	return x.conn.rwc.SetReadDeadline(t)
}

// SetWriteDeadline is for http.ResponseController. It holds for this response.
func (x *call) SetWriteDeadline(t time.Time) error {
	x.conn.writeDeadlineSet.Store(true)
	return x.conn.rwc.SetWriteDeadline(t)
}

// EnableFullDuplex is for http.ResponseController: a handler that answers before it has read the body must not mix the two.
func (x *call) EnableFullDuplex() error { return http.ErrNotSupported }

// stamp is the Date of responses in one second.
type stamp struct {
	second int64
	text   []byte
}

var lastStamp atomic.Pointer[stamp]

func date() []byte {
	now := time.Now()
	s := lastStamp.Load()
	if s == nil || s.second != now.Unix() {
		s = &stamp{now.Unix(), now.UTC().AppendFormat(nil, http.TimeFormat)}
		lastStamp.Store(s)
	}
	return s.text
}
