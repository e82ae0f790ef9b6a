package http1

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// maxUnsized is how much of a response without a Content-Length is kept back, in case that it is all.
	maxUnsized = 2048
	// maxCopied is how much of a body goes out in one write with what was before it.
	maxCopied = 16 << 10
)

// call is one request, its body and its response.
type call struct {
	conn *conn
	ctx  callContext
	url  url.URL
	body body
	response
}

// watch has the connection watched for its end, while the request goes on.
func (x *call) watch() bool { return x.conn.watch(x) }

// response is the part of a call that answers.
type response struct {
	header   http.Header
	status   int   // 0 until WriteHeader
	length   int64 // that the handler has announced; -1: none
	wrote    int64 // of the body
	out      []byte
	early    []byte // a body of unknown length, whose head is not written
	sent     bool   // the head is in out, or was written
	chunked  bool
	last     bool // the connection is closed after it
	empty    bool // its status has no body
	hijacked bool
	err      error
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
		x.header = x.conn.responseHeader()
	}
	return x.header
}

// WriteHeader implements http.ResponseWriter. Informational responses are not sent.
func (x *call) WriteHeader(status int) {
	if x.status != 0 || x.hijacked || status < 200 {
		return
	}
	x.status = status
	x.empty = status == http.StatusNoContent || status == http.StatusNotModified
	if v := x.header["Content-Length"]; len(v) == 1 {
		if n, err := strconv.ParseInt(v[0], 10, 64); err == nil && n >= 0 {
			x.length = n
		} else {
			delete(x.header, "Content-Length")
		}
	}
	if v := x.header["Connection"]; len(v) > 0 && strings.EqualFold(v[0], "close") {
		x.last = true
	}
}

// Write implements http.ResponseWriter.
func (x *call) Write(b []byte) (int, error) {
	if x.hijacked {
		return 0, http.ErrHijacked
	}
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	switch {
	case x.err != nil:
		return 0, x.err
	case x.empty:
		return 0, http.ErrBodyNotAllowed
	case x.length >= 0 && x.wrote+int64(len(b)) > x.length:
		return 0, http.ErrContentLength
	}
	x.wrote += int64(len(b))
	if x.length < 0 && !x.sent {
		if len(x.early)+len(b) <= maxUnsized {
			x.early = append(x.early, b...)
			return len(b), nil
		}
		x.headed(b)
	} else if !x.sent {
		x.headed(b)
	}
	x.add(b)
	return len(b), x.err
}

// add adds to the body, once the head is there.
func (x *call) add(b []byte) {
	if len(b) == 0 {
		return
	}
	if x.chunked {
		x.out = append(strconv.AppendInt(x.out, int64(len(b)), 16), '\r', '\n')
	}
	if len(x.out)+len(b) > maxCopied {
		x.push()
		x.write(b)
	} else {
		x.out = append(x.out, b...)
	}
	if x.chunked {
		x.out = append(x.out, '\r', '\n')
	}
}

// headed puts the head into out, before the body that begins with b.
func (x *call) headed(b []byte) {
	x.sent = true
	if !x.last && !x.body.discard() {
		x.last = true
	}
	out := append(x.conn.outBuffer(), "HTTP/1.1 "...)
	out = strconv.AppendInt(out, int64(x.status), 10)
	out = append(out, ' ')
	if text := http.StatusText(x.status); text != "" {
		out = append(out, text...)
	} else {
		out = strconv.AppendInt(append(out, "status code "...), int64(x.status), 10)
	}
	out = append(out, '\r', '\n')
	kind := x.length > 0 || x.length < 0
	for key, values := range x.header {
		switch key {
		case "Connection", "Transfer-Encoding":
			continue
		case "Content-Type":
			kind = false
		case "Content-Length":
			if x.empty {
				continue
			}
		}
		for _, v := range values {
			out = appendField(out, key, v)
		}
	}
	if _, has := x.header["Content-Encoding"]; kind && !has && !x.empty {
		if first := append(x.early, b...); len(first) > 0 {
			out = appendField(out, "Content-Type", http.DetectContentType(first))
		}
	}
	if _, has := x.header["Date"]; !has {
		out = append(append(append(out, "Date: "...), date()...), '\r', '\n')
	}
	if x.length < 0 && !x.empty {
		x.chunked = true
		out = append(out, "Transfer-Encoding: chunked\r\n"...)
	}
	if x.last {
		out = append(out, "Connection: close\r\n"...)
	}
	x.out = append(out, '\r', '\n')
	if early := x.early; len(early) > 0 {
		x.early = nil
		x.add(early)
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

// push writes what waits.
func (x *call) push() {
	if len(x.out) > 0 {
		b := x.out
		x.out = x.out[:0]
		x.write(b)
	}
}

func (x *call) write(b []byte) {
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
	if x.hijacked {
		return http.ErrHijacked
	}
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	if !x.sent {
		x.headed(nil)
	}
	x.push()
	return x.err
}

// finish writes what the handler has left to write, and reports whether the connection can go on.
func (x *call) finish() bool {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	if !x.sent {
		if x.length < 0 && !x.empty {
			x.length = int64(len(x.early))
			x.Header()["Content-Length"] = []string{strconv.FormatInt(x.length, 10)}
			if x.length == 0 {
				x.Header()["Content-Length"] = zero
			}
		}
		x.headed(nil)
	}
	if x.chunked {
		x.out = append(x.out, "0\r\n\r\n"...)
	}
	x.push()
	short := x.length >= 0 && !x.empty && x.wrote < x.length
	return x.err == nil && !x.last && !short
}

var zero = []string{"0"}

// Hijack implements http.Hijacker.
func (x *call) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if x.hijacked {
		return nil, nil, http.ErrHijacked
	}
	if x.sent {
		x.push()
	}
	rest := x.conn.takeOver()
	x.hijacked = true
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
	x.conn.dated.Store(true)
	return x.conn.rwc.SetReadDeadline(t)
}

// SetWriteDeadline is for http.ResponseController. The connection is closed after a response that was given a time.
func (x *call) SetWriteDeadline(t time.Time) error {
	x.conn.timed.Store(!t.IsZero())
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
