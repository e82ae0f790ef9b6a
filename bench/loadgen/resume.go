package loadgen

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"
)

const (
	// stepPause is how long the tool waits before each number, so that servers that send less
	// progress than they have send all of it.
	stepPause = 50 * time.Millisecond
	// cutAfter is after how many numbers the first connection is cut; those of others are cut up to
	// cutSpread numbers later.
	cutAfter, cutSpread = 5, 10
)

// runResume has many clients call a tool that counts, cuts their connections midway, lets the calls
// end, and has all resume their streams at once. Each must get each number once, in order, and the
// answer.
func runResume(ctx context.Context, o *Options, l *ledger) error {
	all := newCrowd(o, o.Count)
	defer all.closeConnections()
	ready, err := all.beginSessions(ctx, l)
	if err != nil {
		return err
	}
	defer ready.endSessions(ctx)
	o.printProgress("%d sessions are there", len(ready))
	began := time.Now()
	counts := make([]*counting, len(ready))
	var cut atomic.Int64
	ready.forEach(len(ready), func(i int, c *client) {
		n := &counting{c: c, id: c.newID()}
		if err := n.callAndCut(ctx, cutAfter+i%cutSpread); err != nil {
			if ctx.Err() == nil {
				l.addError(err)
			}
			return
		}
		cut.Add(1)
		counts[i] = n
	})
	if cut.Load() == 0 && ctx.Err() == nil {
		return fmt.Errorf("no stream could be cut: %s", l.anyExample())
	}
	// The calls go on without their clients. As many again would be slow because the server is.
	waitUntil(ctx, time.Now().Add(max(time.Since(began), (steps-cutAfter)*stepPause)))
	o.printProgress("%d streams are cut, and all are resumed", cut.Load())
	return l.timeRun(o, func() (time.Duration, error) {
		due := time.Now()
		ready.forEach(len(ready), func(i int, _ *client) {
			n := counts[i]
			if n == nil || ctx.Err() != nil {
				return
			}
			one, cancel := context.WithTimeout(ctx, o.Timeout)
			defer cancel()
			events := n.events
			n.heard = func() { l.addFirst(time.Since(due)) }
			err := n.resumeStream(one)
			if ctx.Err() == nil {
				l.addOperation(time.Since(due), n.events-events, err)
			}
		})
		return time.Since(due), nil
	})
}

// counting is a call that counts, and what its client has got of it.
type counting struct {
	c      *client
	id     string // of the call
	last   string // the id of the last event
	number int    // the last one
	events int64
	heard  func() // for the first message, nil for nobody
}

// callAndCut makes the call, and cuts its connection after a number of numbers.
func (n *counting) callAndCut(ctx context.Context, after int) error {
	ctx, cancel := context.WithTimeout(ctx, n.c.o.Timeout)
	defer cancel()
	n.c.reports = true
	s, err := openCall(ctx, n.c, n.id, n.c.toolOr("count"), fmt.Sprintf(`{"to":%d,"delay_ms":%d}`, steps, stepPause.Milliseconds()))
	if err != nil {
		return err
	}
	defer s.close()
	for n.number < after {
		over, err := n.readMessage(ctx, s)
		switch {
		case err != nil:
			return causeOf(ctx, err)
		case over:
			return wrongAnswer("the answer came after %d of %d numbers", n.number, steps)
		}
	}
	if n.last == "" {
		return wrongAnswer("the events have no ids, so their stream cannot be resumed")
	}
	return nil
}

// resumeStream resumes the stream until the answer has come, again if the server ends it before and
// something had come.
func (n *counting) resumeStream(ctx context.Context) error {
	for {
		before := n.last
		s, err := getStream(ctx, n.c, n.last)
		if err != nil {
			return err
		}
		over := false
		for err == nil && !over {
			over, err = n.readMessage(ctx, s)
		}
		s.close()
		if over {
			return err
		}
		if ctx.Err() != nil || kindOf(err) != "stream ended" || n.last == before {
			return causeOf(ctx, err)
		}
	}
}

// readMessage reads a message. over says that it was the answer, and that nothing is missing.
func (n *counting) readMessage(ctx context.Context, s *stream) (over bool, err error) {
	m, err := s.nextMessage(ctx)
	n.last = s.last
	if err != nil {
		return false, err
	}
	if n.heard != nil {
		n.heard()
		n.heard = nil
	}
	n.events++
	switch {
	case m.Method == "notifications/progress":
		var p struct {
			Token    json.RawMessage `json:"progressToken"`
			Progress int             `json:"progress"`
		}
		if err := json.Unmarshal(m.Params, &p); err != nil || string(p.Token) != n.id {
			return false, wrongAnswer("progress is %.200s: %v", m.Params, err)
		}
		switch before := n.number; {
		case p.Progress <= before:
			return false, &Failure{"doubled", fmt.Sprintf("%d came after %d", p.Progress, before)}
		case p.Progress > before+1:
			return false, &Failure{"lost", fmt.Sprintf("%d came after %d", p.Progress, before)}
		}
		n.number = p.Progress
	case m.Method != "":
	case string(m.ID) != n.id:
		return false, wrongAnswer("an answer to %s, and %s was asked", m.ID, n.id)
	case m.Error != nil:
		return true, &Failure{fmt.Sprintf("error %d", m.Error.Code), m.Error.Message}
	case n.number != steps:
		return true, &Failure{"lost", fmt.Sprintf("the answer came after %d of %d numbers", n.number, steps)}
	default:
		_, err := resultOf(m)
		return true, err
	}
	return false, nil
}
