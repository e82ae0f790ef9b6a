package transport

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// lineRoom is the size of the read buffer in bytes: a longer line is copied.
const lineRoom = 32 << 10

var errTooLong = errors.New("transport: the line is too long")

// lines cuts its input into lines.
type lines struct {
	r    *bufio.Reader
	max  int64  // bytes of a line, without its end
	long []byte // the start of a line that is longer than the reader's buffer
}

func newLines(r io.Reader, most int64) *lines {
	return &lines{r: bufio.NewReaderSize(r, lineRoom), max: most}
}

// nextLine returns the next line without LF or CR LF, valid until the next call. What stands before the end of the input is
// a line too, unless it is empty. next skips a line over max to its end and returns errTooLong; reading then goes on.
// Other errors are those of the reader, and the part of a line before them is lost.
func (l *lines) nextLine() ([]byte, error) {
	if cap(l.long) > 2*lineRoom {
		l.long = nil
	}
	l.long = l.long[:0]
	skipping := false
	for {
		part, err := l.r.ReadSlice('\n')
		if err == nil {
			part = part[:len(part)-1]
		}
		if !skipping && int64(len(l.long)+len(part)) > l.max+1 { // one byte more, which may be a CR
			skipping, l.long = true, nil
		}
		switch {
		case err == bufio.ErrBufferFull:
			if !skipping {
				l.long = append(l.long, part...)
			}
			continue
		case err == io.EOF && !skipping && len(l.long)+len(part) == 0:
			return nil, io.EOF
		case err != nil && err != io.EOF:
			return nil, err
		}
		line := part
		if len(l.long) > 0 {
			l.long = append(l.long, part...)
			line = l.long
		}
		line = bytes.TrimSuffix(line, []byte{'\r'})
		if skipping || int64(len(line)) > l.max {
			return nil, errTooLong
		}
		return line, nil
	}
}

// errLeft says that Serve no longer waits for a read.
var errLeft = errors.New("transport: the read was given up")

// abandonable reads, on a goroutine of its own, from a reader whose Read cannot be interrupted, so that its caller can
// stop waiting. That goroutine ends when its Read returns; what it has read by then is lost.
type abandonable struct {
	chunks chan chunk
	stop   <-chan struct{} // gives up the read under way and all later ones
	rest   chunk
}

type chunk struct {
	data []byte
	err  error
}

func newAbandonable(in io.Reader, stop <-chan struct{}) *abandonable {
	r := &abandonable{chunks: make(chan chunk), stop: stop}
	go r.fillBuffers(in)
	return r
}

// fillBuffers alternates two buffers: by the time one is filled again, its last content has been copied.
func (r *abandonable) fillBuffers(in io.Reader) {
	var bufs [2][lineRoom]byte
	for i := 0; ; i ^= 1 {
		n, err := in.Read(bufs[i][:])
		select {
		case r.chunks <- chunk{bufs[i][:n], err}:
		case <-r.stop:
			return
		}
		if err != nil {
			return
		}
	}
}

// Read must be called by one goroutine at a time.
func (r *abandonable) Read(b []byte) (int, error) {
	if len(r.rest.data) == 0 && r.rest.err == nil {
		select {
		case r.rest = <-r.chunks:
		case <-r.stop:
			return 0, errLeft
		}
	}
	n := copy(b, r.rest.data)
	if r.rest.data = r.rest.data[n:]; len(r.rest.data) > 0 {
		return n, nil
	}
	return n, r.rest.err
}
