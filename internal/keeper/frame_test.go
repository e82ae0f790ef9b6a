package keeper

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// FuzzFrames reads anything as frames: what is read is written again as it came, and nothing takes more memory than it has bytes, times eight.
func FuzzFrames(f *testing.F) {
	var b batch
	b.addLine(7, 3, []byte("text"))
	b.addAck(7, 3)
	b.addComplaint(7, complaint{[]byte("no"), 2})
	f.Add(b.open)
	for k, v := range map[kind]any{
		kindHello: hello{1, 1, "r", 5, "client", "life", 2, time.Minute}, kindWelcome: welcome{1, "r", 5, "boot", "life"}, kindStart: start{1, "t", Spec{ID: "a", Command: []string{"b"}}}, kindExited: exited{1, Status{Code: 2, Stderr: []string{"x"}}},
		kindAdopt: adopt{1, "a", 2}, kindAdopted: adopted{Request: 1}, kindListed: listed{Request: 1, Kept: []Kept{{ID: "a"}}}, kindRefused: refused{1, "start", "many", "why"}, kindBye: bye{1, time.Second},
	} {
		frame, err := appendControl(nil, k, v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(frame)
	}
	f.Add([]byte{0, 0, 0, 2, 99, 1, 0, 0, 0, 1, byte(kindList)})
	f.Add([]byte{255, 255, 255, 255, byte(kindLine)})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bufio.NewReader(bytes.NewReader(data))
		var again []byte
		for {
			frame, err := readFrame(r)
			if err != nil {
				break
			}
			if cap(frame.body) > 8*len(data)+(64<<10)+1 {
				t.Fatalf("%d bytes take %d", len(data), cap(frame.body))
			}
			if !frame.kind.known() {
				return // its body is not kept
			}
			again = append(appendHeader(again, frame.kind, len(frame.body)), frame.body...)
			_, _, _, _ = readPlace(frame.body)
			_, _, _, _ = readComplaint(frame.body)
			_ = requestOf(frame)
			_, _ = decode[start](frame)
			_, _ = decode[adopted](frame)
			_, _ = decode[listed](frame)
			_, _ = decode[exited](frame)
		}
		if !bytes.HasPrefix(data, again) {
			t.Errorf("%x was read as %x", data, again)
		}
	})
}

func TestFrameBounds(t *testing.T) {
	t.Parallel()
	read := func(length uint32, k kind, body string) (frame, error) {
		header := binary.BigEndian.AppendUint32(nil, length)
		return readFrame(bufio.NewReader(strings.NewReader(string(append(header, byte(k))) + body)))
	}
	for _, row := range []struct {
		name   string
		length uint32
		kind   kind
		body   string
		want   error
	}{
		{"empty", 1, kindList, "", nil},
		{"no kind", 0, kindList, "", errFrame},
		{"cut", 5, kindList, "{}", io.ErrUnexpectedEOF},
		{"too long", maxControl + 2, kindStart, "", errFrame},
		{"an acknowledgement that is longer", placeSize + 2, kindAck, strings.Repeat("x", placeSize+1), errFrame},
		{"longer than any line", placeSize + MaxLine + 2, kindLine, "", errFrame},
		{"unknown and too long", placeSize + MaxLine + 2, 200, "", errFrame},
		{"unknown", 3, 200, "ab", nil},
	} {
		f, err := read(row.length, row.kind, row.body)
		if !errors.Is(err, row.want) || err == nil && (f.kind != row.kind || f.kind.known() && len(f.body) != int(row.length)-1) {
			t.Errorf("%s: %v %d bytes, %v, want %v", row.name, f.kind, len(f.body), err, row.want)
		}
	}
	if got := kind(200).String(); got != "frame 200" {
		t.Errorf("an unknown kind is called %q", got)
	}
	for k := kindHello; k.known(); k++ {
		if k.String() == "" {
			t.Errorf("kind %d has no name", k)
		}
	}
}

// TestUnknownMembers are refused by name.
func TestUnknownMembers(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"request":3,"id":"a","have":0,"later":true}`: `adopt: json: unknown field "later"`,
		`{"request":3}{}`: "adopt: something follows the object",
		`[]`:              "adopt: json: cannot unmarshal",
	} {
		f := frame{kindAdopt, []byte(body)}
		if _, err := decode[adopt](f); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
	if n := requestOf(frame{kindAdopt, []byte(`{"request":3,"later":true}`)}); n != 3 {
		t.Errorf("the request of a frame with an unknown member is %d", n)
	}
	for code, known := range refusals {
		got, why := codeOf(errors.Join(known))
		if got != code || why == "" {
			t.Errorf("%v has the code %s", known, got)
		}
		if err := (refused{0, "start", code, "why"}).error(); !errors.Is(err, known) {
			t.Errorf("%s: %v", code, err)
		}
	}
}

// TestLongBatch has long lines beside short ones leave in order.
func TestLongBatch(t *testing.T) {
	t.Parallel()
	var b batch
	var out bytes.Buffer
	var want []string
	for i, n := range []int{1, 100_000, 2, 0, 9_000, 9_000, 3} {
		text := strings.Repeat(string(rune('a'+i)), n)
		want = append(want, text)
		b.addLine(1, uint64(i+1), []byte(text))
	}
	if err := b.writeTo(&out); err != nil || b.size != 0 {
		t.Fatal(err, b.size)
	}
	r := bufio.NewReader(&out)
	for i, text := range want {
		f, err := readFrame(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, number, got, err := readPlace(f.body); err != nil || number != uint64(i+1) || string(got) != text {
			t.Errorf("line %d: %d with %d bytes, %v", i+1, number, len(got), err)
		}
	}
}
