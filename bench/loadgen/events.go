package loadgen

import (
	"bufio"
	"bytes"
	"io"
)

// event is an event of a stream. data is valid until the next one is read.
type event struct {
	id   string
	data []byte
}

// events reads an event stream.
type events struct {
	rd   *bufio.Reader
	data bytes.Buffer
	line []byte
}

func newEvents(r io.Reader) *events { return &events{rd: bufio.NewReader(r)} }

// next returns the next event, or why there is none. Comments and other fields are skipped.
func (e *events) next() (event, error) {
	var got event
	e.data.Reset()
	any := false
	for {
		line, err := e.readLine()
		if err != nil {
			return got, err
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0 && any:
			got.data = e.data.Bytes()
			return got, nil
		case string(field) == "data":
			if e.data.Len() > 0 {
				e.data.WriteByte('\n')
			}
			e.data.Write(value)
			any = true
		case string(field) == "id":
			got.id, any = string(value), true
		}
	}
}

// readLine reads a line of any length up to mostBody, without its end.
func (e *events) readLine() ([]byte, error) {
	e.line = e.line[:0]
	for {
		part, err := e.rd.ReadSlice('\n')
		e.line = append(e.line, part...)
		switch {
		case err == nil:
			return bytes.TrimRight(e.line, "\r\n"), nil
		case err != bufio.ErrBufferFull:
			return nil, err
		case len(e.line) > mostBody:
			return nil, wrong("a line of more than %d bytes", mostBody)
		}
	}
}
