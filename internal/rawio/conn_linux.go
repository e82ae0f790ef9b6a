//go:build linux && !race

package rawio

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// A conn reads and writes a connection of the system.
type conn struct {
	net.Conn
	raw syscall.RawConn
	in  op
	out op
}

// An op is a read or a write. What it is about stands here, so that its function is made once, for all.
type op struct {
	mu  sync.Mutex // guards the rest, and makes one wait for the other
	try func(fd uintptr) (over bool)
	p   []byte
	n   int
	err error
}

// Of returns what reads and writes c, as [net.Conn] does it: in a goroutine for each direction at least, until the
// deadlines of c. It returns c where that is no connection of package net itself: one that has such a connection in it may
// read and write in its own way.
func Of(c net.Conn) io.ReadWriter {
	var raw syscall.RawConn
	switch c := c.(type) {
	case *net.TCPConn:
		raw, _ = c.SyscallConn() // nil with an error
	case *net.UnixConn:
		raw, _ = c.SyscallConn()
	}
	if raw == nil {
		return c
	}
	d := &conn{Conn: c, raw: raw}
	d.in.try, d.out.try = d.in.receive, d.out.send
	return d
}

// Read implements [io.Reader].
func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := c.in.do(p, c.raw.Read)
	switch {
	case err != nil:
		return 0, c.errorOf("read", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write implements [io.Writer].
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.out.do(p, c.raw.Write)
	if err != nil {
		return n, c.errorOf("write", err)
	}
	return n, nil
}

// errorOf returns a failure as [net.Conn] does.
func (c *conn) errorOf(what string, err error) error {
	switch failure := err.(type) {
	case syscall.Errno: // of the system
		err = os.NewSyscallError(what, failure)
	case *net.OpError: // of the poller
		err = failure.Err
	}
	return &net.OpError{Op: what, Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

// do tries until it is over, and has wait say when to try.
func (o *op) do(p []byte, wait func(func(uintptr) bool) error) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.p, o.n, o.err = p, 0, nil
	err := wait(o.try)
	if o.p = nil; err == nil {
		err = o.err
	}
	return o.n, err
}

// receive takes what has come.
func (o *op) receive(fd uintptr) (over bool) {
	for {
		n, _, failure := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(unsafe.SliceData(o.p))), uintptr(len(o.p)), syscall.MSG_DONTWAIT, 0, 0)
		switch failure {
		case 0:
			o.n = int(n)
			return true
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			o.err = failure
			return true
		}
	}
}

// send gives the system what it takes.
func (o *op) send(fd uintptr) (over bool) {
	for o.n < len(o.p) {
		rest := o.p[o.n:]
		n, _, failure := syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(unsafe.SliceData(rest))), uintptr(len(rest)), syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0, 0)
		switch failure {
		case 0:
			o.n += int(n)
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			o.err = failure
			return true
		}
	}
	return true
}

// ReadPipe reads what has come through a non-blocking end of a pipe, as [syscall.Read] does.
func ReadPipe(fd uintptr, p []byte) (int, error) {
	n, _, failure := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return outcome(n, failure)
}

// WritePipe writes what a non-blocking end of a pipe takes, as [syscall.Write] does.
func WritePipe(fd uintptr, p []byte) (int, error) {
	n, _, failure := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return outcome(n, failure)
}

func outcome(n uintptr, failure syscall.Errno) (int, error) {
	if failure != 0 {
		return 0, failure
	}
	return int(n), nil
}
