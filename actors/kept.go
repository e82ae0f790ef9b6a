package actors

import (
	"bytes"
	"context"
	"sync"
	"time"
)

const (
	// maxKept is the largest answer that a session keeps, in bytes.
	maxKept = 64 << 10
	// shareWait is how long a call waits for the answer to another one's question,
	// whose connection may be away, before it asks itself.
	shareWait = 10 * time.Second
)

// kept is the client's answer to a question that all calls of a session ask alike.
// It is asked once, and again when the client says that the answer has changed.
type kept struct {
	mu     sync.Mutex // guards the rest
	answer []byte     // nil if there is none
	asking *shared    // the question that is being asked, nil if none is
}

// shared is a question that several calls wait for.
type shared struct {
	done   chan struct{} // closed when it is over
	answer Answer        // if ok
	ok     bool
}

// begin returns the answer if that is known. Else the caller is to wait for x, or,
// when lead is set, to ask and then to end x. ask makes the caller ask though another
// one does.
func (k *kept) begin(ask bool) (answer []byte, x *shared, lead bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.answer != nil:
		return k.answer, nil, false
	case k.asking != nil && !ask:
		return nil, k.asking, false
	}
	k.asking = &shared{done: make(chan struct{})}
	return nil, k.asking, true
}

// end tells those who wait for x how it ended. The answer is kept if it may be, and
// if nothing has changed since x was asked.
func (k *kept) end(x *shared, a Answer, err error, keep func([]byte) bool) {
	k.mu.Lock()
	if k.asking == x {
		k.asking = nil
		if err == nil && a.Err == nil && len(a.Result) <= maxKept && keep(a.Result) {
			k.answer = a.Result
		}
	}
	k.mu.Unlock()
	x.answer, x.ok = a, err == nil
	close(x.done)
}

// forget makes the next call ask again. Whoever waits for an answer still gets it.
func (k *kept) forget() {
	k.mu.Lock()
	k.answer, k.asking = nil, nil
	k.mu.Unlock()
}

// share returns the answer that is known, or that somebody is waiting for, or that
// ask gets. over ends the wait for another's, as ctx does.
func (k *kept) share(ctx, over context.Context, keep func([]byte) bool, ask func() (Answer, error)) (Answer, error) {
	for insist := false; ; {
		answer, x, lead := k.begin(insist)
		switch {
		case answer != nil:
			return Answer{Result: bytes.Clone(answer)}, nil
		case lead:
			a, err := ask()
			k.end(x, a, err, keep)
			return a, err
		}
		timer := time.NewTimer(shareWait)
		select {
		case <-x.done:
			timer.Stop()
			if x.ok {
				return Answer{Result: bytes.Clone(x.answer.Result), Err: x.answer.Err}, nil
			}
		case <-timer.C:
			insist = true
		case <-over.Done():
			timer.Stop()
			return Answer{}, context.Cause(over)
		case <-ctx.Done():
			timer.Stop()
			return Answer{}, context.Cause(ctx)
		}
	}
}

// kept is the session's kept answer.
func (s *sessionActor) kept() *kept {
	k := s.keeps.Load()
	for k == nil {
		s.keeps.CompareAndSwap(nil, new(kept))
		k = s.keeps.Load()
	}
	return k
}

// Forget drops the answer that was kept: the next question that may be kept is asked.
func (p *Peer) Forget() {
	s, err := p.who.session()
	if err != nil {
		return
	}
	if k := s.keeps.Load(); k != nil {
		k.forget()
	}
}
