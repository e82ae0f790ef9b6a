package backend

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/internal/upstream"
)

// What a keeper remembers of an instance beside its standing, by names that begin so: a call that its instance works at, its answer, and a question.
const (
	callPrefix   = "call "
	answerPrefix = "answer "
	askPrefix    = "ask "
)

const (
	// keepAfter is how long a call runs until the keeper hears of it, unless it says something before: until then its client could not come
	// back for it.
	keepAfter = 200 * time.Millisecond
	// answerKept is how long the keeper remembers an answer that this process has: by then it is stored.
	answerKept = 30 * time.Second
)

// keptCall is a call that outlives this process, if its instance has a keeper. The methods of nil do nothing.
type keptCall struct {
	in      estate
	key     string
	call    rememberedCall
	stored  atomic.Bool // the store has had the time to take it
	mu      sync.Mutex  // guards the rest
	told    bool        // the keeper has the call
	over    bool
	follows bool // its answer is a task, whose end is waited for
}

// rememberedCall is a call as the keeper, or for a session at a URL the store, remembers it.
type rememberedCall struct {
	ID     int64  `json:"id"`
	Method string `json:"method"`
	Event  string `json:"event,omitempty"` // the last event id of its response stream, "" for none
	Asks   bool   `json:"asks,omitempty"`  // it is the one of its instance that may be asked
}

// rememberedAnswer is its answer.
type rememberedAnswer struct {
	Kind   upstream.ResponseKind `json:"kind"`
	Result []byte                `json:"result,omitempty"`
	Error  []byte                `json:"error,omitempty"`
}

// rememberedQuestion is a question that waits for an answer. Call is the key of the call that it was put to, "" if it was to none yet.
type rememberedQuestion struct {
	Method string `json:"method"`
	Params []byte `json:"params,omitempty"` // as the backend wrote them
	Call   string `json:"call,omitempty"`
}

// keepCall returns what the keeper is to know of a call, nil if that is nothing.
func (in estate) keepCall(q *Request, asks bool) *keptCall {
	if q.Key == "" || !in.hasMemory() {
		return nil
	}
	return &keptCall{in: in, key: q.Key, call: rememberedCall{ID: in.conn.NewID(), Method: q.Method, Asks: asks}}
}

// watch has the keeper hear of a request once it takes longer, or says something, and of its answer before this process says that it
// has that. The function that it returns is to be called when the request is over.
func (k *keptCall) watch(out *upstream.Request) (over func()) {
	if k == nil {
		return func() {}
	}
	out.ID = k.call.ID
	out.Answered, out.Passed = k.rememberAnswer, k.rememberEventID
	if progress := out.Progress; progress != nil {
		out.Progress = func(params []byte) {
			k.rememberCall()
			progress(params)
		}
	}
	stop := k.in.b.c.Clock.AfterFunc(keepAfter, k.rememberCall)
	return func() { stop() }
}

// rememberCall has the call remembered. Over HTTP, where each call has a stream, it returns once the store has it: what the client hears from then on
// it can come back for.
func (k *keptCall) rememberCall() {
	k.mu.Lock()
	if !k.told && !k.over {
		k.told = true
		k.in.remember(callPrefix+k.key, k.call)
	}
	k.mu.Unlock()
	if !k.stored.Load() {
		k.in.place.stores.Load().awaitStored()
		k.stored.Store(true)
	}
}

// rememberEventID has it remembered how far the response stream of a call was read, once the call itself is.
func (k *keptCall) rememberEventID(event string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.call.Event = event; k.told && !k.over {
		k.in.remember(callPrefix+k.key, k.call)
	}
}

// noteEvent has the keeper remember the call that a question is put to.
func (k *keptCall) noteEvent(e *Event) {
	if k == nil {
		return
	}
	k.rememberCall()
	if e.IsQuestion() {
		k.in.keepQuestion(&upstream.Event{Method: e.Method, Params: e.Params, ID: e.id}, k.key)
		k.in.place.stores.Load().awaitStored()
	}
}

// rememberAnswer has the keeper remember the answer of a call that it has heard of, for a while.
func (k *keptCall) rememberAnswer(r upstream.Response) {
	k.mu.Lock()
	told := k.told
	k.over = true
	k.mu.Unlock()
	if !told {
		return
	}
	k.in.remember(answerPrefix+k.key, rememberedAnswer{r.Kind, r.Result, r.Error})
	k.in.b.c.Clock.AfterFunc(answerKept, func() {
		k.mu.Lock()
		follows := k.follows
		k.mu.Unlock()
		if !follows {
			k.forget()
		}
	})
}

// rememberTask has the keeper remember the call with its answer for as long as that is followed: it is a task, which the next process follows.
func (k *keptCall) rememberTask(r upstream.Response) {
	if k == nil {
		return
	}
	k.mu.Lock()
	k.told, k.over, k.follows = true, true, true
	k.mu.Unlock()
	k.in.remember(callPrefix+k.key, k.call)
	k.in.remember(answerPrefix+k.key, rememberedAnswer{r.Kind, r.Result, r.Error})
}

// noteTaskEnd says that the end of the task is known, or lost.
func (k *keptCall) noteTaskEnd() {
	if k != nil {
		k.in.b.c.Clock.AfterFunc(answerKept, k.forget)
	}
}

// forget drops what the keeper has of the call.
func (k *keptCall) forget() {
	if k == nil {
		return
	}
	k.mu.Lock()
	told := k.told
	k.over = true
	k.mu.Unlock()
	if told {
		k.in.remember(callPrefix+k.key, nil)
		k.in.remember(answerPrefix+k.key, nil)
	}
}

// keepQuestion has the keeper remember a question until it is answered.
func (in estate) keepQuestion(e *upstream.Event, call string) {
	if e.ID != nil && in.hasMemory() {
		in.remember(askPrefix+string(e.ID), rememberedQuestion{e.Method, e.Params, call})
	}
}

func (in estate) forgetQuestion(id []byte) {
	in.remember(askPrefix+string(id), nil)
}
