package backend

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/internal/backend/pool"
	"github.com/troupe-run/troupe/internal/upstream"
)

// leftKept is how long the answer of a call that an earlier process has left is kept for whoever comes back for it: longer than a stream can
// be resumed.
const leftKept = 15 * time.Minute

// leftCalls are those that earlier processes have left, until somebody comes back for them.
type leftCalls struct {
	mu sync.Mutex // guards of
	of map[string]*leftCall
}

// leftCall is a call that an earlier process has handed to an instance, which works at it or has answered it.
type leftCall struct {
	in       *instance
	key      string
	running  *running
	over     chan struct{} // closed once it has its answer, or gets none
	response upstream.Response
	err      error
	given    context.Context // done when it is given up
	giveUp   context.CancelFunc
	lease    *lease // of its instance, nil if it has its answer already

	mu    sync.Mutex // guards the rest
	q     *Request   // of whoever has come back
	heard []Event    // questions that wait for that
}

// claim returns a call that was left, for whoever comes back for it first.
func (l *leftCalls) claim(key string) *leftCall {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.of[key]
	delete(l.of, key)
	return of
}

func (l *leftCalls) add(of *leftCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of[of.key] = of
}

// newLeftCall returns a call that a keeper, or the store, remembers.
func (in estate) newLeftCall(key string, call rememberedCall) *leftCall {
	c := &leftCall{in: in.instance, key: key, over: make(chan struct{})}
	c.given, c.giveUp = context.WithCancel(context.Background()) // the end of the instance ends the connection: it is no end of the call
	c.running = &running{asks: call.Asks, q: &Request{Method: call.Method, Key: key, Asks: true, Event: c.deliverEvent, Progress: c.deliverProgress}, kept: &keptCall{in: in, key: key, call: call, told: true}}
	return c
}

// deliverEvent gives what belongs to the call to whoever has come back for it. Until then questions wait, and the rest is of no use.
func (c *leftCall) deliverEvent(e Event) {
	c.mu.Lock()
	q := c.q
	if q == nil && e.IsQuestion() {
		c.heard = append(c.heard, e)
	}
	c.mu.Unlock()
	switch {
	case q == nil:
	case q.Event != nil:
		q.Event(e)
	default:
		e.refuseUnheard()
	}
}

func (c *leftCall) deliverProgress(params []byte) {
	c.mu.Lock()
	q := c.q
	c.mu.Unlock()
	if q != nil && q.Progress != nil {
		q.Progress(params)
	}
}

// request is how the connection takes the call up again.
func (c *leftCall) request() upstream.Request {
	k := c.running.kept
	return upstream.Request{Method: c.running.q.Method, Progress: c.deliverProgress, Answered: k.rememberAnswer, Passed: k.rememberEventID, Late: func() { c.in.b.tellPool(&withdrawn{c.lease}) }, Event: func(e upstream.Event) { c.in.deliverToCall(c.running, e) }}
}

// beginRejoin begins to wait for the answer of the call, after which its instance is given back.
func (c *leftCall) beginRejoin(lease *lease) {
	c.lease = lease
	c.in.b.lives.Go(func() {
		defer c.giveUp()
		c.response, c.err = c.in.conn.Rejoin(c.given, c.running.kept.call.ID)
		c.in.endCall(c.running)
		f, _ := errors.AsType[*upstream.Failure](c.err)
		c.in.b.giveBack(lease, inDoubt(f) && c.in.of.hasLines())
		if f != nil && f.Why == upstream.ReasonSessionGone {
			c.in.giveUp(f)
		}
		if c.err != nil && !c.in.isLeft() {
			c.running.kept.forget()
		}
		close(c.over)
	})
	c.in.b.c.Clock.AfterFunc(leftKept, func() {
		if c.in.b.left.claim(c.key) != nil { // nobody has come
			c.giveUp()
		}
	})
}

