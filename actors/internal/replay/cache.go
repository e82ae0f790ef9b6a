package replay

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors/internal/stream"
)

// appendCost and entryCost are about what an append and an entry of it take in memory beside their data.
const (
	appendCost = 128
	entryCost  = 64
)

// Cache has the appends that were stored a moment ago, by the path of their stream, so that clients that lost their connection
// and come back at once need no read of the log. Of each stream it has the last appends, without a gap. Beyond a number of
// bytes the oldest of all go. What it returns is shared: nobody may change it. Its methods are safe for concurrent use; make it
// with NewCache.
//
// It knows nothing of other writers. Who reads it must know that the stream has had no other one since.
type Cache struct {
	most int64

	mu    sync.Mutex // guards the rest
	runs  map[string]*run
	order []place // of the appends, oldest first; those before head, and some others, are gone
	head  int
	bytes int64
	reads int64 // appends that were read
}

// run is what the cache has of one stream.
type run struct {
	path    string
	appends []fresh
}

// fresh is an append, and until when it is to be had.
type fresh struct {
	stream.Append
	until time.Time
}

type place struct {
	run *run
	num uint64
}

// NewCache returns a cache of at most so many bytes. With none it keeps nothing.
func NewCache(most int64) *Cache { return &Cache{most: most, runs: make(map[string]*run)} }

// Keep takes the append that was just stored as the next one of a stream whose log has nothing before append low. It is to be had until then.
func (c *Cache) Keep(path string, a stream.Append, low uint64, until time.Time) {
	size := sizeOf(&a)
	if size <= c.most {
		a.Entries = clipEntries(a.Entries)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.runs[path]
	if r != nil && a.Num != r.last()+1 {
		c.dropRun(r)
		r = nil
	}
	if size > c.most {
		return
	}
	if r == nil {
		r = &run{path: path}
		c.runs[path] = r
	}
	r.appends = append(r.appends, fresh{a, until})
	c.order = append(c.order, place{r, a.Num})
	for c.bytes += size; len(r.appends) > 0 && r.first() < low; {
		c.dropFirst(r)
	}
	for c.bytes > c.most {
		c.evictOldest()
	}
}

// Read returns the appends from..to of a stream if it has all of them.
func (c *Cache) Read(path string, from, to uint64, now time.Time) ([]stream.Append, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.runs[path]
	if r == nil || from < r.first() || to > r.last() || from > to {
		return nil, false
	}
	found := make([]stream.Append, 0, to-from+1)
	for _, a := range r.appends[from-r.first() : to-r.first()+1] {
		if !a.until.After(now) {
			return nil, false
		}
		found = append(found, a.Append)
	}
	c.reads += int64(len(found))
	return found, true
}

// EndOf returns the number of a stream's last append if it has that, and the stream has ended with it.
func (c *Cache) EndOf(path string, now time.Time) (num uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.runs[path]
	if r == nil {
		return 0, false
	}
	last := r.appends[len(r.appends)-1]
	return last.Num, last.Last && last.until.After(now)
}

// DropStream forgets a stream.
func (c *Cache) DropStream(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.runs[path]; r != nil {
		c.dropRun(r)
	}
}

// Expire lets go of the appends whose time is over.
func (c *Cache) Expire(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.head < len(c.order) {
		if p := c.order[c.head]; p.there() && p.run.appends[0].until.After(now) {
			return
		}
		c.evictOldest()
	}
}

// Use returns how many bytes it has, and how many appends were read.
func (c *Cache) Use() (bytes, read int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes, c.reads
}

// evictOldest takes the first place of the order, and what is left of it. The lock is held, as in what follows.
func (c *Cache) evictOldest() {
	if p := c.order[c.head]; p.there() {
		c.dropFirst(p.run)
	}
	c.order[c.head] = place{}
	if c.head++; c.head > len(c.order)/2 {
		n := copy(c.order, c.order[c.head:])
		clear(c.order[n:])
		c.order, c.head = c.order[:n], 0
	}
	if len(c.order) == 0 {
		c.order = nil // of a busy time
	}
}

// dropFirst takes the oldest append of a run.
func (c *Cache) dropFirst(r *run) {
	c.bytes -= sizeOf(&r.appends[0].Append)
	r.appends[0] = fresh{}
	if r.appends = r.appends[1:]; len(r.appends) == 0 {
		c.dropRun(r)
	}
}

func (c *Cache) dropRun(r *run) {
	for i := range r.appends {
		c.bytes -= sizeOf(&r.appends[i].Append)
	}
	r.appends = nil
	delete(c.runs, r.path)
}

// there reports whether the append is still to be had: it is the oldest of its stream then, as places go in order.
func (p place) there() bool { return len(p.run.appends) > 0 && p.run.first() == p.num }

func (r *run) first() uint64 { return r.appends[0].Num }
func (r *run) last() uint64  { return r.appends[len(r.appends)-1].Num }

// clipEntries returns entries that keep no more memory than they have bytes: what is encoded piece by piece has room for as much again.
func clipEntries(entries []stream.Entry) []stream.Entry {
	own := slices.Clone(entries)
	for i := range own {
		if d := own[i].Data; cap(d)-len(d) > len(d)/8 {
			own[i].Data = bytes.Clone(d)
		}
	}
	return own
}

func sizeOf(a *stream.Append) int64 {
	n := appendCost
	for i := range a.Entries {
		n += entryCost + len(a.Entries[i].Meta) + len(a.Entries[i].Data)
	}
	return int64(n)
}
