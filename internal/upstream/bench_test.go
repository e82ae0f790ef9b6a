package upstream

import (
	"bytes"
	"context"
	"io"
	"strconv"
	"testing"
)

// A mirror is a process that answers each line at once.
type mirror struct {
	lines chan []byte
	end   chan struct{}
}

func (m *mirror) Put(_ context.Context, line []byte) (uint64, error) {
	got := parseMessage(line)
	switch got.Method {
	case "server/discover":
		m.lines <- []byte(got.result(modernDiscover))
	default:
		i := bytes.Index(line, []byte(`"id":`)) + len(`"id":`)
		id := line[i : i+bytes.IndexByte(line[i:], ',')]
		m.lines <- append(append([]byte(`{"jsonrpc":"2.0","id":`), id...), `,"result":{"resultType":"complete","content":[{"type":"text","text":"hello"}]}}`...)
	}
	return 1, nil
}

func (m *mirror) Unsent(uint64) bool { return false }

func (m *mirror) Receive() ([]byte, error) {
	select {
	case line := <-m.lines:
		return line, nil
	case <-m.end:
		return nil, io.EOF
	}
}

func (m *mirror) Close() error {
	close(m.end)
	return nil
}

// BenchmarkDo is a call over lines to a process that does nothing, its decoding of the request included.
func BenchmarkDo(b *testing.B) {
	c, err := Open(b.Context(), NewLines(&mirror{make(chan []byte, 1), make(chan struct{})}), Options{ClientInfo: []byte(`{"name":"x","version":"1"}`)})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close(context.Background())
	params := []byte(`{"name":"echo","arguments":{"message":"hello"},"_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Do(b.Context(), Request{Method: "tools/call", Params: params}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReceive is the machine alone, with an answer of 1 KiB.
func BenchmarkReceive(b *testing.B) {
	k := newCalls(0)
	k.modern = true
	text := bytes.Repeat([]byte("x"), 1<<10)
	b.ReportAllocs()
	for b.Loop() {
		one, _ := k.begin(Request{Method: "tools/call"})
		line := strconv.AppendInt([]byte(`{"jsonrpc":"2.0","id":`), one.id, 10)
		line = append(append(append(line, `,"result":{"content":["`...), text...), `"]}}`...)
		var room [2]effect
		if fx := k.receive(room[:0], line, 0); len(fx) != 1 || fx[0].failure != nil {
			b.Fatal(fx)
		}
	}
}
