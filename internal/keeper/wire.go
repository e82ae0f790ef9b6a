package keeper

import (
	"encoding/binary"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// ackDelay is how long an acknowledgement waits for other frames that it can go with.
const ackDelay = 2 * time.Millisecond

// helloTime is how long the other side has to say what it speaks.
const helloTime = 10 * time.Second

// batchSize is how many bytes are gathered for one write.
const batchSize = 256 << 10

// A batch is frames that are written together. Short bodies are copied into one piece, long ones are written from where they are.
type batch struct {
	pieces net.Buffers
	open   []byte // what is not in pieces yet
	size   int
}

func (b *batch) full() bool { return b.size >= batchSize }

func (b *batch) control(frame []byte) {
	b.open = append(b.open, frame...)
	b.size += len(frame)
}

func (b *batch) line(handle, number uint64, text []byte) {
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

func (b *batch) ack(handle, number uint64) {
	b.open = appendPlace(appendHeader(b.open, kindAck, placeSize), handle, number)
	b.size += headerSize + placeSize
}

func (b *batch) complaint(handle uint64, c complaint) {
	b.open = appendHeader(b.open, kindStderr, 12+len(c.text))
	b.open = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(b.open, handle), uint32(c.dropped))
	b.open = append(b.open, c.text...)
	b.size += headerSize + 12 + len(c.text)
}

// readComplaint reads what complaint wrote.
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
	b.size = 0
	if b.open = b.open[:0]; cap(b.open) > batchSize/4 {
		b.open = nil // an idle connection keeps little
	}
	return err
}

// A wire writes what there is for one connection: whoever has something calls now or soon, and gather collects it.
type wire struct {
	conn  net.Conn
	wake  chan struct{} // of one place
	ended chan struct{} // closed when nothing more is to be written
	timer atomic.Bool   // whether soon has a timer
}

func newWire(conn net.Conn) *wire {
	return &wire{conn: conn, wake: make(chan struct{}, 1), ended: make(chan struct{})}
}

// now has gather called.
func (w *wire) now() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// soon has gather called within ackDelay.
func (w *wire) soon() {
	if w.timer.CompareAndSwap(false, true) {
		time.AfterFunc(ackDelay, func() {
			w.timer.Store(false)
			w.now()
		})
	}
}

// write writes what gather collects, until the connection breaks, or end is called and nothing is left.
func (w *wire) write(gather func(*batch)) error {
	var b batch
	for {
		gather(&b)
		if b.size > 0 {
			if err := b.writeTo(w.conn); err != nil {
				return err
			}
			continue
		}
		select {
		case <-w.wake:
		case <-w.ended:
			return nil
		}
	}
}
