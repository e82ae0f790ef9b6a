package keeper

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// ackDelay is how long an acknowledgement waits for other frames that it can go with.
const ackDelay = 10 * time.Millisecond

// helloTime is how long the other side has to say what it speaks.
const helloTime = 10 * time.Second

// lockTime is how long a keeper may need from the time when it does not answer any more to its end.
const lockTime = 30 * time.Second

// batchSize is how many bytes are gathered for one write.
const batchSize = 256 << 10

// A batch is frames that are written together. Short bodies are copied into one piece, long ones are written from where they are.
type batch struct {
	pieces net.Buffers
	open   []byte // what is not in pieces yet
	size   int
}

func (b *batch) full() bool { return b.size >= batchSize }

func (b *batch) addFrames(frame []byte) {
	b.open = append(b.open, frame...)
	b.size += len(frame)
}

func (b *batch) addLine(handle, number uint64, text []byte) {
	const copied = 8 << 10
	b.open = appendPlace(appendHeader(b.open, kindLine, placeSize+len(text)), handle, number)
	b.size += headerSize + placeSize + len(text)
	if len(text) <= copied {
		b.open = append(b.open, text...)
		return
	}
	b.pieces = append(b.pieces, b.open, text)
	b.open = nil
}

func (b *batch) addAck(handle, number uint64) {
	b.open = appendPlace(appendHeader(b.open, kindAck, placeSize), handle, number)
	b.size += headerSize + placeSize
}

func (b *batch) addComplaint(handle uint64, c complaint) {
	b.open = appendHeader(b.open, kindStderr, 12+len(c.text))
	b.open = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(b.open, handle), uint32(c.dropped))
	b.open = append(b.open, c.text...)
	b.size += headerSize + 12 + len(c.text)
}

// readComplaint reads what addComplaint wrote.
func readComplaint(body []byte) (handle uint64, dropped int, text []byte, err error) {
	if len(body) < 12 {
		return 0, 0, nil, errFrame
	}
	return binary.BigEndian.Uint64(body), int(binary.BigEndian.Uint32(body[8:])), body[12:], nil
}

// writeTo writes all of it, and leaves it empty.
func (b *batch) writeTo(w io.Writer) error {
	var err error
	if len(b.pieces) == 0 {
		_, err = w.Write(b.open)
	} else {
		all := append(b.pieces, b.open)
		_, err = all.WriteTo(w)
		b.pieces = nil
	}
	b.reset()
	return err
}

// tryWrite writes all of it if the system takes it at once, and reports whether it did. What is left is still the batch.
func (b *batch) tryWrite(raw syscall.RawConn) bool {
	if len(b.pieces) > 0 {
		return false
	}
	n := 0
	_ = raw.Write(func(fd uintptr) bool {
		n = writeNow(fd, b.open)
		return true
	})
	if n < len(b.open) {
		b.open, b.size = b.open[n:], b.size-n
		return false
	}
	b.reset()
	return true
}

func (b *batch) reset() {
	b.size = 0
	if b.open = b.open[:0]; cap(b.open) > batchSize/4 {
		b.open = nil // an idle connection keeps little
	}
}

// A wire writes what there is for one connection: gather collects it. Whoever has something calls wakeWriter or scheduleWrite; or tryWrite, and writes it in place of the goroutine that is there for that.
type wire struct {
	conn   net.Conn
	raw    syscall.RawConn // nil for a connection on which a write cannot be tried
	gather func(*batch)
	wake   chan struct{} // of one place
	ended  chan struct{} // closed when nothing more is to be written
	timer  atomic.Bool   // whether scheduleWrite has a timer

	patience time.Duration // how long flush waits for whoever writes

	turn chan struct{} // of one place, which who gathers and writes has taken
	rest batch         // what was gathered and is not written
}

func newWire(conn net.Conn) *wire {
	w := &wire{conn: conn, patience: flushTime, wake: make(chan struct{}, 1), ended: make(chan struct{}), turn: make(chan struct{}, 1)}
	if c, ok := conn.(syscall.Conn); ok {
		w.raw, _ = c.SyscallConn() // nil with an error
	}
	return w
}

// wakeWriter has what there is written.
func (w *wire) wakeWriter() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// scheduleWrite has it written within ackDelay.
func (w *wire) scheduleWrite() {
	if w.timer.CompareAndSwap(false, true) {
		time.AfterFunc(ackDelay, func() {
			w.timer.Store(false)
			w.wakeWriter()
		})
	}
}

// tryWrite writes what there is, as far as that does not wait; the rest is left to runWriter. Its caller holds nothing that gather takes.
func (w *wire) tryWrite() {
	select {
	case w.turn <- struct{}{}:
		w.writeSome()
		<-w.turn
	default:
		w.wakeWriter()
	}
}

// flushTime is the patience of a wire: much longer than a write takes that does not itself wait for a reader.
const flushTime = 100 * time.Millisecond

// flush is tryWrite, but waits for whoever writes already: they may have gathered before there was what the caller has.
func (w *wire) flush() {
	select {
	case w.turn <- struct{}{}:
	default:
		late := time.NewTimer(w.patience)
		defer late.Stop()
		select {
		case w.turn <- struct{}{}:
		case <-late.C:
			w.wakeWriter()
			return
		}
	}
	for w.writeSome() {
	}
	<-w.turn
}

// writeSome writes a batch, or the rest of one, if the system takes it at once, and leaves it to runWriter otherwise. It reports
// whether there may be more. The caller has the turn.
func (w *wire) writeSome() bool {
	if w.raw == nil {
		w.wakeWriter()
		return false
	}
	if w.rest.size == 0 {
		w.gather(&w.rest)
	}
	if w.rest.size == 0 {
		return false
	}
	if !w.rest.tryWrite(w.raw) {
		w.wakeWriter()
		return false
	}
	return true
}

// runWriter writes what gather collects, until the connection breaks, or nothing is left after ended is closed.
func (w *wire) runWriter() error {
	for {
		wrote, err := w.writeOnce()
		if err != nil {
			return err
		}
		if wrote {
			continue
		}
		select {
		case <-w.wake:
		case <-w.ended:
			return nil
		}
	}
}

// writeOnce writes a batch, and reports whether there was one.
func (w *wire) writeOnce() (bool, error) {
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	if w.rest.size == 0 {
		w.gather(&w.rest)
	}
	if w.rest.size == 0 {
		return false, nil
	}
	return true, w.rest.writeTo(w.conn)
}

// sleep waits, unless the context ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
