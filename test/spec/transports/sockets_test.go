//go:build unix

package transports_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// copyOf returns a listener of this process on the socket of another one.
func copyOf(t *testing.T, ln *net.TCPListener) net.Listener {
	t.Helper()
	f, err := ln.File()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	same, err := net.FileListener(f)
	if err != nil {
		t.Fatal(err)
	}
	return same
}

// TestKeepSocket has two servers after each other on one socket. A client that connects while there is none waits for the second; the first has told the program when it served and when
// it drained. The socket of the probes goes from one to the other, too.
func TestKeepSocket(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	probes, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = probes.Close() }()
	stages := make(chan string, 10)
	serve := func() (stop func() error) {
		t.Helper()
		rt, err := troupe.New(troupe.Options{DrainDelay: -1, HTTP: troupe.HTTPOptions{
			HealthListener: troupe.KeepSocket(copyOf(t, probes.(*net.TCPListener))),
			Serving:        func() { stages <- "serving" },
			Draining:       func() { stages <- "draining" },
		}})
		if err != nil {
			t.Fatal(err)
		}
		s := troupe.NewServer(mcp.Implementation{Name: "test", Version: "1"}, nil)
		host.AddTestTools(s)
		rt.Mount("/mcp", s)
		ctx, cancel := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() { served <- rt.ServeOn(ctx, troupe.KeepSocket(copyOf(t, ln.(*net.TCPListener)))) }()
		if got := <-stages; got != "serving" {
			t.Errorf("first it is %s", got)
		}
		return func() error { cancel(); return <-served }
	}
	// connect connects, and sends a request if it is to.
	connect := func(send bool) net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatalf("refused: %v", err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if send {
			begin(t, c)
		}
		return c
	}

	stop := serve()
	answered(t, connect(true))
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got := <-stages; got != "draining" {
		t.Errorf("then it is %s", got)
	}
	waiting, silent := connect(true), connect(false)
	resp := make(chan error, 1)
	go func() { resp <- probe(probes.Addr().String()) }()
	stop = serve()
	answered(t, waiting)
	begin(t, silent)
	answered(t, silent)
	if err := <-resp; err != nil {
		t.Errorf("the probe: %v", err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestSilentConnectionOfAKeptSocket drains a server to which a client has connected that has sent nothing yet: it has a second for that.
func TestSilentConnectionOfAKeptSocket(t *testing.T) {
	for name, kept := range map[string]bool{"kept": true, "its own": false} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				h, ln := host.New(t, troupe.Options{DrainDelay: -1}, nil), kit.NewListener()
				on := net.Listener(ln)
				if kept {
					on = troupe.KeepSocket(ln)
				}
				ctx, stop := context.WithCancel(t.Context())
				served := make(chan error, 1)
				go func() { served <- h.Runtime.ServeOn(ctx, on) }()
				late, err := ln.Dial(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = late.Close() }()
				synctest.Wait()
				stop()
				time.Sleep(900 * time.Millisecond)
				if kept {
					begin(t, late)
					answered(t, late)
				} else if _, err := late.Read(make([]byte, 1)); err != io.EOF {
					t.Errorf("a connection to a socket that is not kept: %v, want its end", err)
				}
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// begin sends an initialize request.
func begin(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(host.InitializeRequest), host.InitializeRequest); err != nil {
		t.Error(err)
	}
}

// answered requires a response.
func answered(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute)) // if it hangs
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%s: %s, %v", resp.Status, body, err)
	}
}

// probe asks whether the server is ready, as soon as there is one.
func probe(address string) error {
	resp, err := http.Get("http://" + address + "/readyz")
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", resp.Status)
	}
	return nil
}
