package eventstream

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// most bounds the events of these tests.
const most = 64

// readAll reads a stream to its end.
func readAll(r io.Reader) (all []Event, err error) {
	for events := NewReader(r, most); ; {
		e, err := events.Next()
		if err != nil {
			return all, err
		}
		e.Data = bytes.Clone(e.Data)
		all = append(all, e)
	}
}

func TestReader(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		stream string
		want   []Event
		err    error
	}{
		"empty":                   {"", nil, io.EOF},
		"plain":                   {"id: 1\ndata: a\n\ndata: b\n\n", []Event{{ID: "1", Data: []byte("a")}, {Data: []byte("b")}}, io.EOF},
		"priming":                 {"id: s.0.0\nretry: 250\ndata:\n\n", []Event{{ID: "s.0.0", Retry: 250 * time.Millisecond}}, io.EOF},
		"an id alone":             {"id: 7\n\n", []Event{{ID: "7"}}, io.EOF},
		"lines of data":           {"data: a\ndata:b\ndata:\ndata:  c\n\n", []Event{{Data: []byte("a\nb\n\n c")}}, io.EOF},
		"empty data first":        {"data:\ndata: a\n\n", []Event{{Data: []byte("\na")}}, io.EOF},
		"carriage returns":        {"data: a\r\n\r\ndata: b\r\rdata: c\n\r\n", []Event{{Data: []byte("a")}, {Data: []byte("b")}, {Data: []byte("c")}}, io.EOF},
		"comments and names":      {": keep-alive\n\nevent: message\ndata: a\n\nevent: none\n\ndata: b\n\n:\n\n", []Event{{Name: "message", Data: []byte("a")}, {Data: []byte("b")}}, io.EOF},
		"a byte order mark":       {"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", []Event{{Data: []byte("a")}}, io.EOF},
		"unknown fields":          {"colour: red\ndata\n\nx\n\n", []Event{{}}, io.EOF},
		"an id with a zero byte":  {"id: a\x00b\ndata: c\n\n", []Event{{Data: []byte("c")}}, io.EOF},
		"a time that is none":     {"retry: soon\nretry: -1\ndata: a\n\n", []Event{{Data: []byte("a")}}, io.EOF},
		"cut within an event":     {"data: a\n\ndata: b\n", []Event{{Data: []byte("a")}}, io.EOF},
		"a line that is too long": {"data: " + strings.Repeat("a", most) + "\n\n", nil, errTest},
		"too many lines":          {strings.Repeat("data: aaaaaaaa\n", most/8) + "\n", nil, errTest},
		"an endless line":         {strings.Repeat("a", 10*most), nil, errTest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := readAll(strings.NewReader(tt.stream))
			if diff := cmp.Diff(got, tt.want, cmp.Comparer(func(a, b []byte) bool { return bytes.Equal(a, b) })); diff != "" {
				t.Errorf("the events differ from what is wanted (-got +want):\n%s", diff)
			}
			if tooLarge := err != nil && strings.Contains(err.Error(), "more than 64 bytes"); !errors.Is(err, tt.err) && !(tt.err == errTest && tooLarge) {
				t.Errorf("it ends with %v, want %v", err, tt.err)
			}
		})
	}
}

var errTest = errors.New("an event is too large")

// TestReaderDoesNotWaitBeyondAnEvent: the line feed behind a carriage return may come later than what waits for the event.
func TestReaderDoesNotWaitBeyondAnEvent(t *testing.T) {
	t.Parallel()
	in, out := io.Pipe()
	defer in.Close()
	go func() { _, _ = io.WriteString(out, "data: a\r\r") }()
	e, err := NewReader(in, most).Next()
	if err != nil || string(e.Data) != "a" {
		t.Errorf("got %q, %v", e.Data, err)
	}
}

// FuzzReader: any bytes are events and an end, whatever pieces they come in, and no event is larger than it may be.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{"id: 1\ndata: a\n\n", "data: a\r\n\r\n", ":\n\nretry: 5\nid\n\n", "data: a\rdata: b\r\r\n\n", strings.Repeat("data: aaaaaaaaaaaaaaa\n", 5) + "\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		whole, end := readAll(bytes.NewReader(stream))
		pieces, endOfPieces := readAll(iotest.OneByteReader(bytes.NewReader(stream)))
		if diff := cmp.Diff(whole, pieces); diff != "" {
			t.Errorf("a stream that comes byte by byte has other events:\n%s", diff)
		}
		if (end == io.EOF) != (endOfPieces == io.EOF) {
			t.Errorf("it ends with %v, and byte by byte with %v", end, endOfPieces)
		}
		for _, e := range whole {
			if len(e.Data) > most {
				t.Errorf("an event of %d bytes", len(e.Data))
			}
		}
	})
}
