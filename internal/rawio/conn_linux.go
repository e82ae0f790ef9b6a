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
}

// An op is a read or a write under way.
type op struct {
	p   []byte
	n   int
	err error

	receives, sends func(fd uintptr) (over bool) // its methods, made once
}

// ops are used again, so that a connection at rest has none.
var ops = sync.Pool{New: func() any {
	o := new(op)
	o.receives, o.sends = o.receive, o.send
	return o
}}

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
	return &conn{Conn: c, raw: raw}
}

// Read implements [io.Reader].
func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	o := ops.Get().(*op)
	o.p = p
	n, err := o.end(c.raw.Read(o.receives))
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
	o := ops.Get().(*op)
	o.p = p
	n, err := o.end(c.raw.Write(o.sends))
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

// end returns what has come of an op, of which the poller says why it gave up. The op is another one's then.
func (o *op) end(gaveUp error) (n int, err error) {
	n, err = o.n, gaveUp
	if err == nil {
		err = o.err
	}
	o.p, o.n, o.err = nil, 0, nil
	ops.Put(o)
	return n, err
}

// receive takes what has come.
func (o *op) receive(fd uintptr) (over bool) {
	for {
		n, _, failure := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(unsafe.SliceData(o.p))), uintptr(len(o.p)), syscall.MSG_DONTWAIT, 0, 0)
		if failure == 0 {
			o.n = int(n)
			return true
		}
		if stop, over := o.judgeFailure(failure); stop {
			return over
		}
	}
}

// send gives the system what it takes.
func (o *op) send(fd uintptr) (over bool) {
	for o.n < len(o.p) {
		rest := o.p[o.n:]
		n, _, failure := syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(unsafe.SliceData(rest))), uintptr(len(rest)), syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0, 0)
		if failure == 0 {
			o.n += int(n)
			continue
		}
		if stop, over := o.judgeFailure(failure); stop {
			return over
		}
	}
	return true
}

// judgeFailure says whether to stop at a failure of the system, rather than to ask it again, and whether the op is over then or
// waits for the socket.
func (o *op) judgeFailure(failure syscall.Errno) (stop, over bool) {
	switch failure {
	case syscall.EINTR:
		return false, false
	case syscall.EAGAIN:
		return true, false
	}
	o.err = failure
	return true, true
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
