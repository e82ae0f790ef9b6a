package history

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/internal/record"
	"github.com/troupe-run/troupe/internal/stream"
)

// judge collects what clients and handlers see, and what the store has, and finds what must not be. It uses nothing of how
// nodes decide.
type judge struct {
	w      *world
	faults []string
	sums   map[string]int
	calls  map[string]*client
	tales  map[string]*tale
	cuts   int           // power cuts
	jumps  time.Duration // by how much the store's clock has jumped, in either direction
}

// tale is everything that was ever seen of one stream.
type tale struct {
	c        *client
	begun    time.Duration     // by age
	events   map[string]string // by event id
	appends  map[uint64]stored
	ever     map[uint64]bool // appends that were stored
	tail     uint64
	final    bool // its last append is stored
	runs     int
	taken    int // how often it was taken over
	drained  bool
	doubtful bool // stored again by a node of which streams were taken over
	answers  map[int]string
}

type stored struct {
	size int
	at   time.Duration // by age
}

func newJudge(w *world) *judge {
	return &judge{w: w, sums: map[string]int{}, calls: map[string]*client{}, tales: map[string]*tale{}}
}

func (j *judge) fault(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	j.w.note("FAULT: %s", text)
	if len(j.faults) < 10 {
		j.faults = append(j.faults, text)
	}
}

// age counts the time by which things may have expired: a clock that has jumped forward and back has had them expire.
func (j *judge) age() time.Duration { return j.w.now + j.jumps }

func (j *judge) count(what string) { j.sums[what]++ }

func (j *judge) opened(c *client) {
	j.tales[c.id].begun = j.age()
	j.count("calls")
}

// stored notes an append that the store has.
func (j *judge) stored(id string, num uint64, data []byte) {
	t := j.tales[id]
	j.count("appends")
	t.appends[num] = stored{len(data), j.age()}
	t.tail = max(t.tail, num)
	if len(data) == 0 {
		return
	}
	t.ever[num] = true
	if stream.Last(data) {
		t.final = true
	}
}

// rewritten judges a new writer.
func (j *judge) rewritten(id string, before, after *record.Stream) {
	if before.Boot == after.Boot {
		return
	}
	w, t := j.w, j.tales[id]
	t.taken++
	for _, n := range w.nodes {
		if n.boot != before.Boot {
			continue
		}
		s := n.streams[id]
		gone, was := w.store.absent[n.boot]
		e, err := w.store.entry(n.name)
		there := err == nil && e.boot == n.boot
		if n.serves() && there && !(was && w.now-gone < 30*time.Second) && s != nil && !s.stopped {
			j.fault("%s takes %s over, which %s writes and has its lease for", after.Boot, id, n.boot)
		}
	}
}

// lost judges that a writer gives a stream up.
func (j *judge) lost(s *writer, err error) {
	if l := j.w.store.streams[s.id]; j.cuts == 0 && !s.n.dead && l != nil && l.rec.Boot == s.n.boot && !s.run.over {
		j.fault("%s is lost on %s, which nobody took it from: %v", s.id, s.n.boot, err)
	}
}

// runs judges a run of a handler.
func (j *judge) runs(r *run) {
	t := j.tales[r.call.id]
	t.runs++
	j.w.note("client %d: run %d, on %s", r.call.n, t.runs, r.s.n.boot)
	if t.runs == 1 {
		return
	}
	j.count("second runs")
	switch {
	case !r.call.safe:
		j.fault("client %d: the call runs again, which it may not", r.call.n)
	case t.final && j.cuts == 0:
		j.fault("client %d: the call was answered, and runs again", r.call.n)
	}
}

// takes judges the answer that a handler gets.
func (j *judge) takes(c *client, use int, answer string) {
	t := j.tales[c.id]
	if first, ok := t.answers[use]; ok && first != answer && j.cuts == 0 {
		j.fault("client %d: question %d had the answer %s, and has %s now", c.n, use, first, answer)
	}
	t.answers[use] = answer
}

// event judges what a client gets, and returns which event of the call it is.
func (j *judge) event(c *client, k *conn, id string, data []byte) int {
	t := j.tales[c.id]
	text := string(data)
	j.count("events")
	j.w.note("client %d gets %s: %s", c.n, short(id), strings.TrimRight(text, "."))
	if before, ok := t.events[id]; ok && before != text {
		j.fault("client %d: %s was %q, and is %q", c.n, short(id), before, text)
	}
	t.events[id] = text
	pos, ok := stream.ParsePosition(id)
	switch {
	case !ok || pos.Stream != c.id:
		j.fault("client %d: %s is not of its stream", c.n, id)
	case !t.ever[pos.Append]:
		j.fault("client %d: %s was never stored", c.n, short(id))
	}
	if text == "lost" {
		if t.taken == 0 && !t.drained && !t.doubtful {
			j.fault("client %d: the call is reported as lost, and nobody took it over", c.n)
		}
		if c.safe && j.cuts == 0 && !t.old(j.w, 1) {
			j.fault("client %d: the call may run again, and is reported as lost", c.n)
		}
		return len(c.steps)
	}
	parts := strings.Split(text, "|")
	n, _ := strconv.Atoi(parts[0])
	index, _ := strconv.Atoi(parts[1])
	if i := parts[1]; strings.HasPrefix(i, `"`) {
		index, _ = strconv.Atoi(parts[2])
	}
	switch {
	case n != c.n:
		j.fault("client %d gets what is of client %d", c.n, n)
	case index != k.next:
		j.fault("client %d gets event %d where %d must come", c.n, index, k.next)
	}
	return index
}

// old reports whether the log may lack something from append num on: by number, by bytes or by age.
func (t *tale) old(w *world, num uint64) bool {
	lim := w.limits()
	bytes, age := 0, w.judge.age()-t.begun
	if e, ok := t.appends[num]; ok {
		age = w.judge.age() - e.at
	}
	for n, e := range t.appends {
		if n >= num {
			bytes += e.size
		}
	}
	return int(t.tail)-int(num)+4 > lim.Appends || bytes+2*lim.Part > lim.Bytes || age > w.plan.ReplayAge
}

// refused judges that the log has nothing for an event id.
func (j *judge) refused(c *client) {
	t := j.tales[c.id]
	pos, _ := stream.ParsePosition(c.last)
	if j.cuts == 0 && !t.old(j.w, max(pos.Append, 1)) {
		j.fault("client %d is refused with %s, and the log must have what follows", c.n, short(c.last))
	}
}

// nothingMore judges that a client has everything.
func (j *judge) nothingMore(c *client) {
	j.fault("client %d lacks its response, and is told that it has everything", c.n)
}
