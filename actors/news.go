package actors

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors/internal/mrtr"
	"github.com/troupe-run/troupe/actors/internal/record"
	"github.com/troupe-run/troupe/actors/internal/session"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/store"
)

// What sessions and listeners listen to may happen on any node: a resource changes there, a list,
// or a task. That node tells all others, which tell their own clients. Whoever misses such a letter
// learns of that by a later one, and then repeats to its clients whatever they may have missed.

// The letters of what clients listen to.
const (
	letterUpdated = "updated"
	letterLists   = "lists"
	letterTask    = "task"
	letterEnd     = "operator.end"
)

// News is what is above the actors, as far as other nodes have something to tell it. Its methods
// must not block.
type News interface {
	// Lists says that lists of a server have changed on another node. The server may be unknown
	// here.
	Lists(server string, changed []ListChange)
	// Task says that another node has changed a task.
	Task(t *TaskChange)
	// EndHere ends on this node what an operator has ended on another one. Unlike the others it may
	// wait for the store.
	EndHere(ctx context.Context, e *OperatorEnd) error
	// Missed says that some of that may have been lost. It is called at most once a second.
	Missed()
	// Repeat sends a session's client all that it may have missed: that each list has changed, and
	// an update of each resource that it has subscribed to.
	Repeat(p *Peer)
}

// ListChange is a change of a list that a server offers.
type ListChange struct {
	List   string
	Digest string // of what the list has now
	// Again says that clients who know of the digest must be told again: they may have the list
	// from the node as it was before.
	Again bool `json:",omitempty"`
}

// TaskChange is a change of a task. Session, Method and Params are a notification for the session
// that made the task; Session is "" if there is none.
type TaskChange struct {
	Tenant, Server, ID string
	Rev                uint64          `json:",omitempty"` // of its record
	Ended              uint8           `json:",omitempty"` // how it ended, as the record says; 0: it has not
	Asks               uint8           `json:",omitempty"` // who puts its questions to its client, as the sender means it; 0: nothing is said of that
	Session            string          `json:",omitempty"`
	Method             string          `json:",omitempty"`
	Params             json.RawMessage `json:",omitempty"`
}

func (*TaskChange) short() {}

const (
	// mostUpdates is how many resources other nodes are told of within tellPause. When more change,
	// they are told that all of the server's resources have changed.
	mostUpdates = 1000
	// allPause is how long another letter of that kind waits.
	allPause = time.Second
	// mostURI bounds the URI in a letter, and mostParams the notification.
	mostURI    = 64 << 10
	mostParams = 64 << 10
	// mostLists bounds the lists of a server.
	mostLists = 16
)

// tellPause is how long an update of a resource waits after one was told: updates that come
// meanwhile are told as one. A subscription gathers them for as long.
var tellPause = time.Second / time.Duration(limits.Updates.Value())

// updatedLetter says that a resource has changed, and with Below perhaps those above it. Without a
// URI it is all resources.
type updatedLetter struct {
	Server string
	URI    string `json:",omitempty"`
	Below  bool   `json:",omitempty"`
}

// sentUpdates are the updates that other nodes were told of a moment ago.
type sentUpdates struct {
	mu  sync.Mutex // guards all
	all map[updatedLetter]*sentUpdate
}

type sentUpdate struct {
	repeated bool // it has come again
	until    time.Time
}

// nodeNews is what other nodes tell this one of what clients see, and what this one tells them.
type nodeNews struct {
	node        *Node
	above       News // nil: nobody wants it
	sentUpdates sentUpdates
	repetition  repetition
}

// broadcastUpdate tells the other nodes that a resource has changed.
func (f *nodeNews) broadcastUpdate(server, uri string, below bool) {
	if f.node.fleet.mail == nil {
		return
	}
	u := updatedLetter{server, uri, below}
	if f.sentUpdates.addUpdate(&u, f.broadcastRepeated) {
		f.node.fleet.broadcastLetter(letterUpdated, u)
	}
}

// addUpdate notes an update, which may become one of all resources. It reports whether the others
// are to be told now; otherwise they are told when later runs.
func (d *sentUpdates) addUpdate(u *updatedLetter, later func()) (now bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all[*u] == nil && (len(d.all) >= mostUpdates || len(u.URI) > mostURI) {
		*u = updatedLetter{Server: u.Server}
	}
	if old := d.all[*u]; old != nil {
		old.repeated = true
		return false
	}
	if d.all == nil {
		d.all = make(map[updatedLetter]*sentUpdate)
	}
	if len(d.all) == 0 {
		time.AfterFunc(tellPause, later)
	}
	d.all[*u] = &sentUpdate{until: time.Now().Add(u.repeatPause())}
	return true
}

// repeatPause is how long the same letter waits.
func (u *updatedLetter) repeatPause() time.Duration {
	if u.URI == "" {
		return allPause
	}
	return tellPause
}

func (updatedLetter) short() {}

