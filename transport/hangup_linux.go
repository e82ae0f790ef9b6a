package transport

import (
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// hangups notices when the peers of connections close them, by an epoll of its own that reports nothing else. Its
// goroutine waits in Go's poller as for any other file. It runs while there is something to watch, and a moment longer.
// The zero value is ready.
type hangups struct {
	mu      sync.Mutex // guards the fields below; taken while an Exchange's mu is held, never the other way round
	epoll   *os.File   // nil while there is no goroutine
	fd      int        // of epoll
	last    uint64
	watched map[uint64]*Exchange
}

// watchConn watches conn for x. It returns the number to give to drop, or 0 if conn cannot be watched.
func (p *hangups) watchConn(x *Exchange, conn net.Conn) uint64 {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoll == nil && !p.openEpoll() {
		return 0
	}
	p.last++
	id, fault := p.last, error(nil)
	event := syscall.EpollEvent{Events: syscall.EPOLLRDHUP | syscall.EPOLLONESHOT, Fd: int32(id), Pad: int32(id >> 32)}
	err = raw.Control(func(fd uintptr) {
		// Closing fd takes it out of the epoll. An fd that is used again is still there.
		fault = syscall.EpollCtl(p.fd, syscall.EPOLL_CTL_ADD, int(fd), &event)
		if fault == syscall.EEXIST {
			fault = syscall.EpollCtl(p.fd, syscall.EPOLL_CTL_MOD, int(fd), &event)
		}
	})
	if err != nil || fault != nil {
		p.closeLater()
		return 0
	}
	p.watched[id] = x
	return id
}

// stopWatching stops watching. An id of 0 does nothing.
func (p *hangups) stopWatching(id uint64) {
	if id == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.watched, id)
	p.closeLater()
}

// restTime is how long the epoll outlives the last connection: to make one can cost more than a short stream. Tests,
// which wait for its end, make it shorter.
var restTime = time.Second

// closeLater makes the goroutine look later whether there is still nothing to watch. mu is held.
func (p *hangups) closeLater() {
	if len(p.watched) == 0 && p.epoll != nil {
		_ = p.epoll.SetReadDeadline(time.Now().Add(restTime))
	}
}

// closeIfIdle closes the epoll if there is nothing to watch, and reports whether it did.
func (p *hangups) closeIfIdle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.watched) > 0 {
		_ = p.epoll.SetReadDeadline(time.Time{})
		return false
	}
	p.closeEpoll()
	return true
}

// openEpoll makes the epoll. mu is held.
func (p *hangups) openEpoll() bool {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return false
	}
	_ = syscall.SetNonblock(fd, true) // cannot fail, and makes Go's poller take it
	p.fd, p.epoll, p.watched = fd, os.NewFile(uintptr(fd), "epoll"), make(map[uint64]*Exchange)
	raw, err := p.epoll.SyscallConn()
	if err != nil || p.epoll.SetDeadline(time.Time{}) != nil { // Go's poller did not take it
		p.closeEpoll()
		return false
	}
	go p.pollHangups(raw)
	return true
}

// closeEpoll closes the epoll. mu is held.
func (p *hangups) closeEpoll() {
	_ = p.epoll.Close()
	p.epoll, p.watched = nil, nil
}

// pollHangups closes the exchanges whose connections are reported. It returns when there has been nothing to watch for a
// moment.
func (p *hangups) pollHangups(epoll syscall.RawConn) {
	var events [64]syscall.EpollEvent
	var gone [len(events)]*Exchange
	for {
		n, fault := 0, error(nil)
		err := epoll.Read(func(fd uintptr) bool {
			for fault = syscall.EINTR; fault == syscall.EINTR; {
				n, fault = syscall.EpollWait(int(fd), events[:], 0)
			}
			return n > 0 || fault != nil
		})
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if p.closeIfIdle() {
				return
			}
			continue
		}
		if err != nil || fault != nil {
			return // Nobody else closes the epoll, and EpollWait fails only with EINTR.
		}
		p.mu.Lock()
		for i, e := range events[:n] {
			gone[i] = p.watched[uint64(uint32(e.Fd))|uint64(uint32(e.Pad))<<32]
		}
		p.mu.Unlock()
		for i, x := range gone[:n] {
			if gone[i] = nil; x != nil {
				x.client().endByClient()
			}
		}
	}
}
