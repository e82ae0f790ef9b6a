package actors

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/store"
)

// holdEvery is how often, on average, a held resume sends a comment and tries again. Each wait
// is half as long to half as long again: many resumes that were held at once come back one by one.
const holdEvery = time.Second

// heldResume is the connection of a resume. A resume is never refused because of the store, since
// popular clients give up after two attempts: while the store cannot be read, the response is
// open and gets comments. An open response cannot be refused any more, so it is cut instead:
// the client comes back and then learns the reason.
type heldResume struct {
	Conn
	n      *Node
	svc    *Service
	since  time.Time // when the client came, or was left behind
	until  time.Time
	open   bool           // the response has begun
	gone   chan struct{}  // closed when the connection is gone
	at     string         // the event id that the client came with, if its revision has priming events
	caller any            // who resumes: see Call.Principal
	from   *quota.Account // the resume is counted on it until its session is known
}

func newHeldResume(n *Node, svc *Service, conn Conn) *heldResume {
	return &heldResume{Conn: conn, n: n, svc: svc, since: time.Now(), until: time.Now().Add(svc.Limits.ResumeWait), gone: make(chan struct{})}
}

// worthRetry reports whether a resume that failed with err is worth another try later.
func (h *heldResume) worthRetry(err error) bool {
	return errors.Is(err, store.ErrUnavailable) && !errors.Is(err, errNewer) && time.Now().Before(h.until)
}

// markOpen says that the response is open, and that the resume goes on after it was live.
func (h *heldResume) markOpen() {
	if !h.open {
		h.open = true
		h.Conn.Gone(func() { close(h.gone) })
	}
	h.until = time.Now().Add(h.svc.Limits.ResumeWait)
}

// waitForRetry waits for holdEvery and reports whether to try again. If not, the connection is gone or
// has been cut.
func (h *heldResume) waitForRetry() bool {
	if !h.open {
		if h.open = h.Conn.Open(); !h.open { // The transport is about to end, or the client is gone.
			refusal.Unavailable.Tell(h, nil)
			return false
		}
		h.Conn.Gone(func() { close(h.gone) })
		if h.at != "" { // popular clients remember only what their newest connection has carried
			h.Conn.Event(h.at, 0, nil)
		}
	}
	h.Conn.Comment()
	h.Conn.Flush()
	timer := time.NewTimer(holdEvery/2 + rand.N(holdEvery))
	defer timer.Stop()
	select {
	case <-timer.C:
		if !h.n.drain.over.Load() {
			return true
		}
	case <-h.gone:
		return false
	case <-h.svc.life.done:
	case <-h.n.base.Done():
	}
	h.Conn.Cut()
	return false
}

// findSession returns the session of the resume in, whose connection is h, or refuses the resume. It
// holds the resume while the session is not in memory and the store cannot be read.
func (h *heldResume) findSession(in *Input) *sessionActor {
	defer h.releaseCharge()
	for {
		s, err := h.n.sessions.lookUp(h.svc, in)
		switch {
		case err == nil || !h.worthRetry(err):
			return h.n.sessions.checkFound(in, nil, s, err)
		case !h.chargeResume(in) || !h.waitForRetry():
			return nil
		}
	}
}

// chargeResume counts a resume whose session is not known on its principal's account, or refuses it.
func (h *heldResume) chargeResume(in *Input) bool {
	for h.from == nil || h.from.Dropped() {
		h.releaseCharge()
		h.from = h.n.accounts.Of(in.Tenant, in.Address)
		if gets := h.from.Held[heldGets].Add(1); quota.Over(gets+h.from.Held[heldStreams].Load(), h.n.accounts.limits.Principal.Streams) {
			h.n.refusals.refuseRequest(h, refusal.Of(limits.StreamsPerPrincipal.Row), nil)
			return false
		}
	}
	return true
}

func (h *heldResume) releaseCharge() {
	if h.from != nil {
		h.from.Held[heldGets].Add(-1)
		h.from = nil
	}
}

// Reject refuses the resume, or cuts its connection if that is open.
func (h *heldResume) Reject(no *refusal.Refusal) {
	if h.open {
		h.Conn.Cut()
		return
	}
	h.Conn.Reject(no)
}

// refuseEventID refuses the event id that the resume came with.
func (h *heldResume) refuseEventID() {
	h.n.refusals.Refused(limits.ReplayAge.Row)
	refusal.EventID.Tell(h, nil)
}
