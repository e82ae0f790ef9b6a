package transport

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/internal/quota"
)

// aborting is a body, or a response, of a middleware that aborts the request.
type aborting struct{ http.ResponseWriter }

func (aborting) Read([]byte) (int, error)  { panic(http.ErrAbortHandler) }
func (aborting) Close() error              { return nil }
func (aborting) Write([]byte) (int, error) { panic(http.ErrAbortHandler) }

// TestAbortedRequests has the program's own code abort a request wherever it runs in one: nothing stays counted for that, no deadline
// ends a later request, and the request ends.
func TestAbortedRequests(t *testing.T) {
	t.Parallel()
	abort := func(*http.Request) (any, error) { panic(http.ErrAbortHandler) }
	for name, row := range map[string]struct {
		authenticate func(*http.Request) (any, error)
		body         io.ReadCloser
		writes       bool // the response aborts
		size         int
		method       string
	}{
		"authenticate":                          {authenticate: abort},
		"a goroutine that ends in authenticate": {authenticate: func(*http.Request) (any, error) { runtime.Goexit(); return nil, nil }},
		"the body":                              {body: aborting{}},
		"a response":                            {writes: true, size: 10},
		"a large response":                      {writes: true, size: 100_000},
		"a stream":                              {writes: true, method: "GET"},
		"a refusal":                             {writes: true, authenticate: func(*http.Request) (any, error) { return nil, context.Canceled }},
	} {
		for _, guarded := range []bool{false, true} {
			a := quota.New(quota.Limits{Places: 100, Each: 100, Accounts: 100, Bytes: 1 << 20})
			o := Options{Accounts: a, Account: func(any, string) *quota.Account { return a.Of("client", "") }, Authenticate: row.authenticate}
			h := NewHandler(funcs{
				post: func(x *Exchange) { x.Answer(200, make([]byte, row.size)) },
				get: func(x *Exchange) {
					x.Open()
					x.Event("1", 0, make([]byte, 100_000))
					x.Flush()
					_ = x.Room(context.Background())
				},
			}, o)
			g := NewGuard(o)
			var handler http.Handler = h
			if guarded {
				handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.Serve(w, r, h, false) })
			}
			r := httptest.NewRequest(cmp.Or(row.method, "POST"), "/mcp", strings.NewReader(ping))
			r.Header.Set("Content-Type", typeJSON)
			r.Header.Set("Accept", "application/json, text/event-stream")
			if row.body != nil {
				r.Body = row.body
			}
			var w http.ResponseWriter = httptest.NewRecorder()
			if row.writes {
				w = aborting{w}
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				defer func() {
					if v := recover(); v != http.ErrAbortHandler && (row.authenticate == nil || v != nil) {
						t.Errorf("%s, guarded %t: %v, and not the abort, reaches the server", name, guarded, v)
					}
				}()
				handler.ServeHTTP(w, r)
			}()
			wait(t, name, ended)
			for k := range quota.Kinds {
				eventually(t, 0, func() int { return int(a.BytesOf(k)) }) // the dispatcher may have a goroutine of its own
			}
			for _, d := range []*watchdog{h.reads, h.writes, g.h.reads, g.h.writes} {
				d.mu.Lock()
				if d.list.next != &d.list {
					t.Errorf("%s, guarded %t: a read or a write is watched that has ended", name, guarded)
				}
				d.mu.Unlock()
			}
		}
	}
}