// join waits for the answer for whoever has come back.
func (c *leftCall) join(ctx context.Context, q *Request) (upstream.Response, error) {
	c.mu.Lock()
	c.q = q
	heard := c.heard
	c.heard = nil
	c.mu.Unlock()
	for _, e := range heard {
		c.deliverEvent(e)
	}
	select {
	case <-c.over:
	case <-ctx.Done():
		c.giveUp()
		return upstream.Response{}, context.Cause(ctx)
	}
	if c.err != nil {
		return upstream.Response{}, c.in.callError(ctx, c.err)
	}
	return c.response, nil
}

// remains are what an earlier process has left of an instance beside its standing.
type remains struct {
	calls []*leftCall     // by their ids
	asked []rememberedAsk // questions that wait
}

// request is how the connection takes a call up again.
func (l *remains) request(p upstream.Pending) upstream.Request {
	i := slices.IndexFunc(l.calls, func(c *leftCall) bool { return c.running.kept.call.ID == p.ID })
	return l.calls[i].request()
}

// offer has those who come back for a call find it.
func (l *remains) offer(b *Backends) {
	for _, c := range l.calls {
		b.left.add(c)
	}
}

// leftOf reads what a keeper, or the store, remembers of the calls and questions of an instance.
func (in estate) leftOf(texts map[string][]byte, state *upstream.State) (l remains) {
	for name, text := range texts {
		if key, ok := strings.CutPrefix(name, callPrefix); ok {
			var call rememberedCall
			if json.Unmarshal(text, &call) != nil {
				continue
			}
			c := in.newLeftCall(key, call)
			l.calls = append(l.calls, c)
			var answer rememberedAnswer
			if stored := texts[answerPrefix+key]; stored != nil && json.Unmarshal(stored, &answer) == nil {
				c.response = upstream.Response{Kind: answer.Kind, Result: answer.Result, Error: answer.Error}
				close(c.over)
				continue
			}
			state.Requests = append(state.Requests, upstream.Pending{ID: call.ID, Method: call.Method, Event: call.Event})
		}
		if id, ok := strings.CutPrefix(name, askPrefix); ok {
			var q rememberedQuestion
			if json.Unmarshal(text, &q) == nil {
				l.asked = append(l.asked, rememberedAsk{q, []byte(id)})
				state.Questions = append(state.Questions, []byte(id))
			}
		}
	}
	slices.SortFunc(state.Requests, func(a, b upstream.Pending) int { return int(a.ID - b.ID) })
	slices.SortFunc(l.calls, func(a, b *leftCall) int { return int(a.running.kept.call.ID - b.running.kept.call.ID) })
	slices.SortFunc(l.asked, func(a, b rememberedAsk) int { return strings.Compare(string(a.id), string(b.id)) })
	return l
}

// newLease is a lease of the instance for whoever has it.
func (in *instance) newLease(askable bool) *lease {
	return &lease{in: in, want: pool.Want{ID: pool.WantID(in.b.wants.Add(1)), Kind: in.kind, Holder: in.holder(), Principal: in.principal(), Askable: askable}}
}

// rememberedAsk is a question of an instance that an earlier process has left.
type rememberedAsk struct {
	rememberedQuestion
	id []byte
}

// resumeLeft takes up the calls and the questions that an earlier process has left. The instance is known to the pool.
func (in estate) resumeLeft(left *remains) {
	byKey := make(map[string]*leftCall)
	for _, c := range left.calls {
		byKey[c.key] = c
		select {
		case <-c.over: // it has its answer
			in.b.c.Clock.AfterFunc(leftKept, func() {
				in.b.left.claim(c.key)
				c.running.kept.forget()
			})
			continue
		default:
		}
		_ = in.Post(&callBegan{c.running})
		l := in.newLease(c.running.asks)
		in.b.tellPool(&taken{l})
		c.beginRejoin(l)
	}
	for _, q := range left.asked {
		e := upstream.Event{Method: q.Method, Params: q.Params, ID: q.id}
		if c := byKey[q.Call]; c != nil {
			c.deliverEvent(in.eventOf(e))
			continue
		}
		_ = in.Post(&heard{e})
	}
}
