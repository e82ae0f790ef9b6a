package actors

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/troupe-run/troupe/actors/internal/record"
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/actors/internal/takeover"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/store"
)

// pause waits for d, or until ctx is done.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// finishCalls finishes the calls of a stream whose node was lost: safe ones run again; for
// the others the client learns that the outcome is unknown.
func (s *sessionActor) finishCalls(w *streamActor, log *takeover.Log, body []byte) {
	var bodies [][]byte
	if w.rec.Safe {
		_ = w.Post(adoptBody(body))
		bodies = requestsOf(body)
	}
	fates, all := takeover.Fates(&w.rec, log, len(bodies))
	answered := make(map[string]bool, len(fates))
	var lost []record.Call
	var begin []func()
	for i, c := range w.rec.Calls {
		switch fates[i] {
		case takeover.Answered:
			answered[string(c.ID)] = true
		case takeover.Over:
			lost = append(lost, c)
		case takeover.Again:
			j := newJournal(&log.Past, i)
			s.node.pending.reopenQuestions(w, s.billedAccount(), j)
			begin = append(begin, func() { s.rerunCall(w, c, bodies[i], j) })
		}
	}
	_ = w.Post(alreadyAnswered(answered))
	for _, f := range begin { // last, because a call that ends at once closes its questions
		go f()
	}
	switch {
	case all: // any of them may have its response, and none may get two
		var ends []stream.Entry
		for _, c := range lost {
			ends = append(ends, stream.Entry{Kind: stream.End, Meta: c.ID})
		}
		_ = w.Post(&pushEntries{entries: ends, last: true, silent: true})
	case len(lost) > 0 || !w.rec.Safe:
		_ = w.Post(&pushEntries{entries: lostCalls(lost, nil), last: true})
	}
}

// rerunCall runs a call again from its stored body, on its old stream.
func (s *sessionActor) rerunCall(w *streamActor, c record.Call, body []byte, j *journal) {
	n := s.node
	defer n.pending.closeReopened(j)
	lost := func() {
		_ = w.Post(&pushEntries{entries: lostCalls([]record.Call{c}, nil), last: true})
	}
	var m codec.Message
	if err := codec.Scan(body, &m, codec.Limits{MaxDepth: w.svc.Limits.Depth}); err != nil {
		n.log.Error("stored call not readable", "stream", w.key.ID, "error", err)
		lost()
		return
	}
	r := n.calls.takeActor(s.countRerun())
	r.used = true
	call := &Call{attempt: w.rec.Attempt, journal: j, member: j.member}
	if len(w.rec.Principal) > 0 {
		call.principal = json.RawMessage(w.rec.Principal)
	}
	r.memory.ChargeAnyway(n.accounts.Accounts, r.from, quota.Parked, callMemory(&m, body)) // r.from counts the call, so it is not dropped
	s.beginRequest(r, r.loggedWay(s, nil), &m, body, call)
	r.notified = j.sent.Messages
	if j.sent.Progressed {
		r.progressGate().Raise(j.sent.Progress)
	}
	_ = r.Post(adoptStream{w})
	err := r.runRequest(0) // no limit: it was admitted before
	for errors.Is(err, kernel.ErrStopped) || errors.Is(err, store.ErrUnavailable) {
		// The session has just left memory.
		if errors.Is(err, store.ErrUnavailable) {
			select {
			case <-time.After(time.Second):
			case <-n.base.Done():
			}
		}
		ctx, cancel := context.WithTimeout(n.base, w.svc.Limits.StoreWait)
		if s, err = n.sessions.loadSession(ctx, w.svc, w.key.Session, nil); err == nil {
			r.moveToSession(s)
			err = r.runRequest(0)
		}
		cancel()
	}
	if err != nil {
		r.cancel(err)
	}
	if errors.Is(err, ErrUnmounted) || errors.Is(err, ErrClosing) {
		_ = w.Post(handOver{})
		r.releaseActor()
		return
	}
	if err != nil {
		// The client has a request with the same id in flight, or the session is gone: the
		// outcome of this call is unknown.
		n.log.Info("call does not run again", "stream", w.key.ID, "error", err)
		lost()
		r.releaseActor()
	}
}

// countRerun counts a call that runs again after its node was lost; it never refuses, as the
// call was admitted before.
func (s *sessionActor) countRerun() *quota.Account {
	n := s.node
	for {
		if a := n.accounts.Of(s.key.Tenant, ""); n.accounts.Enter(a) {
			return a
		}
	}
}
