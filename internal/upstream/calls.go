package upstream

import (
	"bytes"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// scanLimits leave the size of a message to be the bound of everything in it.
var scanLimits = codec.Limits{MaxDepth: 1024, MaxBatch: MostBatch, MaxValues: 1 << 30}

// calls is what is open between us and a backend, as a machine: its methods say what to do, and do
// nothing. It belongs to whoever holds the lock of its Conn.
type calls struct {
	first  int64 // ids up to it are those of processes before this one
	modern bool  // the newer era is spoken
	ready  bool  // the handshake is over
	probe  int64
	last   int64 // the id of the last request
	ended  *Failure

	open      map[int64]*call
	progress  map[int64]*call  // by the id of an earlier request: the one that gets its progress now
	questions map[string]int64 // by the raw id: the request on whose stream it came, 0 for none
	heard     map[string]bool  // by the raw id: questions of which the process before this one knows, and which a stream that is taken up may bring again
	late      map[int64]*call  // given up, and perhaps answered still
	lateOrder []int64
	standing  string // the last event id of the standalone stream
	counts    Counts
}

// A call is a request of ours.
type call struct {
	id     int64
	method string
	q      Request
	handed bool   // the link has handed it over, and is not at it any more
	event  string // the last event id of its response stream
	mark   atomic.Uint64

	done     chan struct{} // closed when the rest is set
	response Response
	failure  *Failure
}

// An effect is something to do after a message.
type effect struct {
	do       action
	call     *call
	response Response
	failure  *Failure
	event    Event
	params   []byte // of progress
	reply    []byte // a message to the backend
	odd      Oddity
}

type action uint8

const (
	finishCall   action = iota // response or failure, of call
	tellProgress               // params, to call
	tellEvent                  // event, to call, or if that is nil to the Conn
	tellLate                   // call was answered after all
	sendReply                  // reply
	tellOddity                 // odd
)

// mostEpochs keeps ids within what a float64 holds.
const mostEpochs = 1 << 20

func newCalls(epoch uint32) *calls {
	first := int64(epoch%mostEpochs) << 32
	return &calls{
		first: first, last: first, open: map[int64]*call{}, progress: map[int64]*call{}, questions: map[string]int64{}, late: map[int64]*call{},
	}
}

// newID returns the id of the next request.
func (k *calls) newID() int64 {
	k.last++
	return k.last
}

// begin opens a call, or says why it may not begin.
func (k *calls) begin(q Request) (*call, *Failure) {
	switch {
	case k.ended != nil:
		f := *k.ended
		f.Outcome = NotRun
		return nil, &f
	case len(k.open) >= MostOpen:
		return nil, &Failure{Why: ReasonFull, Outcome: NotRun, Text: "the backend has too many requests open"}
	}
	if q.ID == 0 {
		q.ID = k.newID()
	} else if k.open[q.ID] != nil {
		return nil, &Failure{Why: ReasonMalformed, Outcome: NotRun, Text: "the id of a request is in use"}
	}
	c := &call{id: q.ID, method: q.Method, q: q, done: make(chan struct{})}
	k.open[c.id] = c
	if q.ProgressOf != 0 {
		k.progress[q.ProgressOf] = c
	}
	return c, nil
}

// noteSent notes that a call was handed over. It returns why the call is lost if the link has ended since.
func (k *calls) noteSent(c *call) *Failure {
	if k.open[c.id] != c {
		return nil
	}
	c.handed = true
	if k.ended == nil {
		return nil
	}
	k.closeCall(c)
	f := *k.ended
	f.Outcome = Lost
	return &f
}

// giveUpCall closes a call that is not waited for any more. It reports false if the call has ended already. With
// mayAnswer its answer may still come.
func (k *calls) giveUpCall(c *call, mayAnswer bool) bool {
	if k.open[c.id] != c {
		return false
	}
	k.closeCall(c)
	if mayAnswer {
		if len(k.lateOrder) == MostLate {
			delete(k.late, k.lateOrder[0])
			k.lateOrder = k.lateOrder[1:]
		}
		k.late[c.id] = c
		k.lateOrder = append(k.lateOrder, c.id)
	}
	return true
}

// closeCall ends a call, and with it the questions on its stream.
func (k *calls) closeCall(c *call) {
	delete(k.open, c.id)
	if k.progress[c.q.ProgressOf] == c {
		delete(k.progress, c.q.ProgressOf)
	}
	maps.DeleteFunc(k.questions, func(_ string, on int64) bool { return on == c.id })
}

// noteLinkEnd notes that the link has ended, and returns the calls that are lost with it: those that the link is
// not at any more.
func (k *calls) noteLinkEnd(f *Failure) (lost []*call) {
	if k.ended != nil {
		return nil
	}
	k.ended = f
	for _, id := range slices.Sorted(maps.Keys(k.open)) {
		if c := k.open[id]; c.handed {
			k.closeCall(c)
			lost = append(lost, c)
		}
	}
	clear(k.questions)
	return lost
}

// takeQuestion closes a question before its answer is sent. It reports whether it was open.
func (k *calls) takeQuestion(id []byte) bool {
	_, ok := k.questions[string(id)]
	delete(k.questions, string(id))
	return ok
}

// receive appends what to do about a message that came on the response stream of a request, or for 0 on
// a channel that all share.
func (k *calls) receive(fx []effect, data []byte, on int64) []effect {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // some shells put a byte order mark before the first line
	if len(bytes.TrimSpace(data)) == 0 {
		return fx
	}
	var m codec.Message
	if err := codec.Scan(data, &m, scanLimits); err != nil {
		return k.receiveMalformed(fx, data, on, err)
	}
	switch m.Kind {
	case codec.Batch:
		fx = k.countOddity(fx, OddBatch, data)
		for one := range codec.Elements(data) {
			fx = k.receive(fx, one, on)
		}
		return fx
	case codec.Result, codec.ErrorResponse:
		return k.receiveAnswer(fx, &m, data, on)
	case codec.Notification:
		return k.receiveNotification(fx, &m, data, on)
	}
	return k.receiveQuestion(fx, &m, data, on)
}

// receiveMalformed handles what is no message. If it was meant to be the answer to an open request, that ends: nothing
// better will come.
func (k *calls) receiveMalformed(fx []effect, data []byte, on int64, why *codec.ScanError) []effect {
	what := OddMessage
	if why.Code == mcp.CodeParseError {
		what = OddText
	}
	fx = k.countOddity(fx, what, data)
	if c := k.open[meantFor(data)]; c != nil && (on == 0 || on == c.id) {
		k.closeCall(c)
		fx = append(fx, effect{do: finishCall, call: c, failure: malformed("the backend's answer is no JSON-RPC: "+why.Reason, data)})
	}
	return fx
}

// meantFor returns the id of the response that data seems to be, 0 if it does not look like one. Data is no valid message.
func meantFor(data []byte) int64 {
	if codec.Field(data, "method") != nil {
		return 0
	}
	raw, once := codec.FieldOnce(data, "id")
	if id, ok := parseID(raw); ok && once {
		return id
	}
	return 0
}

func (k *calls) receiveAnswer(fx []effect, m *codec.Message, data []byte, on int64) []effect {
	var id int64
	if m.ID != nil {
		id, _ = parseID(m.ID)
	} else if on != 0 {
		id = on // a refusal of the whole request, by who did not read its id
	} else if id = k.probe; id == 0 || k.open[id] == nil {
		return k.countOddity(fx, OddAnonymous, data)
	}
	c := k.open[id]
	if c == nil || on != 0 && on != id {
		if c = k.late[id]; c != nil {
			delete(k.late, id)
			k.lateOrder = slices.DeleteFunc(k.lateOrder, func(other int64) bool { return other == id })
			return append(fx, effect{do: tellLate, call: c})
		}
		if id > 0 && id <= k.first { // to a process before this one, for nobody who is left
			return fx
		}
		return k.countOddity(fx, OddAnswer, data)
	}
	k.closeCall(c)
	e := effect{do: finishCall, call: c}
	switch {
	case m.Kind == codec.ErrorResponse:
		e.response = Response{Kind: Refused, Error: m.Err}
	case m.Result[0] != '{':
		e.failure = malformed("the backend's result is no object", data)
	default:
		e.response = Response{Result: m.Result}
		if k.modern || c.id == k.probe {
			e.response.Kind = kindOf(m.Result)
		}
	}
	return append(fx, e)
}

func (k *calls) receiveNotification(fx []effect, m *codec.Message, data []byte, on int64) []effect {
	method := string(m.Method)
	switch method {
	case mcp.NotifyProgress:
		id, _ := parseID(codec.Field(m.Params, "progressToken"))
		c := k.open[id]
		if c == nil {
			c = k.progress[id]
		}
		if c == nil && id > 0 && id <= k.first {
			return fx
		}
		if c == nil || c.q.Progress == nil || on != 0 && on != c.id {
			return k.countOddity(fx, OddProgress, data)
		}
		return append(fx, effect{do: tellProgress, call: c, params: m.Params})
	case mcp.NotifyCancelled:
		return k.receiveCancel(fx, m, data, on)
	}
	e := Event{Method: method, Params: m.Params, Request: on}
	c := k.open[on]
	if k.modern {
		if id, ok := parseID(codec.Field(m.Meta, mcp.MetaSubscriptionID)); ok && (on == 0 || on == id) {
			if c = k.open[id]; c != nil {
				e.Request = id
			}
		}
	}
	if c == nil || c.q.Event == nil || isAboutServer(method) && c.method != mcp.MethodSubscriptionsListen {
		c = nil
	}
	return append(fx, effect{do: tellEvent, call: c, event: e})
}

// isAboutServer reports whether a notification is about the server or the session, whichever stream it came on.
func isAboutServer(method string) bool {
	switch method {
	case mcp.NotifyToolsListChanged, mcp.NotifyPromptsListChanged, mcp.NotifyResourcesListChanged, mcp.NotifyResourcesUpdated,
		mcp.NotifyElicitationComplete, mcp.NotifyTasksStatus, mcp.NotifyTasks:
		return true
	}
	return false
}

// receiveCancel handles the withdrawal of a question, and in the newer era of a subscription.
func (k *calls) receiveCancel(fx []effect, m *codec.Message, data []byte, on int64) []effect {
	raw := codec.Field(m.Params, "requestId")
	if k.modern {
		id, _ := parseID(raw)
		c := k.open[id]
		if c == nil || c.method != mcp.MethodSubscriptionsListen || on != 0 && on != id {
			return k.countOddity(fx, OddCancel, data)
		}
		k.closeCall(c)
		return append(fx, effect{do: finishCall, call: c, failure: &Failure{Why: ReasonEnded, Text: "the backend ended the subscription"}})
	}
	asked, open := k.questions[string(raw)]
	if !open {
		return k.countOddity(fx, OddCancel, data)
	}
	delete(k.questions, string(raw))
	c := k.open[asked]
	if c != nil && c.q.Event == nil {
		c = nil
	}
	return append(fx, effect{do: tellEvent, call: c, event: Event{Method: mcp.NotifyCancelled, Params: m.Params, Request: asked}})
}

func (k *calls) receiveQuestion(fx []effect, m *codec.Message, data []byte, on int64) []effect {
	refuse := func(code int, text string) []effect {
		fx = k.countOddity(fx, OddQuestion, data)
		return append(fx, effect{do: sendReply, reply: codec.AppendError(nil, m.ID, code, text, nil)})
	}
	method := string(m.Method)
	if k.heard[string(m.ID)] && method != mcp.MethodPing { // it waits, or has its answer since
		delete(k.heard, string(m.ID))
		return fx
	}
	_, used := k.questions[string(m.ID)]
	switch {
	case k.modern, len(m.ID) > MostToken, used && method != mcp.MethodPing:
		// Nobody may answer it: the newer era has no such message, and with an id in use the answer would be that to another
		// question.
		return k.countOddity(fx, OddQuestion, data)
	case method == mcp.MethodPing:
		return append(fx, effect{do: sendReply, reply: codec.AppendResult(nil, m.ID, nil)})
	case !k.ready:
		return refuse(mcp.CodeInvalidRequest, "the session is not initialized yet")
	case len(k.questions) >= MostQuestions:
		return refuse(mcp.CodeInternalError, "too many requests wait for an answer")
	}
	k.questions[string(m.ID)] = on
	c := k.open[on]
	if c != nil && c.q.Event == nil {
		c = nil
	}
	return append(fx, effect{do: tellEvent, call: c, event: Event{Method: method, Params: m.Params, ID: m.ID, Request: on}})
}

// countOddity counts an oddity. It tells of the first, the second, the fourth and so on, so that a flood fills no log.
func (k *calls) countOddity(fx []effect, what OddityKind, data []byte) []effect {
	k.counts[what]++
	if n := k.counts[what]; n&(n-1) == 0 {
		fx = append(fx, effect{do: tellOddity, odd: Oddity{What: what, Count: n, Excerpt: excerptOf(data)}})
	}
	return fx
}
