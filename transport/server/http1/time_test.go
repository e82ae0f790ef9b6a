package http1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

func quiet(*world) http.HandlerFunc { return func(http.ResponseWriter, *http.Request) {} }

// endsAfter returns how long it takes until the connection is closed.
func (p *peer) endsAfter() time.Duration {
	began := time.Now()
	select {
	case <-p.ended:
	case <-time.After(time.Hour):
	}
	return time.Since(began)
}

// TestSlowHeads has heads come too slowly, the first and later ones: the time for a later one runs from its first byte.
func TestSlowHeads(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		before []string // what comes first, each part a minute after the last
		want   time.Duration
	}{
		{"nothing", []string{""}, 10 * time.Second},
		{"a byte", []string{"G"}, 10 * time.Second},
		{"a line", []string{"GET / HTTP/1.1\r\nHost"}, 10 * time.Second},
		{"after a request", []string{get, "GET / HTTP/1.1\r\nHo"}, 10 * time.Second},
		{"after two", []string{get, get, "GET / HTTP/1.1\r\nHo"}, 10 * time.Second},
		{"with the request before", []string{get + "GET / HTTP/1.1\r\nHo"}, 10 * time.Second},
		{"that net/http gets", []string{get, "HEAD / HTTP/1.1\r\nHo"}, 10 * time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			both(t, quiet, func(w *world) string {
				p := w.dial()
				for i, part := range row.before {
					if i > 0 {
						time.Sleep(time.Minute)
					}
					p.send(part)
				}
				took := p.endsAfter()
				short, _ := p.result()
				if took != row.want {
					t.Errorf("front %v: closed after %v, want %v", w.front != nil, took, row.want)
				}
				return fmt.Sprint(short)
			})
		})
	}
}

// TestDrips has a byte come each second: that does not lengthen the time.
func TestDrips(t *testing.T) {
	t.Parallel()
	both(t, quiet, func(w *world) string {
		p := w.dial().send(get)
		time.Sleep(time.Minute)
		go func() {
			for range 60 {
				if _, err := p.Write([]byte("G")); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		if took := p.endsAfter().Round(time.Second); took < 10*time.Second || took > 13*time.Second { // net/http counts from the fourth byte
			t.Errorf("front %v: closed after %v", w.front != nil, took)
		}
		time.Sleep(2 * time.Second) // until the drip ends
		short, _ := p.result()
		return short
	})
}

// TestIdle has connections wait for a request. The Front moves the deadline only when it must, and closes an eighth earlier at most.
func TestIdle(t *testing.T) {
	t.Parallel()
	both(t, quiet, func(w *world) string {
		p := w.dial()
		for range 20 {
			p.send(get)
			time.Sleep(7 * time.Second)
		}
		if p.isClosed() {
			t.Error("closed early")
		}
		took := p.endsAfter() + 7*time.Second
		if took > 2*time.Minute || took < 105*time.Second {
			t.Errorf("front %v: closed after %v", w.front != nil, took)
		}
		short, _ := p.result()
		return short
	})
}

// TestIdleAfterWatch requires the same of a connection whose client was watched, or whose handler has set a deadline.
func TestIdleAfterWatch(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"watched": func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-time.After(10 * time.Minute):
			}
		},
		"deadline": func(rw http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(rw).SetReadDeadline(time.Now().Add(time.Second))
			time.Sleep(time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			both(t, func(*world) http.HandlerFunc { return handler }, func(w *world) string {
				p := w.dial().send(get)
				time.Sleep(11 * time.Minute)
				p.send(get)
				time.Sleep(10 * time.Minute)
				if took := p.endsAfter(); took > 2*time.Minute {
					t.Errorf("front %v: closed after %v", w.front != nil, took)
				}
				short, _ := p.result()
				return short
			})
		})
	}
}

// TestHangup requires that a handler that waits hears of the client's end, whatever it waits with, and what it has read.
func TestHangup(t *testing.T) {
	t.Parallel()
	body := post("Content-Length: 3\r\n", "abc")
	for _, row := range []struct {
		name, raw string
		handler   func(rw http.ResponseWriter, r *http.Request)
	}{
		{"done", get, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		{"a child", get, func(_ http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			<-ctx.Done()
		}},
		{"a function", get, func(_ http.ResponseWriter, r *http.Request) {
			c := make(chan int)
			context.AfterFunc(r.Context(), func() { close(c) })
			<-c
		}},
		{"asking", get, func(_ http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				time.Sleep(time.Millisecond)
			}
		}},
		{"after the body", body, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			<-r.Context().Done()
		}},
		{"after the response has begun", body, func(rw http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(rw).Flush()
			<-r.Context().Done()
		}},
		{"in the body", post("Content-Length: 4\r\n", "abc"), func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			<-r.Context().Done()
		}},
		{"as the second", get + get, func(_ http.ResponseWriter, r *http.Request) {
			if _, second := r.Context().Value(http.ServerContextKey).(*http.Server); second {
				<-r.Context().Done()
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			for _, fronted := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					ended := make(chan error, 2)
					w := newWorld(t, func(*world) http.HandlerFunc {
						return func(rw http.ResponseWriter, r *http.Request) {
							row.handler(rw, r)
							ended <- r.Context().Err()
						}
					}, fronted)
					p := w.dial().send(row.raw)
					time.Sleep(time.Minute)
					select {
					case err := <-ended:
						t.Fatalf("ended early: %v", err)
					default:
					}
					began := time.Now()
					_ = p.Close()
					if err := <-ended; !errors.Is(err, context.Canceled) {
						t.Errorf("got %v", err)
					}
					if took := time.Since(began); took > 100*time.Millisecond {
						t.Errorf("front %v: noticed after %v", fronted, took)
					}
				})
			}
		})
	}
}

