package transport

import (
	"net/http"
	"sync"
	"time"
)

// watchdog bounds reads and writes without a timer for each. A list holds those under way, oldest first, and one timer
// looks at the oldest. watchdog ends a read or write that takes too long by a deadline in the past.
type watchdog struct {
	limit time.Duration
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
}

var past = time.Unix(1, 0)

// A writer without deadlines leaves its requests to the server's own timeouts.
func endRead(w http.ResponseWriter)  { _ = http.NewResponseController(w).SetReadDeadline(past) }
func endWrite(w http.ResponseWriter) { _ = http.NewResponseController(w).SetWriteDeadline(past) }

func newWatchdog(limit time.Duration, bite func(http.ResponseWriter)) *watchdog {
	d := &watchdog{limit: limit, bite: bite}
	d.list.prev, d.list.next = &d.list, &d.list
	return d
}

// begin watches a read or write on rw until end.
func (d *watchdog) begin(w *watched, rw http.ResponseWriter) {
	w.w, w.since = rw, time.Now()
	d.mu.Lock()
	w.prev, w.next = d.list.prev, &d.list
	w.prev.next, d.list.prev = w, w
	if !d.armed {
		d.armed = true
		time.AfterFunc(d.limit, d.look)
	}
	d.mu.Unlock()
}

// end stops watching w. If the watchdog has ended w, the connection keeps its deadline: it is of no use any more.
func (d *watchdog) end(w *watched) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.next != nil {
		w.prev.next, w.next.prev = w.next, w.prev
		w.prev, w.next = nil, nil
	}
	w.w = nil
}

// look ends what has taken too long, and sets the timer for the next.
func (d *watchdog) look() {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := d.list.next; w != &d.list; w = d.list.next {
		if left := d.limit - now.Sub(w.since); left > 0 {
			time.AfterFunc(left, d.look)
			return
		}
		d.list.next, w.next.prev = w.next, &d.list
		w.prev, w.next = nil, nil
		d.bite(w.w)
	}
	d.armed = false
}
