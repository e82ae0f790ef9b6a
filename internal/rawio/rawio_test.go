package rawio_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/rawio"
)

// pair returns both ends of a connection.
func pair(t testing.TB, network string) (a, b net.Conn) {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		dir, err := os.MkdirTemp("", "") // t.TempDir may be longer than the name of a socket
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		address = filepath.Join(dir, "socket")
	}
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial(network, l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	return a, b
}

// TestConn sends ten megabytes through a connection whose other end reads slowly, and as many back, until the end.
func TestConn(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			a, b := pair(t, network)
			text := bytes.Repeat([]byte("Those who come late are not waited for.\n"), 10<<20/40)
			var both sync.WaitGroup
			for _, c := range []net.Conn{a, b} {
				d := rawio.Of(c)
				both.Go(func() {
					if n, err := d.Write(text); n != len(text) || err != nil {
						t.Errorf("%d of %d bytes written: %v", n, len(text), err)
					}
					_ = c.(interface{ CloseWrite() error }).CloseWrite()
				})
				both.Go(func() {
					got := make([]byte, 0, len(text))
					for piece := make([]byte, 3001); ; {
						n, err := d.Read(piece)
						got = append(got, piece[:n]...)
						if err != nil {
							if err != io.EOF {
								t.Error(err)
							}
							break
						}
					}
					if !bytes.Equal(got, text) {
						t.Errorf("%d bytes have come, of %d", len(got), len(text))
					}
				})
			}
			both.Wait()
		})
	}
}

// TestConnFails fails as the connection itself does.
func TestConnFails(t *testing.T) {
	t.Parallel()
	long := make([]byte, 16<<20) // more than a socket takes
	tests := []struct {
		name  string
		spoil func(a, b net.Conn)
		do    func(d io.ReadWriter) error
		want  error
	}{
		{"a deadline that has passed", func(a, _ net.Conn) { _ = a.SetDeadline(time.Unix(1, 0)) }, readOne, os.ErrDeadlineExceeded},
		{"a deadline that passes", func(a, _ net.Conn) { _ = a.SetReadDeadline(time.Now().Add(time.Millisecond)) }, readOne, os.ErrDeadlineExceeded},
		{"a deadline of writes", func(a, b net.Conn) {
			go func() {
				_ = readOne(b) // something was written
				_ = a.SetWriteDeadline(time.Unix(1, 0))
			}()
		}, func(d io.ReadWriter) error {
			n, err := d.Write(long)
			if n == 0 || n == len(long) {
				return errors.New("nothing was written, or all")
			}
			return err
		}, os.ErrDeadlineExceeded},
		{"closed", func(a, _ net.Conn) { _ = a.Close() }, readOne, net.ErrClosed},
		{"closed, and written", func(a, _ net.Conn) { _ = a.Close() }, writeOne, net.ErrClosed},
		{"the end", func(_, b net.Conn) { _ = b.Close() }, readOne, io.EOF},
		{"reset", func(a, b net.Conn) {
			_ = b.(*net.TCPConn).SetLinger(0)
			_ = b.Close()
		}, readOne, syscall.ECONNRESET},
		{"nobody reads any more", func(a, _ net.Conn) { _ = a.(*net.TCPConn).CloseWrite() }, writeOne, syscall.EPIPE},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, b := pair(t, "tcp")
			d := rawio.Of(a)
			tt.spoil(a, b)
			err := tt.do(d)
			if !errors.Is(err, tt.want) {
				t.Fatalf("%v, not %v", err, tt.want)
			}
			if err == io.EOF {
				return
			}
			var of *net.OpError
			if !errors.As(err, &of) || of.Op != "read" && of.Op != "write" || of.Timeout() != errors.Is(tt.want, os.ErrDeadlineExceeded) || strings.Contains(err.Error(), "raw") {
				t.Errorf("it says %q (%T)", err, err)
			}
		})
	}
}

func readOne(d io.ReadWriter) error {
	_, err := d.Read(make([]byte, 1))
	return err
}

func writeOne(d io.ReadWriter) error {
	_, err := d.Write(make([]byte, 1))
	return err
}

// TestConnWaits has a read go on that waits when what it waits for comes, and one end when the connection is closed.
func TestConnWaits(t *testing.T) {
	t.Parallel()
	a, b := pair(t, "tcp")
	d := rawio.Of(a)
	if n, err := d.Read(nil); n != 0 || err != nil {
		t.Errorf("a read of nothing returns %d, %v", n, err)
	}
	if n, err := d.Write(nil); n != 0 || err != nil {
		t.Errorf("a write of nothing returns %d, %v", n, err)
	}
	_ = a.SetReadDeadline(time.Unix(1, 0))
	_ = readOne(d)
	_ = a.SetReadDeadline(time.Time{})
	read := make(chan error, 1)
	for _, spoil := range []func(){func() { _, _ = b.Write([]byte("x")) }, func() { _ = a.Close() }} {
		go func() { read <- readOne(d) }()
		select {
		case err := <-read:
			t.Fatalf("a read has not waited: %v", err)
		default:
		}
		spoil()
		if err := <-read; err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}
}

// TestOfOthers leaves alone what is no connection of the system, or has one and may read in its own way.
func TestOfOthers(t *testing.T) {
	t.Parallel()
	piped, _ := net.Pipe()
	tcp, _ := pair(t, "tcp")
	for _, c := range []net.Conn{piped, struct{ *net.TCPConn }{tcp.(*net.TCPConn)}} {
		if d := rawio.Of(c); d != c {
			t.Errorf("of a %T it is a %T", c, d)
		}
	}
}

// TestConnAllocates nothing for a message.
func TestConnAllocates(t *testing.T) {
	a, b := pair(t, "tcp")
	d, e := rawio.Of(a), rawio.Of(b)
	message := make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() {
		_, _ = d.Write(message)
		_, _ = io.ReadFull(e, message)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkConn sends messages to and fro, one at a time.
func BenchmarkConn(b *testing.B) {
	for _, of := range []struct {
		name string
		of   func(net.Conn) io.ReadWriter
	}{{"net", func(c net.Conn) io.ReadWriter { return c }}, {"rawio", rawio.Of}} {
		b.Run(of.name, func(b *testing.B) {
			near, far := pair(b, "tcp")
			d, e := of.of(near), of.of(far)
			go func() {
				message := make([]byte, 100)
				for {
					if _, err := io.ReadFull(e, message); err != nil {
						return
					}
					_, _ = e.Write(message)
				}
			}()
			message := make([]byte, 100)
			for b.Loop() {
				_, _ = d.Write(message)
				_, _ = io.ReadFull(d, message)
			}
		})
	}
}
