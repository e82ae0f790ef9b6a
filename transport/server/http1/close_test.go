package http1

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// slow answers after a minute.
func slow(*world) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		time.Sleep(time.Minute)
		_, _ = io.WriteString(rw, "ok")
	}
}

// TestShutdown requires that requests under way are answered, that the responses announce the end, and that the others' connections are closed.
func TestShutdown(t *testing.T) {
	t.Parallel()
	both(t, slow, func(w *world) string {
		idle, busy, two := w.dial().send(get), w.dial(), w.dial()
		time.Sleep(2 * time.Minute)
		idle.send("")
		busy.send(get)
		two.send(get + get)
		time.Sleep(time.Second)
		if busy.isClosed() { // its header took too long
			busy, two = w.dial().send(get), w.dial().send(get+get)
		}
		_ = w.hs.Shutdown(w.t.Context())
		if w.front != nil {
			if err := w.front.Wait(w.t.Context()); err != nil {
				t.Error(err)
			}
		}
		var all []string
		for _, p := range []*peer{idle, busy, two} {
			_, whole := p.result()
			all = append(all, whole)
		}
		return strings.Join(all, "\n")
	})
}

// TestWait bounds the wait for a handler.
func TestWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gone := make(chan struct{})
		w := newWorld(t, func(*world) http.HandlerFunc {
			return func(_ http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				close(gone)
			}
		}, true)
		p := w.dial().send(get)
		_ = w.hs.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := w.front.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		<-gone
		if !p.isClosed() {
			t.Error("the connection is open")
		}
		if err := w.front.Wait(t.Context()); err != nil {
			t.Errorf("got %v", err)
		}
	})
}

// TestCloseEarly closes a Front before it accepts, twice, and with an odd connection on its way.
func TestCloseEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := NewFront(newPipes(), &http.Server{Handler: http.NotFoundHandler()})
		_, _ = f.Close(), f.Close()
		if _, err := f.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v", err)
		}
		ln := newPipes()
		f = NewFront(ln, &http.Server{Handler: http.NotFoundHandler()})
		go f.begin.Do(func() { go f.acceptConns() })
		near, far := net.Pipe()
		ln.conns <- far
		_, _ = io.WriteString(near, "HEAD / HTTP/1.1\r\n\r\n")
		synctest.Wait()
		_ = f.Close()
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("got %v", err)
		}
	})
}

// stubborn is a listener that returns a connection though it is closed.
type stubborn struct {
	*pipes
	last net.Conn
}

func (s *stubborn) Accept() (net.Conn, error) {
	c, err := s.pipes.Accept()
	if err != nil && s.last != nil {
		c, err, s.last = s.last, nil, nil
	}
	return c, err
}

// TestAcceptedTooLate requires that a connection that is accepted after Close is closed.
func TestAcceptedTooLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		f := NewFront(&stubborn{newPipes(), far}, &http.Server{Handler: http.NotFoundHandler()})
		go func() { _, _ = f.Accept() }()
		synctest.Wait()
		_ = f.Close()
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("got %v", err)
		}
		if err := f.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

type passing struct{}

func (passing) Error() string   { return "no files left" }
func (passing) Timeout() bool   { return false }
func (passing) Temporary() bool { return true }

// TestAcceptErrors requires that the server decides which errors end it.
func TestAcceptErrors(t *testing.T) {
	t.Parallel()
	both(t, quiet, func(w *world) string {
		w.ln.fails <- passing{}
		w.ln.fails <- passing{}
		p := w.dial().send(get)
		time.Sleep(time.Second)
		short, _ := p.result()
		w.ln.fails <- errors.New("the end")
		time.Sleep(time.Second)
		select {
		case <-w.ln.done:
		default:
			t.Error("the listener is open")
		}
		return short + w.log.String()
	})
}

// TestIdleMemory requires that a connection that waits has little, whatever it carried.
func TestIdleMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(*world) http.HandlerFunc {
			return func(rw http.ResponseWriter, r *http.Request) {
				_, _ = io.ReadAll(r.Body)
				for i := range 100 {
					rw.Header()["X"+strings.Repeat("x", i)] = []string{"y"}
				}
				for range 100 {
					_, _ = rw.Write(make([]byte, 10<<10))
				}
			}
		}, true)
		p := w.dial().send(post("X: "+strings.Repeat("x", 12<<10)+"\r\nContent-Length: 100000\r\n", strings.Repeat("b", 100000)) + get)
		time.Sleep(time.Second)
		if short, _ := p.result(); short != "200 200 open" {
			t.Errorf("got %s", short)
		}
		for c := range w.front.conns {
			c.responseHeader()
			if len(c.buf) > bufferBytes || len(c.head.fields) > 2 || len(c.headers) > maxFields {
				t.Errorf("a buffer of %d bytes, %d fields", len(c.buf), len(c.head.fields))
			}
		}
	})
}
