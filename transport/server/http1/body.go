package http1

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
)

// body reads the body of a request.
type body struct {
	from   io.Reader
	ctx    *callContext // of the request: it ends if the rest of the body does not come
	left   int64
	whole  atomic.Bool // all of it was read
	closed bool
	err    error
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (n int, err error) {
	switch {
	case b.closed:
		return 0, http.ErrBodyReadAfterClose
	case b.err != nil:
		return 0, b.err
	case b.left == 0:
		return 0, io.EOF
	case len(p) == 0:
		return 0, nil
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err = b.from.Read(p)
	b.left -= int64(n)
	if b.left == 0 {
		b.whole.Store(true)
		return n, io.EOF
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	b.noteError(err)
	return n, err
}

// noteError notes that the body cannot be read on, if err says so.
func (b *body) noteError(err error) {
	if b.err = err; err != nil {
		b.ctx.end()
	}
}

// Close implements io.Closer. What is left is dealt with when the response begins.
func (b *body) Close() error {
	b.closed = true
	return nil
}

// maxDiscarded is how much of a body is read that its handler did not want, to keep the connection: as much as net/http does.
const maxDiscarded = 256 << 10

// discard reads what is left of a body, and reports whether the connection can carry another request. The handler reads no more of it.
func (b *body) discard() bool {
	if b.left == 0 {
		return true
	}
	if b.left > maxDiscarded || b.err != nil {
		return false
	}
	var p [4096]byte
	for b.left > 0 && b.err == nil {
		n, err := b.from.Read(p[:min(b.left, int64(len(p)))])
		if b.left -= int64(n); b.left > 0 {
			b.noteError(err)
		}
	}
	if b.left > 0 {
		return false
	}
	b.err = http.ErrBodyReadAfterClose
	b.whole.Store(true)
	return true
}
