//go:build full

package cost

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/test/kit"
)

// cost is what a message cost.
type cost struct {
	Bytes  int64         // of heap that were allocated
	Allocs int64         // how often
	CPU    time.Duration // of the process
}

// least returns the smaller of each: what else the process did meanwhile only adds.
func (c cost) least(d cost) cost {
	return cost{min(c.Bytes, d.Bytes), min(c.Allocs, d.Allocs), min(c.CPU, d.CPU)}
}

// beyond returns what c is more than a message that costs d.
func (c cost) beyond(d cost) cost {
	return cost{max(0, c.Bytes-d.Bytes), max(0, c.Allocs-d.Allocs), max(0, c.CPU-d.CPU)}
}

// host is a server in process, without limits on how often it is called.
type host struct {
	rt       *troupe.Runtime
	sessions map[string]string // by kind; "" is that of the others
	base     map[string]cost   // of the small message of a kind
}

func newHost() (*host, error) {
	rt, err := troupe.New(troupe.Options{
		Limits: troupe.Limits{CallRate: -1, MaxAsk: time.Second, LogRate: -1, PendingPerSession: -1, Grace: time.Minute},
		Shared: troupe.SharedLimits{PrincipalRate: -1, SessionsPerPrincipal: -1, PendingPerPrincipal: -1, MaxMemory: 8 << 30},
		Store:  troupe.StoreOptions{SessionUnused: time.Second, Lease: time.Minute, MaxStore: 4 << 30},
	})
	if err != nil {
		return nil, err
	}
	rt.Mount("/mcp", server())
	h := &host{rt: rt, sessions: map[string]string{}, base: map[string]cost{}}
	for of, revision := range map[string]string{"": "2025-11-25", "batch": "2025-03-26"} {
		w := h.post(context.Background(), []byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+revision+`","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`), http.Header{})
		if h.sessions[of] = w.header.Get("Mcp-Session-Id"); h.sessions[of] == "" {
			return nil, fmt.Errorf("initialize as %s: %d %s", revision, w.status, w.body.String())
		}
		h.post(context.Background(), []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`), http.Header{"Mcp-Session-Id": {h.sessions[of]}})
	}
	for _, k := range kinds() {
		c, w := h.measure(&k, []byte(k.small), 20)
		if w.status >= 300 || bytes.Contains(w.body.Bytes(), []byte(`"error"`)) || bytes.Contains(w.body.Bytes(), []byte(`isError`)) {
			return nil, fmt.Errorf("%s: %d %s", k.name, w.status, w.body.String())
		}
		h.base[k.name] = c
	}
	return h, nil
}

func (h *host) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return h.rt.Close(ctx)
}

// measure sends a message a number of times, and returns the least that it cost with the last response.
func (h *host) measure(k *kind, body []byte, times int) (c cost, w *response) {
	header := http.Header{}
	if k.header != nil {
		header = k.header(body)
	} else if k.name != "initialize" {
		header["Mcp-Session-Id"] = []string{h.session(k.name)}
	}
	for i := range times {
		sent := body
		if k.asks {
			sent = h.withState(body, header)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := kit.CPU()
		w = h.post(context.Background(), sent, header)
		cpu := kit.CPU() - began
		runtime.ReadMemStats(&after)
		now := cost{int64(after.TotalAlloc - before.TotalAlloc), int64(after.Mallocs - before.Mallocs), cpu}
		if c = c.least(now); i == 0 {
			c = now
		}
	}
	return c, w
}

func (h *host) session(kind string) string {
	if id := h.sessions[kind]; id != "" {
		return id
	}
	return h.sessions[""]
}

// withState returns body with the requestState that the same request without answers brings.
func (h *host) withState(body []byte, header http.Header) []byte {
	arguments := codec.Field(codec.Field(body, "params"), "arguments")
	if arguments == nil {
		arguments = []byte("{}")
	}
	asked := h.post(context.Background(), []byte(call+`"asks","arguments":`+string(arguments)+`,`+stateless+`}}`), header)
	state := codec.Field(codec.Field(asked.body.Bytes(), "result"), "requestState")
	at := bytes.LastIndex(body, []byte("}}")) // the end of params
	if state == nil || at < 0 {
		return body
	}
	return append(append(append(bytes.Clone(body[:at]), `,"requestState":`...), state...), body[at:]...)
}

// post sends a message, and ends an event stream with its first event.
func (h *host) post(ctx context.Context, body []byte, header http.Header) (w *response) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1/mcp", nil)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header = header.Clone()
	r.Header["Content-Type"], r.Header["Accept"] = []string{"application/json"}, []string{"application/json, text/event-stream"}
	w = &response{header: http.Header{}, status: 200, ended: cancel}
	defer func() {
		if v := recover(); v != nil && v != http.ErrAbortHandler { // which is how a stream ends
			panic(v)
		}
	}()
	h.rt.ServeHTTP(w, r)
	return w
}

// response keeps a response.
type response struct {
	header http.Header
	status int
	body   bytes.Buffer
	ended  func()
}

func (w *response) Header() http.Header         { return w.header }
func (w *response) WriteHeader(status int)      { w.status = status }
func (w *response) Write(b []byte) (int, error) { return w.body.Write(b) }

// Flush ends a stream once there is something in it.
func (w *response) Flush() {
	if w.body.Len() > 0 && w.header.Get("Content-Type") == "text/event-stream" {
		w.ended()
	}
}
