package keeper

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Bounds of what goes over the socket, in bytes.
const (
	// MaxLine is the longest line of a process, and to one, without its end.
	MaxLine = 16 << 20

	// Window is how much of one process may wait to be acknowledged, in each direction. From there on its standard output is not read, and Send waits.
	Window = 32 << 20

	// lineCost is what a line counts for in a window beside its bytes, so that many short ones are bounded, too.
	lineCost = 64

	maxControl = 1 << 20 // the body of a frame that is no line
	headerSize = 5       // the length of kind and body, and the kind
	placeSize  = 16      // what a line and an acknowledgement begin with: the process and the number
)

// A kind says what a frame is. Numbers are never used again.
type kind uint8

const (
	kindHello kind = 1 + iota
	kindWelcome
	kindRefused
	kindDone
	kindStart
	kindStarted
	kindStop
	kindList
	kindListed
	kindAdopt
	kindAdopted
	kindBye
	kindForget
	kindExited
	kindReplaced
	kindLine
	kindAck
	kindStderr
	kindRemember
	kindRecall
)

// Versions of the protocol that this release speaks. A kind or a member that a later one adds is sent only to who knows that version.
const (
	oldestVersion = 1
	newestVersion = 1
)

// kinds has the name of each kind, for errors and the log, and the largest body.
var kinds = [...]struct {
	name string
	most int
}{
	kindHello:    {"hello", maxControl},
	kindWelcome:  {"welcome", maxControl},
	kindRefused:  {"refused", maxControl},
	kindDone:     {"done", maxControl},
	kindStart:    {"start", maxControl},
	kindStarted:  {"started", maxControl},
	kindStop:     {"stop", maxControl},
	kindList:     {"list", maxControl},
	kindListed:   {"listed", maxControl},
	kindAdopt:    {"adopt", maxControl},
	kindAdopted:  {"adopted", maxControl},
	kindBye:      {"bye", maxControl},
	kindForget:   {"forget", maxControl},
	kindExited:   {"exited", maxControl},
	kindReplaced: {"replaced", maxControl},
	kindLine:     {"line", placeSize + MaxLine},
	kindAck:      {"ack", placeSize},
	kindStderr:   {"stderr", maxControl},
	kindRemember: {"remember", placeSize + maxName + maxLedger},
	kindRecall:   {"recall", placeSize + maxName + maxLedger},
}

func (k kind) known() bool { return k > 0 && int(k) < len(kinds) }

func (k kind) String() string {
	if k.known() {
		return kinds[k].name
	}
	return fmt.Sprintf("frame %d", uint8(k))
}

// errFrame says that what came is no frame: the connection cannot go on.
var errFrame = errors.New("keeper: bad frame")

// A frame is one message on the socket.
type frame struct {
	kind kind
	body []byte
}

// readFrame reads one frame. One of a kind that this release does not know has no body: it was read over. The body is the caller's, and has room for one byte more.
func readFrame(r *bufio.Reader) (frame, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return frame{}, err
	}
	f := frame{kind: kind(header[4])}
	length := int64(binary.BigEndian.Uint32(header[:4])) - 1
	if !f.kind.known() {
		if length < 0 || length > placeSize+MaxLine {
			return f, fmt.Errorf("%w: %v has a body of %d bytes", errFrame, f.kind, length)
		}
		_, err := r.Discard(int(length))
		return f, err
	}
	if length < 0 || length > int64(kinds[f.kind].most) {
		return f, fmt.Errorf("%w: %v has a body of %d bytes, of at most %d", errFrame, f.kind, length, kinds[f.kind].most)
	}
	var err error
	f.body, err = readBody(r, int(length))
	return f, err
}

// readBody reads n bytes. It takes memory as they come, so that a header alone costs nothing.
func readBody(r io.Reader, n int) ([]byte, error) {
	const step = 64 << 10
	body := make([]byte, 0, min(n, step)+1)
	for len(body) < n {
		if len(body)+1 >= cap(body) {
			body = append(make([]byte, 0, min(n, 4*cap(body))+1), body...)
		}
		end := min(n, cap(body)-1)
		got, err := io.ReadFull(r, body[len(body):end])
		body = body[:len(body)+got]
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
	}
	return body, nil
}

// appendHeader appends the header of a frame whose body has n bytes.
func appendHeader(b []byte, k kind, n int) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(n+1)), byte(k))
}

// appendPlace appends what a line and an acknowledgement begin with.
func appendPlace(b []byte, handle, number uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, handle), number)
}

// readPlace reads that, and returns what follows.
func readPlace(body []byte) (handle, number uint64, rest []byte, err error) {
	if len(body) < placeSize {
		return 0, 0, nil, fmt.Errorf("%w: it has %d bytes and should say which process and which line", errFrame, len(body))
	}
	return binary.BigEndian.Uint64(body), binary.BigEndian.Uint64(body[8:]), body[placeSize:], nil
}

// appendText appends a frame with a text that a process has by a name.
func appendText(b []byte, k kind, handle uint64, name string, text []byte) []byte {
	b = appendPlace(appendHeader(b, k, placeSize+len(name)+len(text)), handle, uint64(len(name)))
	return append(append(b, name...), text...)
}

// readText reads the body of such a frame.
func readText(body []byte) (handle uint64, name string, text []byte, err error) {
	handle, length, rest, err := readPlace(body)
	if err != nil {
		return 0, "", nil, err
	}
	if length > uint64(len(rest)) {
		return 0, "", nil, fmt.Errorf("%w: a name of %d bytes in %d", errFrame, length, len(rest))
	}
	return handle, string(rest[:length]), rest[length:], nil
}