// dueUpdates returns the updates that have come again and are to be told now, and forgets those
// that have not.
func (d *sentUpdates) dueUpdates(later func()) (all []updatedLetter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for u, t := range d.all {
		switch {
		case now.Before(t.until):
		case t.repeated:
			t.repeated, t.until = false, now.Add(u.repeatPause())
			all = append(all, u)
		default:
			delete(d.all, u)
		}
	}
	if len(d.all) > 0 {
		time.AfterFunc(tellPause, later)
	}
	return all
}

// broadcastRepeated tells the other nodes of updates that have come again meanwhile.
func (f *nodeNews) broadcastRepeated() {
	if f.node.base.Err() != nil {
		return
	}
	for _, u := range f.sentUpdates.dueUpdates(f.broadcastRepeated) {
		f.node.fleet.broadcastLetter(letterUpdated, u)
	}
}

func (f *nodeNews) receiveUpdated(l *store.Letter) {
	var u updatedLetter
	switch {
	case !f.node.fleet.readLetter(l, &u) || u.Server == "":
	case u.URI == "":
		f.scheduleRepeat(u.Server)
	default:
		f.node.subs.SendUpdate(u.Server, u.URI, u.Below)
	}
}

type listsLetter struct {
	Server string
	Lists  []ListChange
}

func (listsLetter) short() {}

func (f *nodeNews) receiveLists(l *store.Letter) {
	var m listsLetter
	if f.node.fleet.readLetter(l, &m) && f.above != nil {
		f.above.Lists(m.Server, m.Lists[:min(len(m.Lists), mostLists)])
	}
}

func (f *nodeNews) receiveTask(l *store.Letter) {
	var t TaskChange
	if f.node.fleet.readLetter(l, &t) && f.above != nil {
		f.above.Task(&t)
	}
}

const (
	// repeatPause is the least time between two repetitions.
	repeatPause = time.Second
	// repeatSpread is by how much nodes that miss something at the same time are spread.
	repeatSpread = 500 * time.Millisecond
	// repeatBatch is how many sessions, listeners or resources are gone through at once; then there
	// is a pause.
	repeatBatch = 256
	repeatRest  = 5 * time.Millisecond
)

// repetition is what must be repeated to clients.
type repetition struct {
	mu      sync.Mutex // guards the rest
	all     bool
	servers map[string]bool // whose resources may all have changed
	runs    bool
}

// onLettersMissed is called when messages to all nodes were lost: whatever they said is made good.
// Nobody knows what that was.
func (f *nodeNews) onLettersMissed(store.Address) {
	f.node.expireViews()
	f.scheduleRepeat("")
}

// scheduleRepeat has what clients may have missed repeated: all of it, or the resources of one
// server. If that happens often, it is done once a second.
func (f *nodeNews) scheduleRepeat(server string) {
	d := &f.repetition
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case server == "" || len(d.servers) >= mostUpdates:
		d.all = true
	case d.servers == nil:
		d.servers = map[string]bool{server: true}
	default:
		d.servers[server] = true
	}
	if !d.runs {
		d.runs = true
		go f.runRepeats()
	}
}

// runRepeats repeats until nothing is left.
func (f *nodeNews) runRepeats() {
	n, d := f.node, &f.repetition
	for pause(n.base, rand.N(repeatSpread)) == nil {
		d.mu.Lock()
		all, servers := d.all, d.servers
		d.all, d.servers = false, nil
		d.mu.Unlock()
		if all {
			f.repeatAll()
		} else {
			f.repeatUpdates(servers)
		}
		if pause(n.base, repeatPause) != nil {
			return
		}
		d.mu.Lock()
		d.runs = d.all || d.servers != nil
		runs := d.runs
		d.mu.Unlock()
		if !runs {
			return
		}
	}
}

// newPauser returns a function that is called for each of many, and pauses now and then.
func (f *nodeNews) newPauser() func() {
	done := 0
	return func() {
		if done++; done%repeatBatch == 0 {
			_ = pause(f.node.base, repeatRest)
		}
	}
}

// repeatUpdates tells the subscribers of all resources of some servers that these have changed.
func (f *nodeNews) repeatUpdates(servers map[string]bool) {
	rest := f.newPauser()
	f.node.subs.EachResource(func(server, uri string) {
		if servers[server] {
			f.node.subs.SendUpdate(server, uri, false)
			rest()
		}
	})
}

// repeatAll looks at all sessions here, and tells all clients that listen here what they may have
// missed.
func (f *nodeNews) repeatAll() {
	n, rest := f.node, f.newPauser()
	n.sessions.Each(func(s *sessionActor) {
		_ = s.Post(idleTick{}) // its record is outdated
		if f.above != nil && (standalone{s}).writesStandalone() {
			f.above.Repeat(s.peer)
		}
		rest()
	})
	n.bound.Each(func(l *boundConn) {
		if f.above != nil && l.ready.Load() {
			l.repeatNews(f.above)
		}
		rest()
	})
	n.listeners.Each(func(l *listenActor) {
		_ = l.Post(repeatMissed{})
		rest()
	})
	if f.above != nil {
		f.above.Missed()
	}
}

