package actors

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/internal/quota"
)

// logs is the account of a session's log messages, or of those of a stateless
// request: what exceeds its rate is dropped, and the client is told how much
// that was.
type logs struct {
	rate   quota.Bucket
	missed atomic.Int64 // dropped since the client was last told
	told   atomic.Bool  // somebody is going to tell it
}

// logsIn returns the account that p holds, which it has from its first message on.
func logsIn(p *atomic.Pointer[logs], rate float64) *logs {
	l := p.Load()
	for l == nil {
		p.CompareAndSwap(nil, &logs{rate: quota.NewBucket(quota.Rate{PerSecond: rate, Burst: quota.Burst(rate, 0)})})
		l = p.Load()
	}
	return l
}

// admit takes a token for one message. When there is none, wait is how long it will be
// until there is.
func (l *logs) admit(n *Node) (wait time.Duration) {
	if wait = l.rate.Take(time.Now()); wait > 0 {
		l.missed.Add(1)
		n.refusals.count(LogRateOfSession)
	}
	return wait
}

// take returns how many messages were dropped since it was last called.
func (l *logs) take() int64 {
	if l == nil || l.missed.Load() == 0 {
		return 0
	}
	return l.missed.Swap(0)
}

func (s *sessionActor) logs() *atomic.Pointer[logs] { return &s.logged }

// Missed returns how many log messages were dropped for their rate since it was last
// called. The caller is to tell the client.
func (c *Call) Missed() int64 {
	if c.r == nil {
		return 0
	}
	return c.client.logs().Load().take()
}

// Missed is that of messages that belong to no call.
func (p *Peer) Missed() int64 {
	s, err := p.who.session()
	if err != nil {
		return 0
	}
	return s.logged.Load().take()
}

// AdmitLog decides whether a log message that the client wants, or does not, is to be
// sent. One that is not counts as sent all the same when the call runs again: that
// run drops as many of its first messages as the earlier one had come to, whatever
// was wanted then and however many there was room for. dropped says that there was
// none. An error means that the call has ended.
func (c *Call) AdmitLog(wanted bool) (send, dropped bool, err error) {
	if c.r == nil { // of a listener: there is nothing to send by
		return false, false, errReturned
	}
	if cause := context.Cause(c.ctx); cause != nil {
		return false, false, cause
	}
	if c.journal != nil && c.journal.skipMessage() {
		return false, false, nil
	}
	if wanted {
		if logsIn(c.client.logs(), c.peer.svc.Limits.LogRate).admit(c.peer.node) == 0 {
			return true, false, nil
		}
		dropped = true
	}
	c.Pass()
	return false, dropped, nil
}

// Pass counts a message that is not sent: see AdmitLog.
func (c *Call) Pass() { _ = c.post(passed{}) }

// passed numbers a message that is not sent.
type passed struct{}

// AdmitLog decides whether a log message that belongs to no call is to be sent. When
// one is dropped, later is called once there is room again.
func (p *Peer) AdmitLog(later func()) bool {
	s, err := p.who.session()
	if err != nil {
		return true // and fails: there is no stream for it
	}
	l := logsIn(&s.logged, p.svc.Limits.LogRate)
	wait := l.admit(p.node)
	if wait > 0 && l.told.CompareAndSwap(false, true) {
		time.AfterFunc(wait, func() {
			l.told.Store(false)
			later()
		})
	}
	return wait == 0
}
