package transport

import (
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStreamEvents(t *testing.T) {
	t.Parallel()
	s := serve(t, funcs{post: func(x *Exchange) {
		x.SetSession("s-1")
		if !x.Open() {
			t.Error("Open returned false")
		}
		x.Event("e.0", 1000, nil)
		x.Event("e.1", 0, []byte(`{"a":1}`))
		x.Flush()
		x.Comment()
		x.Flush()
		x.Event("", 0, []byte("{\n\"b\":\r\n2}"))
		x.Event("bad\nid", 0, []byte(`3`))
		x.Answer(200, []byte("ignored"))
		x.Finish()
		x.Event("late", 0, []byte(`4`))
	}}, Options{})
	c := dial(t, s.addr).send(request("POST", s.addr, ping, "Origin: http://"+s.addr))
	resp := c.response("POST")
	got, err := all(resp.Body)
	if err != nil {
		t.Fatalf("stream ended with %v", err)
	}
	want := []event{{"e.0", "1000", ""}, {ID: "e.1", Data: `{"a":1}`}, {Data: "{\n\"b\":\n2}"}, {Data: "3"}}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("events (-got +want):\n%s", diff)
	}
	for name, want := range map[string]string{
		"Content-Type": typeSSE, "Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no",
		"Mcp-Session-Id": "s-1", "Access-Control-Allow-Origin": "http://" + s.addr, "Vary": "Origin",
	} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("header %s: got %q, want %q", name, got, want)
		}
	}
	if !resp.Close || resp.Header.Get("Date") == "" {
		t.Errorf("response must announce the close and carry a date: %v", resp.Header)
	}
	if rest, err := io.ReadAll(c.r); len(rest) != 0 || err != nil {
		t.Errorf("after the stream: got %q, %v, want the end of the connection", rest, err)
	}
}
