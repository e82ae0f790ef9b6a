package actors

import (
	"sync"
	"time"

	"github.com/troupe-run/troupe/codec"
)

// linkBatch gathers the answers to a batch that came on a session's one connection, or for it. The last of its
// requests to end sends them as one message, an array (JSON-RPC 2.0, section 6); those that were cancelled have no
// element, and if all were, nothing is sent. What else the requests have to say goes out at once.
type linkBatch struct {
	conn Conn // of the session

	mu   sync.Mutex // guards what follows
	open int        // requests that have not ended
	out  []byte     // "[", and the answers so far with commas between them
}

// member is where one request of the batch is answered.
func (b *linkBatch) member() *memberReply {
	return &memberReply{linkReply: linkReply{b.conn}, batch: b}
}

// ended takes the answer of one request, nil if it has none.
func (b *linkBatch) ended(answer []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if answer != nil {
		lead := byte(',')
		if b.out == nil {
			lead = '['
		}
		b.out = append(append(b.out, lead), answer...)
	}
	if b.open--; b.open == 0 && b.out != nil {
		b.conn.Event("", 0, append(b.out, ']'))
		b.conn.Flush()
		b.out = nil
	}
}

// memberReply is the connection of a request of a linkBatch. Only the first of Answer, Reject and Finish counts.
type memberReply struct {
	linkReply
	batch *linkBatch
	once  sync.Once
}

func (m *memberReply) Answer(_ int, body []byte) bool {
	first := false
	m.once.Do(func() {
		first = true
		m.batch.ended(body)
	})
	return first
}

func (m *memberReply) Reject(_, code int, message string, data, id []byte, _ time.Duration) {
	m.Answer(200, codec.AppendError(nil, id, code, message, data))
}

// Finish says that there will be no answer.
func (m *memberReply) Finish() { m.once.Do(func() { m.batch.ended(nil) }) }