// receiveChanged takes the news that a session has changed. Who asks waits until it holds here.
func (f *nodeNews) receiveChanged(l *store.Letter) {
	n := f.node
	var m sessionLetter
	if !n.fleet.readLetter(l, &m) {
		return
	}
	key := m.Session
	if st, ok := n.streams.Get(StreamKey{key, m.Old}); ok && len(st.rec.Calls) == 0 {
		_ = st.Post(endStream{})
	}
	n.anchors.leave(key, m.Anchor, true) // the session may not be in memory
	begins := n.sessions.Begins(key)     // first: what begins later reads the new record
	s, here := n.sessions.Get(key)
	if here && m.Forget {
		s.sharedAnswer().forgetAnswer(m.Change)
	}
	// An update of a resource may come next, which the client has subscribed to by then: who writes
	// its stream must have read that.
	reads := here && l.Reply != nil && s.view.Load().rev < m.Rev && standalone{s}.writesStandalone()
	if !begins && !reads {
		if here {
			sessionView{s}.noteRevision(m.Rev)
		}
		replyTo(l, done, nil)
		return
	}
	f.node.fleet.runAside(l, func() {
		s, ok := n.sessions.Current(key)
		switch {
		case !ok:
		case !reads:
			sessionView{s}.noteRevision(m.Rev)
		default:
			if err := (sessionView{s}).catchUpTo(m.Rev); err != nil && !errors.Is(err, store.ErrNotFound) {
				sessionView{s}.noteRevision(m.Rev)
				replyTo(l, tryAgain, nil)
				return
			}
		}
		replyTo(l, done, nil)
	})
}

// receiveEnded takes the news that a session has ended. Clocks differ: a node judges by itself
// whether a session has expired.
func (f *nodeNews) receiveEnded(l *store.Letter) {
	n := f.node
	var m sessionLetter
	if !n.fleet.readLetter(l, &m) {
		return
	}
	key := m.Session
	if st, ok := n.streams.Get(StreamKey{key, m.Old}); ok && !m.Expired { // its session may not be in memory
		st.endStream()
	}
	if !m.Expired {
		n.anchors.leave(key, m.Anchor, false)
	}
	begins := n.sessions.Begins(key) // first, as in receiveChanged
	s, here := n.sessions.Get(key)
	if !here && !begins {
		replyTo(l, done, nil)
		return
	}
	if here {
		s.asOf.Store(doubted) // should there be no place to end it now
	}
	f.node.fleet.runAside(l, func() { // it goes through all streams
		switch s, ok := n.sessions.Current(key); {
		case ok && m.Expired:
			_ = s.Post(idleTick{})
		case ok:
			sessionEnd{s}.endWithoutRecord()
		}
		replyTo(l, done, nil)
	})
}

// receiveCancel cancels a call that runs here, or that comes here soon.
func (f *nodeNews) receiveCancel(l *store.Letter) {
	var m cancelLetter
	if !f.node.fleet.readLetter(l, &m) {
		return
	}
	f.node.sessions.cancelLate(m.Session, m.Request, m.Reason)
}

// OperatorEnd is what an operator ends on all nodes.
type OperatorEnd struct {
	// Tenants are those whose sessions, calls and listeners end.
	Tenants []string `json:",omitempty"`
	// Calls is the session whose calls end.
	Calls SessionKey `json:",omitzero"`
}

func (*OperatorEnd) short() {}

// mostTenants bounds the tenants in a letter.
const mostTenants = 64

// EndWait bounds how long a node takes to end what an operator has ended on another one.
const EndWait = 5 * time.Second

// receiveEnd ends what an operator has ended on another node, and answers when that is done.
func (f *nodeNews) receiveEnd(l *store.Letter) {
	var e OperatorEnd
	if !f.node.fleet.readLetter(l, &e) {
		return
	}
	if f.above == nil {
		replyTo(l, tryAgain, nil)
		return
	}
	e.Tenants = e.Tenants[:min(len(e.Tenants), mostTenants)]
	f.node.fleet.runAside(l, func() {
		ctx, cancel := context.WithTimeout(f.node.base, EndWait)
		defer cancel()
		status := done
		if f.above.EndHere(ctx, &e) != nil {
			status = tryAgain
		}
		replyTo(l, status, nil)
	})
}

// Types lists what nodes encode and decode as JSON: the records of sessions and streams, the states
// of stateless calls, and the letters between nodes. A node of a fleet has their codecs compiled
// before its first request.
func Types() []reflect.Type {
	return []reflect.Type{
		reflect.TypeFor[session.Record](), reflect.TypeFor[record.Stream](), reflect.TypeFor[mrtr.State](),
		reflect.TypeFor[forwardHead](), reflect.TypeFor[refusal.Refusal](),
		reflect.TypeFor[answerLetter](), reflect.TypeFor[streamLetter](), reflect.TypeFor[extentLetter](),
		reflect.TypeFor[sessionLetter](), reflect.TypeFor[cancelLetter](), reflect.TypeFor[pushLetter](),
		reflect.TypeFor[updatedLetter](), reflect.TypeFor[listsLetter](), reflect.TypeFor[usageLetter](), reflect.TypeFor[TaskChange](), reflect.TypeFor[OperatorEnd](),
	}
}
