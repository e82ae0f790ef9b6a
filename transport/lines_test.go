package transport

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzLines compares the lines with those of the plainest reader.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb\r\n\r\n\rc"), uint16(5), byte(1))
	f.Fuzz(func(t *testing.T, data []byte, most uint16, step byte) {
		data = bytes.ReplaceAll(data, []byte("*"), bytes.Repeat([]byte("y"), lineRoom/2)) // long lines from short inputs
		type line struct {
			Text    string
			TooLong bool
		}
		var want []line
		rest := string(data)
		for rest != "" {
			var text string
			text, rest, _ = strings.Cut(rest, "\n")
			text = strings.TrimSuffix(text, "\r")
			if len(text) > int(most) {
				text = "\n"
			}
			want = append(want, line{strings.TrimSuffix(text, "\n"), text == "\n"})
		}
		stop := make(chan struct{})
		defer close(stop)
		var in io.Reader = bytes.NewReader(data)
		if step > 0 {
			in = &steps{data, int(step)}
		}
		lines := newLines(newAbandonable(in, stop), int64(most))
		var got []line
		for {
			text, err := lines.nextLine()
			if err == io.EOF {
				break
			}
			if err != nil && err != errTooLong {
				t.Fatal(err)
			}
			got = append(got, line{string(text), err == errTooLong})
			if cap(lines.long) > int(most)+4*lineRoom {
				t.Errorf("holds %d bytes for lines of %d", cap(lines.long), most)
			}
		}
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("lines (-got +want):\n%s", diff)
		}
	})
}

// steps reads a few bytes at a time, in growing steps.
type steps struct {
	data []byte
	step int
}

func (s *steps) Read(b []byte) (int, error) {
	if len(s.data) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), s.step)], s.data)
	s.data = s.data[n:]
	s.step = min(2*s.step, lineRoom) // a longer step reads no more, and one that doubles for ever overflows
	return n, nil
}