// TestWatched requires that a request that comes while another's client is watched is served whole.
func TestWatched(t *testing.T) {
	t.Parallel()
	for _, pieces := range [][]string{{get}, {"G", get[1:]}, {post("Content-Length: 3\r\n", "abc") + get}} {
		both(t, func(w *world) http.HandlerFunc {
			return func(rw http.ResponseWriter, r *http.Request) {
				select {
				case <-r.Context().Done():
				case <-time.After(time.Minute):
				}
				record(w)(rw, r)
			}
		}, func(w *world) string {
			p := w.dial().send(get)
			for _, piece := range pieces {
				time.Sleep(20 * time.Second)
				p.send(piece)
			}
			time.Sleep(5 * time.Minute)
			_, whole := p.result()
			return w.notes() + whole
		})
	}
}

// TestContext requires that the context ends with the handler, and has what hooks and net/http put there.
func TestContext(t *testing.T) {
	t.Parallel()
	both(t, func(w *world) http.HandlerFunc {
		return func(_ http.ResponseWriter, r *http.Request) {
			ctx := r.Context()
			_, dated := ctx.Deadline()
			w.note("%v %v %v %v %v", ctx.Value(baseKey{}), ctx.Value(http.ServerContextKey) == w.hs, ctx.Value(http.LocalAddrContextKey), ctx.Err(), dated)
			stopped := context.AfterFunc(ctx, func() { w.note("stopped") })()
			go func() {
				<-ctx.Done()
				w.note("%v %v %v", stopped, ctx.Err(), context.Cause(ctx))
			}()
		}
	}, func(w *world) string {
		w.dial().send(get)
		time.Sleep(time.Second)
		return w.notes()
	})
}

// TestHijack requires that what came after the request is the handler's, and that nobody waits for it or closes the connection.
func TestHijack(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, raw string }{
		{"nothing", get},
		{"the next request", get + post("Content-Length: 3\r\n", "abc")},
		{"a body", post("Content-Length: 3\r\n", "abc")},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			both(t, func(w *world) http.HandlerFunc {
				return func(rw http.ResponseWriter, r *http.Request) {
					conn, buffered, err := http.NewResponseController(rw).Hijack()
					if err != nil {
						t.Error(err)
						return
					}
					rest, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
					w.note("%q", rest)
					_, err = rw.Write([]byte("x"))
					_, _, again := http.NewResponseController(rw).Hijack()
					w.note("%v %v", err, again)
					_, _ = io.WriteString(buffered, "HTTP/1.1 299 OK\r\nContent-Length: 0\r\n\r\n")
					_ = buffered.Flush()
					go func() {
						more := make([]byte, 4)
						n, err := io.ReadFull(buffered, make([]byte, len(rest)+4)[:len(rest)])
						w.note("%d %v", n, err)
						n, err = io.ReadFull(buffered, more)
						w.note("%q %d %v", more, n, err)
						_ = conn.Close()
					}()
				}
			}, func(w *world) string {
				p := w.dial().send(row.raw)
				time.Sleep(time.Hour)
				if w.front != nil {
					_ = w.front.Close()
					if err := w.front.Wait(w.t.Context()); err != nil {
						t.Error(err)
					}
				}
				p.send("more")
				time.Sleep(time.Second)
				_, whole := p.result()
				return w.notes() + whole + fmt.Sprint(w.states)
			})
		})
	}
}

// TestStates requires the same order of states of a connection.
func TestStates(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"", get, get + get, post("Content-Length: 5\r\n", "ab"), "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"} {
		both(t, record, func(w *world) string {
			p := w.dial().send(raw)
			time.Sleep(time.Second)
			_ = p.Close()
			time.Sleep(time.Second)
			w.mu.Lock()
			defer w.mu.Unlock()
			return fmt.Sprint(w.states)
		})
	}
}

// TestGoexit has a handler end its goroutine.
func TestGoexit(t *testing.T) {
	t.Parallel()
	both(t, func(*world) http.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) { runtime.Goexit() }
	}, func(w *world) string {
		p := w.dial().send(get)
		time.Sleep(time.Second)
		short, _ := p.result()
		return short + fmt.Sprint(w.states)
	})
}
