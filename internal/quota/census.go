package quota

import (
	"sync"
	"time"
)

// RecountedAtOnce is how many entries [Census.Sweep] returns at most.
const RecountedAtOnce = 200

// Census counts things that clients have begun and that last, such as tasks that have not ended, by
// client. An entry has a note of its owner. It counts what this process knows of: the owner says
// when another process has begun or ended one, and [Census.Sweep] which ones to look at.
// [NewCensus] makes one; the zero value is not usable. The methods are safe for concurrent use.
type Census[K comparable, N any] struct {
	each, all int // how many there may be; 0 or less: any number

	mu      sync.Mutex // guards the fields below
	clients map[string]int
	entries map[K]*entry[N]
}

type entry[N any] struct {
	client  string
	expires int64 // milliseconds since 1970; 0: not known yet
	note    N
}

// NewCensus returns a Census of at most so many entries of each client, and of all; 0 or less is no
// limit.
func NewCensus[K comparable, N any](each, all int) *Census[K, N] {
	return &Census[K, N]{each: each, all: all, clients: make(map[string]int), entries: make(map[K]*entry[N])}
}

// RoomFor reports whether a client may have one more: if not, the answer is OverLimit or, where there
// are too many of all clients, Full.
func (c *Census[K, N]) RoomFor(client string) Refusal {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.roomLocked(client)
}

// roomLocked is RoomFor. mu is held.
func (c *Census[K, N]) roomLocked(client string) Refusal {
	switch {
	case c.each > 0 && c.clients[client] >= c.each:
		return OverLimit
	case c.all > 0 && len(c.entries) >= c.all:
		return Full
	}
	return Admitted
}

// Add counts a new entry, or says why there may be none, as RoomFor does.
func (c *Census[K, N]) Add(key K, client string, expires time.Time) Refusal {
	c.mu.Lock()
	defer c.mu.Unlock()
	no := c.roomLocked(client)
	if no == Admitted {
		c.dropEntry(key)
		c.putEntry(key, &entry[N]{client: client, expires: expires.UnixMilli()})
	}
	return no
}

// AddAnyway counts an entry that there is, whether there may be one more or not. The zero time is one
// that is not known yet.
func (c *Census[K, N]) AddAnyway(key K, client string, expires time.Time) {
	var at int64
	if !expires.IsZero() {
		at = expires.UnixMilli()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.entries[key]
	switch {
	case old == nil:
		c.putEntry(key, &entry[N]{client: client, expires: at})
	case old.expires == 0:
		c.dropEntry(key)
		old.client, old.expires = client, at
		c.putEntry(key, old)
	}
}

// putEntry counts an entry that is not counted. mu is held.
func (c *Census[K, N]) putEntry(key K, e *entry[N]) {
	c.entries[key] = e
	c.clients[e.client]++
}

// dropEntry counts an entry no more, if it is counted. mu is held.
func (c *Census[K, N]) dropEntry(key K) (note N) {
	e := c.entries[key]
	if e == nil {
		return note
	}
	delete(c.entries, key)
	if c.clients[e.client]--; c.clients[e.client] == 0 {
		delete(c.clients, e.client)
	}
	return e.note
}

// ChangeNote has the owner change the note of an entry that is counted. change must not block or use c.
func (c *Census[K, N]) ChangeNote(key K, change func(note *N)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[key]; e != nil {
		change(&e.note)
	}
}

// Remove counts an entry no more, and returns its note: the zero N if it was not counted.
func (c *Census[K, N]) Remove(key K) (note N) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dropEntry(key)
}

// Sweep drops what has expired. It returns at most [RecountedAtOnce] of the entries that another
// process may have ended: those whose expiry is not known, those of clients that have more than
// half of what they may, and all if that is true of all clients together.
func (c *Census[K, N]) Sweep(now time.Time) (doubtful []K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, e := range c.entries {
		switch {
		case e.expires != 0 && e.expires <= now.UnixMilli():
			c.dropEntry(key)
		case len(doubtful) < RecountedAtOnce && (e.expires == 0 || c.each > 0 && c.clients[e.client] > c.each/2 || c.all > 0 && len(c.entries) > c.all/2):
			doubtful = append(doubtful, key)
		}
	}
	return doubtful
}

// Counts is how many entries there are, and how many the client with most has.
func (c *Census[K, N]) Counts() (all, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.clients {
		most = max(most, n)
	}
	return len(c.entries), most
}
