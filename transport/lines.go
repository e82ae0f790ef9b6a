package transport

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// lineRoom is how much of a line is kept without a copy.
const lineRoom = 32 << 10

var errTooLong = errors.New("transport: the line is too long")

// lines cuts what is read into lines.
type lines struct {
	r    *bufio.Reader
	max  int64  // bytes of a line, without its end
	long []byte // what came of a line before the reader's buffer was full
}

func newLines(r io.Reader, most int64) *lines {
	return &lines{r: bufio.NewReaderSize(r, lineRoom), max: most}
}

// next returns the next line without LF or CR LF, valid until the next call. What comes before the end of the input is
// a line, too, if it is not empty. A line over max is skipped to its end and reported as errTooLong; after that, reading
// goes on. Other errors are those of the reader, and what came of a line before one is lost.
func (l *lines) next() ([]byte, error) {
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
		if !skipping && int64(len(l.long)+len(part)) > l.max+1 { // the one may be a CR
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

// errLeft says that a read was given up.
var errLeft = errors.New("transport: the read was given up")

// abandonable reads from a reader whose Read cannot be interrupted, on a goroutine of its own, so that one can stop
// waiting for it. That goroutine ends when its Read returns, and what it has read by then is lost.
type abandonable struct {
	chunks chan chunk
	stop   <-chan struct{} // gives up the read under way and those to come
	rest   chunk
}

type chunk struct {
	data []byte
	err  error
}

func newAbandonable(in io.Reader, stop <-chan struct{}) *abandonable {
	r := &abandonable{chunks: make(chan chunk), stop: stop}
	go r.fill(in)
	return r
}

// fill takes turns between two buffers: the one that was handed over last has been copied when the next is taken.
func (r *abandonable) fill(in io.Reader) {
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

// Read is called by one goroutine at a time.
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
