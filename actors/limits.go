package actors

import (
	"time"

	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/session"
	"github.com/troupe-run/troupe/internal/stream"
)

// Limits bound what one service takes on. Zero fields take the defaults of
// Defaults.
type Limits struct {
	Grace       time.Duration // a plain answer may take this long
	GraceAlone  time.Duration // the same since 2026-07-28, where the status waits for the handler
	MaxCall     time.Duration // a call may run this long
	PingEvery   time.Duration // clients are pinged this often; 0 never
	MaxAsk      time.Duration // an answer of the client may take this long
	Session     session.Lifetime
	SessionDrop time.Duration // an unused session leaves memory after this
	ReplayAge   time.Duration // events can be replayed for this long
	Stream      stream.Limits
	Queue       int           // bytes that may wait for the log per stream
	KeepAlive   time.Duration // a silent stream gets a comment this often
	StoreWait   time.Duration // a POST waits this long for the store
	ResumeWait  time.Duration // a resume is held this long
	PerSession  int           // calls in flight per session; negative is no limit
	Rate        float64       // calls per second and session; negative is no limit
	Burst       int           // calls at once after a silence
	LogRate     float64       // log messages per second and session, twice as many at once; negative is no limit
	Streams     int           // streams with a connection per session; negative is no limit
	Parked      int           // questions per session that wait for the client; negative is no limit
	Depth       int           // JSON depth
	// Subscriptions bounds the resources that a session may subscribe to; negative
	// is no limit.
	Subscriptions int
	Retry         time.Duration // what clients are told to wait before they reconnect to a call; twice that for a standalone stream
}

// Defaults fills the zero fields of l.
func (l Limits) Defaults() Limits {
	d := func(p *time.Duration, v time.Duration) {
		if *p <= 0 {
			*p = v
		}
	}
	n := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	d(&l.Grace, 250*time.Millisecond)
	d(&l.GraceAlone, 10*time.Second)
	d(&l.MaxCall, time.Hour)
	d(&l.MaxAsk, 10*time.Minute)
	d(&l.Session.Idle, 72*time.Hour)
	d(&l.Session.Absolute, 30*24*time.Hour)
	d(&l.SessionDrop, time.Minute)
	d(&l.ReplayAge, 10*time.Minute)
	d(&l.KeepAlive, 15*time.Second)
	d(&l.StoreWait, 5*time.Second)
	d(&l.ResumeWait, time.Minute)
	d(&l.Retry, 4*time.Second)
	l.Retry = max(l.Retry, time.Millisecond)
	count := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	n(&l.Queue, 1<<20)
	count(&l.PerSession, 256)
	count(&l.Streams, 64)
	count(&l.Parked, 64)
	count(&l.Subscriptions, 1000)
	if l.Rate == 0 {
		l.Rate = 100
	}
	l.Burst = quota.Burst(l.Rate, l.Burst)
	if l.LogRate == 0 {
		l.LogRate = 500
	}
	return l
}

// NodeLimits bound what a node takes on, of all its services together. Zero
// fields take the defaults of Defaults; negative ones are no limit.
type NodeLimits struct {
	Calls     int // requests in flight; 10,000
	Principal PrincipalLimits
	Accounts  int // principals that are told apart; 100,000
}

// PrincipalLimits bound one principal, or one address of those who are nobody in
// particular. They are per node.
type PrincipalLimits struct {
	Rate     float64 // calls per second; 1,000
	Burst    int     // calls at once after a silence; twice the rate
	Calls    int     // requests in flight; 1,024
	Streams  int     // event streams with a connection; 1,024
	Parked   int     // questions that wait for the client; 1,024
	Sessions int     // new sessions per SessionIdle; 100,000
	// SessionIdle is how long it takes until a new session no longer counts; 72 h.
	SessionIdle time.Duration
}

// Defaults fills the zero fields of l.
func (l NodeLimits) Defaults() NodeLimits {
	n := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	n(&l.Calls, 10_000)
	n(&l.Accounts, 100_000)
	p := &l.Principal
	if p.Rate == 0 {
		p.Rate = 1000
	}
	p.Burst = quota.Burst(p.Rate, p.Burst)
	n(&p.Calls, 1024)
	n(&p.Streams, 1024)
	n(&p.Parked, 1024)
	n(&p.Sessions, 100_000)
	if p.SessionIdle <= 0 {
		p.SessionIdle = 72 * time.Hour
	}
	return l
}
