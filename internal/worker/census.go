package worker

import (
	"errors"
	"sync"
	"time"
)

// The errors of a Pool that has as many tasks as it may. None was made.
var (
	// ErrTooMany reports that too many tasks of the principal have not ended.
	ErrTooMany = errors.New("worker: too many tasks of this principal have not ended")
	// ErrFull reports that too many tasks of the node have not ended.
	ErrFull = errors.New("worker: too many tasks of this node have not ended")
)

// recounted is how many tasks are read at a time to see whether they have ended.
const recounted = 200

// census counts the tasks that have not ended, by principal: those that this process has made or been given, and has not seen end. It
// is exact for a process that has its store alone, but for tasks of earlier processes that wait for their clients.
type census struct {
	each, all int // how many there may be; 0 or less: as many as come

	mu    sync.Mutex // guards the fields below
	of    map[string]int
	tasks map[Key]counted
}

// counted is a task that has not ended.
type counted struct {
	who     string
	of      Charge // the last, if something was charged
	expires int64  // milliseconds since 1970; 0: not known yet

	// Bytes that this process has charged and gives back early.
	atEnd, atCancellation int
}

func newCensus(each, all int) *census {
	return &census{each: each, all: all, of: make(map[string]int), tasks: make(map[Key]counted)}
}

// room reports whether a principal may have one more task. mu is held.
func (c *census) room(who string) error {
	switch {
	case c.each > 0 && c.of[who] >= c.each:
		return ErrTooMany
	case c.all > 0 && len(c.tasks) >= c.all:
		return ErrFull
	}
	return nil
}

// add counts a new task, or says why there may be none.
func (c *census) add(key Key, who string, expires time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.room(who)
	if err == nil {
		c.put(key, counted{who: who, expires: expires.UnixMilli()})
	}
	return err
}

// see counts a task that there is, whether there may be one more or not.
func (c *census) see(key Key, who string, expires int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.tasks[key]; !ok || old.expires == 0 {
		old.who, old.expires = who, expires
		c.put(key, old)
	}
}

// put counts a task once. mu is held.
func (c *census) put(key Key, n counted) {
	c.drop(key)
	c.tasks[key] = n
	c.of[n.who]++
}

// stored notes bytes of a task that were charged. What is not counted any more has ended, or expired: its bytes are given back with time.
func (c *census) stored(key Key, of Charge, back giveBack) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, ok := c.tasks[key]
	if !ok || back == atExpiry {
		return
	}
	n.of = of
	if back == atEnd {
		n.atEnd += of.Bytes
	} else {
		n.atCancellation += of.Bytes
	}
	c.tasks[key] = n
}

// drop counts a task no more. mu is held.
func (c *census) drop(key Key) (n counted) {
	n, ok := c.tasks[key]
	if !ok {
		return n
	}
	delete(c.tasks, key)
	if c.of[n.who]--; c.of[n.who] == 0 {
		delete(c.of, n.who)
	}
	return n
}

// ended counts a task no more, and returns what was known of it.
func (c *census) ended(key Key) counted {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.drop(key)
}

// sweep drops what has expired, and returns some of the tasks whose end another process may have stored: those that were not read yet, those
// of principals that have more than half of what they may, and all if that is true of the node.
func (c *census) sweep(now time.Time) (doubtful []Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, n := range c.tasks {
		switch {
		case n.expires != 0 && n.expires <= now.UnixMilli():
			c.drop(key)
		case len(doubtful) < recounted && (n.expires == 0 || c.each > 0 && c.of[n.who] > c.each/2 || c.all > 0 && len(c.tasks) > c.all/2):
			doubtful = append(doubtful, key)
		}
	}
	return doubtful
}
