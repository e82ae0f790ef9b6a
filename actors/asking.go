package actors

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
)

// What ends questions that are asked by having the request sent again.
var (
	// ErrTooMuchInput reports that the answers so far are more than a client can
	// be made to carry: the question was not asked.
	ErrTooMuchInput = errors.New("the answers so far are too large to go on asking")
	// ErrTooManyRounds reports a call that has asked for input too often: the
	// question was not asked.
	ErrTooManyRounds = errors.New("the call has asked for input too often")
)

var (
	maxRounds = limits.Rounds.Value()
	maxInput  = limits.StateInput.Value() // bytes of answers that a state carries
)

// input is what a handler has asked for so far, and what it was given.
type input struct {
	mu    ctxMutex // guards the rest; held by the goroutine of the handler that asks, until it has its answers
	park  string   // under which requests that are sent again find the call, "" before it has asked
	round int      // how often it has asked
	given map[string][]byte
	taken []string // the keys of given that have answered a question
	used  []usedKey
	place *quota.Account // that holds the call's place among those that wait
}

// usedKey is how often a key was asked for.
type usedKey struct {
	key string
	n   int
}

// asking is what a handler asks at once.
type asking struct {
	qs      []Question
	keys    []string // of the questions, unique within the call
	missing []int    // the places of those that have no answer
}

// ask asks a client that brings its answers by sending the request again. Many
// handlers may wait here for minutes, each with its stack: the frames down to the wait
// are kept small, and what needs large ones has returned by then.
func (s *stateless) ask(ctx context.Context, c *Call, qs []Question) ([]Answer, error) {
	in := &s.input
	if err := in.mu.lock(ctx, c.ctx); err != nil {
		return nil, err
	}
	defer in.mu.unlock()
	a := in.begin(qs)
	for in.lacks(a) {
		wake, err := s.putQuestions(c, a)
		if err != nil {
			return nil, err
		}
		if err := in.take(s.await(ctx, c, wake), a); err != nil {
			return nil, err
		}
	}
	return in.answers(a), nil
}

// begin returns what is asked with the keys that it is asked by.
func (in *input) begin(qs []Question) *asking {
	a := &asking{qs: qs, keys: make([]string, len(qs))}
	for i := range qs {
		a.keys[i] = in.key(qs[i].Key)
	}
	return a
}

// key makes the key of a question unique within the call: the second with the
// same key is "key-2", unless that was asked for, too. A run after the first gets to
// the same keys.
func (in *input) key(key string) string {
	unique := key
	if i := in.uses(key); i >= 0 {
		for in.uses(unique) >= 0 {
			in.used[i].n++
			unique = key + "-" + strconv.Itoa(in.used[i].n)
		}
	}
	in.used = append(in.used, usedKey{unique, 1})
	return unique
}

// uses returns the place of a key in used, -1 for none.
func (in *input) uses(key string) int {
	return slices.IndexFunc(in.used, func(u usedKey) bool { return u.key == key })
}

// lacks finds what has no answer yet, and reports whether there is any. What is no
// answer is forgotten, and asked for anew.
func (in *input) lacks(a *asking) bool {
	a.missing = a.missing[:0]
	for i := range a.qs {
		raw, ok := in.given[a.keys[i]]
		if ok && (a.qs[i].Valid == nil || a.qs[i].Valid(raw)) {
			if !slices.Contains(in.taken, a.keys[i]) {
				in.taken = append(in.taken, a.keys[i])
			}
			continue
		}
		delete(in.given, a.keys[i])
		a.missing = append(a.missing, i)
	}
	return len(a.missing) > 0
}

func (in *input) answers(a *asking) []Answer {
	answers := make([]Answer, len(a.qs))
	for i, key := range a.keys {
		answers[i].Result = in.given[key]
	}
	return answers
}

// await waits until the call can go on. The actor says so, also when the call ends;
// it knows nothing of a context that is the handler's own.
func (s *stateless) await(ctx context.Context, c *Call, wake <-chan more) more {
	if s.deaf == nil && ctx.Done() == c.ctx.Done() {
		return <-wake
	}
	return s.awaitOr(ctx, wake)
}

func (s *stateless) awaitOr(ctx context.Context, wake <-chan more) more {
	select {
	case m := <-wake:
		return m
	case <-s.deaf:
		return more{err: ErrSessionEnded}
	case <-ctx.Done():
		return more{err: context.Cause(ctx)}
	}
}

// patience is how long a client has to send a request again.
func (svc *Service) patience() time.Duration { return min(svc.Limits.MaxAsk, maxStateAge) }

// putQuestions has the client told what is missing. The answers come on the channel;
// until they have, an account holds the call's place among those that wait.
func (s *stateless) putQuestions(c *Call, a *asking) (wake <-chan more, err error) {
	n, in := c.peer.node, &s.input
	if cause := context.Cause(c.ctx); cause != nil {
		return nil, cause
	}
	if in.round == maxRounds {
		n.refusals.count(AskRounds)
		return nil, ErrTooManyRounds
	}
	if in.place, err = n.accounts.admitParked(s); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			in.place.Held[heldParked].Add(-1)
		}
	}()
	if in.park == "" {
		in.park = newID()
		n.mrtr.Put(in.park, c.r)
	}
	state, err := n.mrtr.seal(c, in, time.Now().Add(c.peer.svc.patience()))
	if err != nil {
		return nil, err
	}
	answers := make(chan more, 1)
	m := &askMore{round: in.round + 1, answer: inputRequired(a, state, c.peer.svc.ResultMeta), wake: answers}
	m.Init()
	if err := c.post(m); err != nil {
		return nil, err
	}
	if m.Wait(); m.err != nil {
		return nil, m.err
	}
	in.round++
	return answers, nil
}

// take ends a wait: what a request brought of that which was missing is kept, and the
// rest is ignored.
func (in *input) take(got more, a *asking) error {
	in.place.Held[heldParked].Add(-1)
	if got.err != nil {
		return got.err
	}
	if in.given == nil {
		in.given = make(map[string][]byte)
	}
	for _, i := range a.missing {
		if raw, ok := got.given[a.keys[i]]; ok {
			in.given[a.keys[i]] = raw
		}
	}
	return nil
}

// inputRequired is the response that asks for input, from the id on (2026-07-28,
// basic/patterns/mrtr).
func inputRequired(a *asking, state string, meta []byte) []byte {
	b := append([]byte(nil), `,"result":{"resultType":"input_required","inputRequests":{`...)
	for k, i := range a.missing {
		if k > 0 {
			b = append(b, ',')
		}
		b = codec.AppendString(b, a.keys[i])
		b = append(b, `:{"method":`...)
		b = codec.AppendString(b, a.qs[i].Method)
		b = append(b, `,"params":`...)
		if len(a.qs[i].Params) > 0 {
			b = append(b, a.qs[i].Params...)
		} else {
			b = append(b, '{', '}')
		}
		b = append(b, '}')
	}
	b = append(b, `},"requestState":`...)
	b = codec.AppendString(b, state)
	if len(meta) > 0 {
		b = append(b, `,"_meta":`...)
		b = append(b, meta...)
	}
	return append(b, '}', '}')
}
