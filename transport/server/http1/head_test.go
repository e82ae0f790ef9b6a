package http1

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"slices"
	"testing"
)

// FuzzHead holds what is taken for plain to net/http's opinion: both see the same request, and what net/http refuses is not plain. A head that
// comes after another one, whose fields it shares, is as it would be alone.
func FuzzHead(f *testing.F) {
	for i, row := range requests {
		f.Add([]byte(requests[(i+1)%len(requests)].raw), []byte(row.raw))
		f.Add([]byte(row.raw), []byte(row.raw))
	}
	f.Fuzz(func(t *testing.T, before, raw []byte) {
		var shared, alone head
		if n := headLength(before); n > 0 && shared.read(before[:n]) {
			if len(before)%2 == 0 {
				for key := range shared.header { // as a handler may
					shared.header[key][0] = "changed"
					break
				}
			}
		} else {
			shared = head{}
		}
		n := headLength(raw)
		if n == 0 {
			var part head
			for k := range min(len(raw), 200) {
				if !part.canBegin(raw[:k]) && part.canBegin(raw) {
					t.Errorf("%q may be plain, and its beginning may not", raw)
				}
			}
			return
		}
		plain := alone.read(raw[:n])
		if shared.read(raw[:n]) != plain {
			t.Fatalf("plain: %v alone, not after %q", plain, before)
		}
		if !plain {
			return
		}
		var part head
		for k := range min(n, 200) {
			if !part.canBegin(raw[:k]) {
				t.Errorf("the first %d bytes could not be plain", k)
			}
		}
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			t.Fatalf("plain, but net/http says %v", err)
		}
		want := shown(r)
		body, wantErr := io.ReadAll(r.Body)
		for name, h := range map[string]*head{"alone": &alone, "shared": &shared} {
			c := &conn{front: &Front{}, template: &http.Request{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}, buf: raw, from: n, to: len(raw)}
			c.rwc = NewAhead(nil, nil)
			c.rwc.(*Ahead).err = io.EOF
			_, got := c.newCall(h)
			if shown(got) != want {
				t.Errorf("%s: got %s\nwant %s", name, shown(got), want)
			}
			read, err := io.ReadAll(got.Body)
			if !bytes.Equal(read, body) || err != wantErr {
				t.Errorf("%s: the body is %q %v, want %q %v", name, read, err, body, wantErr)
			}
			if lengths := r.Header["Content-Length"]; len(lengths) > 1 {
				t.Errorf("plain, with the lengths %q", lengths)
			}
			if slices.Contains(r.TransferEncoding, "chunked") || len(r.Trailer) > 0 {
				t.Error("plain, and chunked")
			}
		}
	})
}
