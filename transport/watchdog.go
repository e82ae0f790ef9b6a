package transport

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// watchdog bounds reads and writes without a timer for each. A list holds those under way, oldest first, and one timer
// looks at the oldest. watchdog ends a read or write that takes too long by a deadline in the past.
type watchdog struct {
	limit time.Duration
	least float64 // bytes per second, on average once it has taken trickleAfter; 0 or less is no bound
	bite  func(http.ResponseWriter)

	mu    sync.Mutex // guards the rest and the links of the list
	list  watched
	armed bool
}

// watched is one read or write under way.
type watched struct {
	prev, next *watched
	w          http.ResponseWriter
	since      time.Time
	paused     time.Time     // when the pause began that lasts; the zero Time is none
	rested     time.Duration // the pauses before
	got        atomic.Int64  // bytes so far
	trickled   atomic.Bool   // it was ended for its rate
}

// activeTime is how long w has taken, but for its pauses.
func (w *watched) activeTime(now time.Time) time.Duration {
	if !w.paused.IsZero() {
		now = w.paused
	}
	return now.Sub(w.since) - w.rested
}

const (
	// trickleAfter is how long a body may take before its rate is looked at: until then it may be a client far away that
	// begins, or whose first packets were lost.
	trickleAfter = 10 * time.Second
	// trickleEvery is how often the rate is looked at from then on.
	trickleEvery = time.Second
)

var past = time.Unix(1, 0)

// A writer without deadlines leaves its requests to the server's own timeouts.
func endRead(w http.ResponseWriter)  { _ = http.NewResponseController(w).SetReadDeadline(past) }
func endWrite(w http.ResponseWriter) { _ = http.NewResponseController(w).SetWriteDeadline(past) }

// endsWrites reports whether the server of r has a WriteTimeout. That begins with the request, so that it would also end
// the responses to requests that have to wait.
func endsWrites(r *http.Request) bool {
	s, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
	return ok && s.WriteTimeout > 0
}

// writeBy sets the time for what is written to w from now on; 0 is no end.
func writeBy(w http.ResponseWriter, limit time.Duration) {
	var by time.Time
	if limit > 0 {
		by = time.Now().Add(limit)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(by)
}

func newWatchdog(limit time.Duration, bite func(http.ResponseWriter)) *watchdog {
	d := &watchdog{limit: limit, bite: bite}
	d.list.prev, d.list.next = &d.list, &d.list
	return d
}

// beginWatch watches a read or write on rw until endWatch.
func (d *watchdog) beginWatch(w *watched, rw http.ResponseWriter) {
	w.w, w.since = rw, time.Now()
	w.paused, w.rested = time.Time{}, 0
	w.got.Store(0)
	d.mu.Lock()
	w.prev, w.next = d.list.prev, &d.list
	w.prev.next, d.list.prev = w, w
	if !d.armed {
		d.armed = true
		time.AfterFunc(d.nextLook(0), d.endOverdue)
	}
	d.mu.Unlock()
}

// pauseWatch stops the time of w until resumeWatch: the peer can do nothing. Neither does anything once w has ended.
func (d *watchdog) pauseWatch(w *watched) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.next != nil {
		w.paused = time.Now()
	}
}

func (d *watchdog) resumeWatch(w *watched) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.next != nil && !w.paused.IsZero() {
		w.rested += time.Since(w.paused)
		w.paused = time.Time{}
	}
}

// endWatch stops watching w. If the watchdog has ended w, the connection keeps its deadline: it is of no use any more.
func (d *watchdog) endWatch(w *watched) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.next != nil {
		w.prev.next, w.next.prev = w.next, w.prev
		w.prev, w.next = nil, nil
	}
	w.w = nil
}

// nextLook is how long what has taken age may go on without another look.
func (d *watchdog) nextLook(age time.Duration) time.Duration {
	left := d.limit - age
	switch {
	case d.least <= 0:
		return left
	case age < trickleAfter:
		return min(left, trickleAfter-age)
	}
	return min(left, trickleEvery)
}

// endOverdue ends what has taken too long, or comes too slowly, and sets the timer for the next look.
func (d *watchdog) endOverdue() {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	next, last := d.limit, false
	for w := d.list.next; w != &d.list && !last; {
		age, after := w.activeTime(now), w.next
		trickles := d.least > 0 && age >= trickleAfter && float64(w.got.Load()) < d.least*age.Seconds()
		switch {
		case !w.paused.IsZero():
			next = min(next, max(d.nextLook(age), trickleEvery)) // and not again and again for what may go on for a moment only
		case age >= d.limit || trickles:
			w.trickled.Store(age < d.limit)
			w.prev.next, after.prev = after, w.prev
			w.prev, w.next = nil, nil
			d.bite(w.w)
		default:
			next = min(next, d.nextLook(age))
		}
		if age = now.Sub(w.since); age < d.limit && (d.least <= 0 || age < trickleAfter) { // those behind it began later
			next, last = min(next, d.nextLook(age)), true
		}
		w = after
	}
	if d.armed = d.list.next != &d.list; d.armed {
		time.AfterFunc(next, d.endOverdue)
	}
}
