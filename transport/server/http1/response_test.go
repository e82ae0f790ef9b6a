package http1

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestResponses requires that what handlers do is the same to clients, and what handlers are told the same to them.
func TestResponses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 5000)
	upload := post("Content-Length: 1000\r\n", strings.Repeat("b", 1000))
	for _, row := range []struct {
		name    string
		raw     string // "": get
		want    string
		handler func(w *world, rw http.ResponseWriter, r *http.Request)
	}{
		{"nothing", "", "200 open", func(*world, http.ResponseWriter, *http.Request) {}},
		{"nothing, twice", get + get, "200 200 open", func(*world, http.ResponseWriter, *http.Request) {}},
		{"small", "", "200 open", func(w *world, rw http.ResponseWriter, _ *http.Request) {
			n, err := io.WriteString(rw, "<html>")
			w.note("%d %v", n, err)
		}},
		{"2048 bytes", "", "200 open", func(_ *world, rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, long[:2048]) }},
		{"2049 bytes", "", "200 open", func(_ *world, rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, long[:2049]) }},
		{"large", get + get, "200 200 open", func(_ *world, rw http.ResponseWriter, _ *http.Request) {
			for range 20 {
				_, _ = io.WriteString(rw, long)
			}
		}},
		{"large, with a length", get + get, "200 200 open", func(_ *world, rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Length", "100000")
			for range 20 {
				_, _ = io.WriteString(rw, long)
			}
		}},
		{"flushed", get + get, "200 200 open", func(_ *world, rw http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(rw, "a")
			rw.(http.Flusher).Flush()
			_, _ = io.WriteString(rw, "b")
		}},
		{"flushed first", "", "200 open", func(_ *world, rw http.ResponseWriter, _ *http.Request) {
			rw.(http.Flusher).Flush()
			_, _ = io.WriteString(rw, "b")
		}},
		{"204", get + get, "204 204 open", func(w *world, rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Length", "3")
			rw.Header().Set("Content-Type", "a/b")
			rw.WriteHeader(204)
			_, err := io.WriteString(rw, "abc")
			w.note("%v", err)
		}},
		{"304", get + get, "304 304 open", func(w *world, rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Length", "3")
			rw.Header().Set("Content-Type", "a/b")
			rw.Header().Set("Etag", "x")
			rw.WriteHeader(304)
			_, err := io.WriteString(rw, "abc")
			w.note("%v", err)
		}},
		{"an unknown status", "", "599 open", func(_ *world, rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(599) }},
		{"an impossible status", "", "closed", func(_ *world, rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(1000) }},
		{"two statuses", "", "404 open", func(_ *world, rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(404); rw.WriteHeader(200) }},
		{"too much", get + get, "200 closed", func(w *world, rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Length", "2")
			n, err := io.WriteString(rw, "abc")
			w.note("%d %v", n, err)
			_, _ = io.WriteString(rw, "ab")
		}},
		{"too little", get + get, "200 closed", func(_ *world, rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Length", "5")
			_, _ = io.WriteString(rw, "abc")
		}},
		{"a header after the status", get + get, "200 200 open", func(_ *world, rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("A", "1")
			rw.Header().Set("B", "1")
			rw.WriteHeader(200)
			rw.Header().Set("A", "2")
			rw.Header().Del("B")
			rw.Header().Set("C", "2")
			_, _ = io.WriteString(rw, "abc")
		}},
		{"a length after the status", get + get, "200 200 open", func(_ *world, rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(200)
			rw.Header().Set("Content-Length", "3")
			_, _ = io.WriteString(rw, long)
		}},
		{"a header for the next", get + get, "200 200 open", func(w *world, rw http.ResponseWriter, _ *http.Request) {
			w.note("%v", rw.Header())
			rw.Header().Set("X", "1")
		}},
		{"lines in a value", "", "200 open", func(_ *world, rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("X", "a\r\nSet-Cookie: b")
		}},
		{"lines in a name", "", "200 open", func(_ *world, rw http.ResponseWriter, _ *http.Request) {
			rw.Header()["X: a\r\nSet-Cookie"] = []string{"b"}
			rw.Header()["X Y"] = []string{"b"}
			rw.Header()[""] = []string{"b"}
		}},
		{"many values", "", "200 open", func(_ *world, rw http.ResponseWriter, _ *http.Request) {
			rw.Header()["X"] = []string{"a", "", "b"}
			rw.Header()["Content-Type"] = nil
			rw.Header()["Date"] = nil
			_, _ = io.WriteString(rw, "abc")
		}},
		{"close", get + get, "200 closed", func(_ *world, rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Connection", "close")
			_, _ = io.WriteString(rw, "abc")
		}},
		{"an encoding", "", "200 open", func(_ *world, rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(rw, "abc")
		}},
		{"a panic", get + get, "closed", func(_ *world, rw http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(rw, "abc")
			panic("a bug")
		}},
		{"a panic after a flush", get + get, "200 closed", func(_ *world, rw http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(rw, "abc")
			rw.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}},
		{"a panic in a body with a length", get + get, "200 closed", func(_ *world, rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Length", "6")
			_, _ = io.WriteString(rw, "abc")
			rw.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}},
		{"a body that is not read", upload + get, "200 200 open", func(*world, http.ResponseWriter, *http.Request) {}},
		{"a body that is read in part", upload + upload, "200 200 open", func(_ *world, _ http.ResponseWriter, r *http.Request) {
			_, _ = r.Body.Read(make([]byte, 10))
		}},
		{"a body that is closed", upload + get, "200 200 open", func(w *world, _ http.ResponseWriter, r *http.Request) {
			w.note("%v", r.Body.Close())
			n, err := r.Body.Read(make([]byte, 10))
			w.note("%d %v", n, r.ContentLength > 0 && !errors.Is(err, http.ErrBodyReadAfterClose))
		}},
		{"a body that is read after the response has begun", upload + get, "200 200 open", func(w *world, rw http.ResponseWriter, r *http.Request) {
			rw.(http.Flusher).Flush()
			if r.ContentLength > 0 {
				body, err := io.ReadAll(r.Body)
				w.note("%d %v", len(body), err)
			}
		}},
		{"a large body that is not read", post("Content-Length: 300000\r\n", strings.Repeat("b", 300000)) + get, "413 closed", func(_ *world, rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(413)
		}},
		{"a body that has not come whole", post("Content-Length: 10\r\n", "abc"), "open", func(w *world, _ http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			w.note("%v", err)
		}},
		{"a deadline for the response", get + get, "200 200 open", func(w *world, rw http.ResponseWriter, _ *http.Request) {
			w.note("%v", http.NewResponseController(rw).SetWriteDeadline(time.Now().Add(time.Minute)))
			_, _ = io.WriteString(rw, "abc")
		}},
		{"a deadline that is over", get + get, "closed", func(w *world, rw http.ResponseWriter, r *http.Request) {
			w.note("%v", http.NewResponseController(rw).SetWriteDeadline(time.Unix(1, 0)))
			for range 20 {
				_, _ = io.WriteString(rw, long)
			}
			<-r.Context().Done()
		}},
		{"a deadline for the body, of the request before", upload + upload, "200 200 open", func(w *world, rw http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			w.note("%d %v", len(body), err)
			w.note("%v", http.NewResponseController(rw).SetReadDeadline(time.Unix(1, 0)))
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			both(t, func(w *world) http.HandlerFunc {
				return func(rw http.ResponseWriter, r *http.Request) { row.handler(w, rw, r) }
			}, func(w *world) string {
				raw := row.raw
				if raw == "" {
					raw = get
				}
				p := w.dial().send(raw)
				time.Sleep(time.Second)
				short, whole := p.result()
				if short != row.want {
					t.Errorf("front %v: got %s, want %s", w.front != nil, short, row.want)
				}
				if w.front != nil && w.handed() {
					t.Error("served by net/http")
				}
				return w.notes() + "\n" + whole
			})
		})
	}
}
