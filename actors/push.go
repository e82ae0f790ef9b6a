package actors

import (
	"crypto/sha256"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors/internal/record"
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
)

// A message to a session goes to the node that writes its standalone stream. Its sender asks again until that node has stored it, or
// is gone and has been replaced: so each message has a name, by which its writer, and the next one, know it.

// letterPush stores an entry on a stream.
const letterPush = "stream.push"

func init() { receivers[letterPush] = (*fleet).receivePush }

// pushLetter is an entry for a session's standalone stream.
type pushLetter struct {
	Stream StreamKey
	Kind   stream.Kind
	Meta   []byte // its name
	Data   json.RawMessage
}

// maxPushed is how many messages a node remembers that others have sent to its sessions.
const maxPushed = 4096

// pushes are the messages that other nodes have sent lately to the sessions of this node, by sender and name, or that they have forwarded
// from the clients of these, by session and content.
type pushes struct {
	life time.Duration // after which a message is another one though its name is the same; 0: never

	mu    sync.Mutex // guards the rest
	all   map[string]*pushed
	order []string
	n     uint64 // messages that this node has named
}

// nameMessage returns the meta of a message that goes to another node: its own, or one that names it.
func (d *pushes) nameMessage(n *Node, meta []byte) []byte {
	if len(meta) > 0 { // a question has an id
		return meta
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n++
	return record.AppendPush(nil, n.boot+"."+strconv.FormatUint(d.n, 36))
}

// beginPush enters a message. first is false if it has come before.
func (d *pushes) beginPush(key string) (x *pushed, first bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if x := d.findPush(key); x != nil {
		return x, false
	}
	if d.all == nil {
		d.all = make(map[string]*pushed)
	}
	if len(d.order) == maxPushed {
		delete(d.all, d.order[0])
		d.order = d.order[1:]
	}
	x = &pushed{over: make(chan struct{}), since: time.Now()}
	d.all[key] = x
	d.order = append(d.order, key)
	return x, true
}

// findPush returns a message that has come before, nil if it has not. The lock is held.
func (d *pushes) findPush(key string) *pushed {
	if x := d.all[key]; x != nil && (d.life == 0 || time.Since(x.since) < d.life) {
		return x
	}
	return nil
}

// endPush notes what became of a message. One that is not stored may come again.
func (d *pushes) endPush(key string, x *pushed, status byte) {
	d.mu.Lock()
	if status != done && d.all[key] == x {
		delete(d.all, key)
	}
	d.mu.Unlock()
	x.status = status
	close(x.over)
}

// findEarlier returns a message of a client that was forwarded a moment ago, nil if there is none.
func (d *pushes) findEarlier(key SessionKey, m *codec.Message, body []byte) *pushed {
	d.mu.Lock()
	none := len(d.all) == 0
	d.mu.Unlock()
	if none { // and nothing to compare with
		return nil
	}
	name, ok := dedupKey(key, m, body)
	if !ok {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.findPush(name)
}

// pushed is one of them.
type pushed struct {
	over   chan struct{} // closed when the outcome is known
	status byte
	since  time.Time
}

// awaitOutcome returns what became of a message: tryAgain if that is not known soon.
func (x *pushed) awaitOutcome() (status byte) {
	patience := time.NewTimer(pushWait)
	defer patience.Stop()
	select {
	case <-x.over:
		return x.status
	case <-patience.C:
		return tryAgain
	}
}

// receivePush stores an entry of another node on a stream that is written here.
func (f *fleet) receivePush(l *store.Letter) {
	var m pushLetter
	if !readLetter(l, f.node, &m) {
		return
	}
	key := l.From.Boot + " " + m.Stream.streamPath() + " " + string(m.Meta)
	f.runAside(l, func() {
		x, first := f.pushes.beginPush(key)
		if first {
			f.storePush(&m, func(status byte) { f.pushes.endPush(key, x, status) })
		}
		replyTo(l, x.awaitOutcome(), nil)
	})
}

// storePush stores an entry of another node, and tells once what became of it.
func (f *fleet) storePush(m *pushLetter, tell func(status byte)) {
	w, here := f.node.streams.Current(m.Stream)
	switch {
	case !here || w.Stopped():
		tell(notHere)
		return
	case w.pushed[string(m.Meta)]:
		tell(done)
		return
	}
	push := &pushEntries{entries: []stream.Entry{{Kind: m.Kind, Meta: m.Meta, Data: m.Data, Acked: func(err error) {
		switch {
		case err == nil:
			tell(done)
		case w.Stopped():
			tell(notHere)
		default:
			tell(tryAgain)
		}
	}}}, ofSession: true}
	if err := w.Post(push); err != nil {
		push.Refused(err)
	}
}

// pushWait is how long a message may take to be stored before its sender is told to ask again.
const pushWait = 4 * time.Second

// repeatedFor is how long a client may send a message again that another node has forwarded to the one with its connection: it does so
// where it was not told that the message was taken. After that it has another one with the same content.
const repeatedFor = 30 * time.Second

// dedupKey reports whether a message of a client must not be taken twice, and how it is known then.
func dedupKey(key SessionKey, m *codec.Message, body []byte) (name string, ok bool) {
	if m.Kind != codec.Batch && (m.Kind != codec.Request || string(m.Method) == mcp.MethodPing) {
		return "", false
	}
	sum := sha256.Sum256(body)
	return key.recordKey() + " " + string(sum[:]), true
}
