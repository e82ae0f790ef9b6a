package greed

import (
	"bytes"
	"fmt"
	"sync"
	"time"
)

// blanks is a body that is never complete.
var blanks = sync.OnceValue(func() []byte { return bytes.Repeat([]byte(" "), 4_000_000) })

var bodies = Attack{
	Name: "bodies", What: "announce a body of 4 MB and send all of it but the end",
	Limits: refused, workers: 96,
	begin: free(func(p *Principal, _ int) {
		p.unfinished(p.head("Content-Length: 4000000\r\n"), blanks()[:3_900_000])
	}),
}

var chunked = Attack{
	Name: "chunked", What: "send 3.9 MB in chunks, and no end",
	Limits: refused, workers: 96,
	begin: free(func(p *Principal, _ int) {
		first := [][]byte{p.head("Transfer-Encoding: chunked\r\n")}
		for range 39 {
			first = append(first, fmt.Appendf(nil, "%x\r\n", 100_000), blanks()[:100_000], []byte("\r\n"))
		}
		p.unfinished(first...)
	}),
}

// unfinished sends the beginning of a request, and waits for what the server makes of it.
func (p *Principal) unfinished(first ...[]byte) {
	conn := p.raw(first...)
	if conn == nil {
		p.pause(10 * time.Millisecond)
		return
	}
	p.note("open")
	defer func() { _ = conn.Close() }()
	p.answered(conn)
}

// nested is a body that only a whole scan shows to be none.
var nested = sync.OnceValue(func() []byte {
	return append(bytes.Repeat([]byte(`{"a":[`), 60), bytes.Repeat([]byte(`"",`), (4*mebibyte-1000)/3)...)
})

var garbage = Attack{
	Name: "garbage", What: "send 4 MiB that are no JSON, which shows only at the end, or after 100,000 values",
	Limits: []string{"400 -32600", "400 -32700"}, workers: 16,
	begin: free(func(p *Principal, n int) {
		body := nested()
		if n%2 == 0 {
			body = body[:260_000] // its end comes before its bound on values
		}
		p.post(header(), body)
	}),
}
