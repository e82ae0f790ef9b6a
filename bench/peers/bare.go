package main

import (
	"bytes"
	"net/http"
	"strconv"
	"sync"
)

// unchunked is up to how many bytes net/http finds the length of an answer by itself.
const unchunked = 2048

// exchange has the buffers of a request and its answer.
type exchange struct {
	body   bytes.Buffer
	answer []byte
}

var exchanges = sync.Pool{New: func() any { return new(exchange) }}

// bareHandler reads the body of a request and writes a constant. A GET gets an event stream on
// which nothing happens.
func bareHandler(c *constant) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header()["Content-Type"] = []string{"text/event-stream"}
			_ = http.NewResponseController(w).Flush() // what fails ends the request, too
			<-r.Context().Done()
			return
		}
		x := exchanges.Get().(*exchange)
		defer exchanges.Put(x)
		x.body.Reset()
		if _, err := x.body.ReadFrom(r.Body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		x.answer = c.appendAnswer(x.answer[:0], x.body.Bytes())
		if len(x.answer) == 0 {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		h := w.Header()
		h["Content-Type"] = []string{"application/json"}
		h["Mcp-Session-Id"] = []string{"bare"}
		if len(x.answer) > unchunked {
			h["Content-Length"] = []string{strconv.Itoa(len(x.answer))}
		}
		_, _ = w.Write(x.answer)
	})
}
