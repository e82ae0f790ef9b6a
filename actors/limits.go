package actors

import (
	"time"

	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/session"
	"github.com/troupe-run/troupe/internal/stream"
)

// Limits bound what one service takes on. Zero fields take the defaults of
// Defaults, which are those of internal/limits.
type Limits struct {
	Grace          time.Duration // a plain answer may take this long
	GraceStateless time.Duration // the same since 2026-07-28, where the status waits for the handler
	MaxCall        time.Duration // a call may run this long
	PingEvery      time.Duration // clients are pinged this often; 0 never
	MaxAsk         time.Duration // an answer of the client may take this long
	Session        session.Lifetime
	SessionDrop    time.Duration // an unused session leaves memory after this
	ReplayAge      time.Duration // events can be replayed for this long
	Stream         stream.Limits
	Queue          int           // bytes that may wait for the log per stream
	KeepAlive      time.Duration // a silent stream gets a comment this often
	StoreWait      time.Duration // a POST waits this long for the store
	ResumeWait     time.Duration // a resume is held this long
	PerSession     int           // calls in flight per session; negative is no limit
	Rate           float64       // calls per second and session; negative is no limit
	Burst          int           // calls at once after a silence
	LogRate        float64       // log messages per second and session, twice as many at once; negative is no limit
	Streams        int           // streams with a connection per session; negative is no limit
	Parked         int           // questions per session that wait for the client; negative is no limit
	Depth          int           // JSON depth
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
	d(&l.GraceStateless, 10*time.Second)
	d(&l.MaxCall, limits.MaxCall.Value())
	d(&l.MaxAsk, limits.MaxAsk.Value())
	d(&l.Session.Idle, limits.SessionIdle.Value())
	d(&l.Session.Absolute, limits.SessionMax.Value())
	d(&l.SessionDrop, time.Minute)
	d(&l.ReplayAge, limits.ReplayAge.Value())
	d(&l.KeepAlive, 15*time.Second)
	d(&l.StoreWait, 5*time.Second)
	d(&l.ResumeWait, time.Minute)
	d(&l.Retry, limits.Retry.Value())
	l.Retry = max(l.Retry, time.Millisecond)
	count := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	n(&l.Queue, limits.MaxQueued.Value())
	count(&l.PerSession, limits.CallsPerSession.Value())
	count(&l.Streams, limits.StreamsPerSession.Value())
	count(&l.Parked, limits.ParkedPerSession.Value())
	count(&l.Subscriptions, limits.SubscriptionsPerSession.Value())
	l.Rate = limits.CallRate.Or(l.Rate)
	l.Burst = quota.Burst(l.Rate, l.Burst)
	l.LogRate = limits.LogRate.Or(l.LogRate)
	return l
}

// NodeLimits bound what a node takes on, of all its services together. Zero
// fields take the defaults of Defaults; negative ones are no limit.
type NodeLimits struct {
	Calls     int // requests in flight
	Principal PrincipalLimits
	Accounts  int // principals that are told apart
}

// PrincipalLimits bound one principal, or one address of those who are nobody in
// particular. They are per node.
type PrincipalLimits struct {
	Rate     float64 // calls per second
	Burst    int     // calls at once after a silence
	Calls    int     // requests in flight
	Streams  int     // event streams with a connection
	Parked   int     // questions that wait for the client
	Sessions int     // new sessions per SessionIdle
	// SessionIdle is how long it takes until a new session no longer counts.
	SessionIdle time.Duration
}

// Defaults fills the zero fields of l.
func (l NodeLimits) Defaults() NodeLimits {
	n := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	n(&l.Calls, limits.CallsPerNode.Value())
	n(&l.Accounts, limits.Accounts.Value())
	p := &l.Principal
	p.Rate = limits.PrincipalRate.Or(p.Rate)
	p.Burst = quota.Burst(p.Rate, p.Burst)
	n(&p.Calls, limits.CallsPerPrincipal.Value())
	n(&p.Streams, limits.StreamsPerPrincipal.Value())
	n(&p.Parked, limits.ParkedPerPrincipal.Value())
	n(&p.Sessions, limits.SessionsPerPrincipal.Value())
	p.SessionIdle = limits.SessionIdle.Or(p.SessionIdle)
	return l
}
