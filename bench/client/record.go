package client

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Position is a parsed event id of this server.
type Position struct {
	Stream string
	Append uint64
	Entry  int
}

// ParseID parses an event id.
func ParseID(id string) (Position, error) {
	p := strings.Split(id, ".")
	if len(p) == 3 {
		a, err1 := strconv.ParseUint(p[1], 10, 63)
		k, err2 := strconv.Atoi(p[2])
		if err1 == nil && err2 == nil && p[0] != "" {
			return Position{p[0], a, k}, nil
		}
	}
	return Position{}, fmt.Errorf("%q is not an event id", id)
}

// Compare orders the positions of one stream.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Append, q.Append), cmp.Compare(p.Entry, q.Entry))
}

// Event is one server-sent event.
type Event struct {
	Name  string // "" for most: only HTTP+SSE names its events
	ID    string
	Retry int    // milliseconds, 0 if absent
	Data  string // "" for a priming event
}

// Record has all received events of one stream, connection by connection.
type Record struct {
	Stream string

	mu    sync.Mutex // guards conns and what they hold
	conns []*Connection
}

// Connection has the events that came over one connection of a stream.
type Connection struct {
	Op     string // POST, or GET
	From   string // the Last-Event-ID it was resumed with, "" if it began the stream
	Events []Event
	End    string // how it ended, "" if it has not

	r *Record
}

func (r *Record) addConnection(op, from string) *Connection {
	c := &Connection{Op: op, From: from, r: r}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns = append(r.conns, c)
	return c
}

func (c *Connection) addEvent(e Event) {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	c.Events = append(c.Events, e)
}

func (c *Connection) noteEnd(how string) {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	c.End = how
}

// Connections returns a copy of what came over each connection, oldest first.
func (r *Record) Connections() []Connection {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Connection, len(r.conns))
	for i, c := range r.conns {
		all[i] = *c
		all[i].Events = slices.Clone(c.Events)
	}
	return all
}

// MergeEvents joins the connections into the one sequence of events that each must be a
// part of. It fails on two payloads under one id, ids that do not rise, events of
// another stream, or a connection without an event that another one got.
func (r *Record) MergeEvents() ([]Event, error) {
	conns := r.Connections()
	for i := range conns {
		// A resumed connection names its place: the id it came with, without data, and nothing
		// is delivered by that. One that was held does so again when it is let go on.
		for c := &conns[i]; len(c.Events) > 0 && c.From != "" && c.Events[0].ID == c.From && len(c.Events[0].Data) == 0; {
			c.Events = c.Events[1:]
		}
	}
	var all []Event
	at := make(map[Position]string)
	for _, c := range conns {
		last := Position{Stream: r.Stream}
		first := c.From == ""
		if !first {
			p, err := ParseID(c.From)
			if err != nil {
				return nil, err
			}
			last = p
		}
		for _, e := range c.Events {
			p, err := ParseID(e.ID)
			switch {
			case err != nil:
				return nil, err
			case p.Stream != r.Stream || last.Stream != r.Stream:
				return nil, fmt.Errorf("event %s came on a connection of stream %s", e.ID, r.Stream)
			case !first && p.Compare(last) <= 0:
				return nil, fmt.Errorf("event %s came after %d.%d", e.ID, last.Append, last.Entry)
			}
			had, ok := at[p]
			if ok && had != e.Data {
				return nil, fmt.Errorf("event %s came with two payloads: %s and %s", e.ID, had, e.Data)
			}
			if !ok {
				at[p] = e.Data
				all = append(all, e)
			}
			last, first = p, false
		}
	}
	slices.SortFunc(all, func(a, b Event) int {
		p, _ := ParseID(a.ID)
		q, _ := ParseID(b.ID)
		return p.Compare(q)
	})
	for i, c := range conns {
		if err := checkGaps(c, all); err != nil {
			return nil, fmt.Errorf("connection %d: %w", i+1, err)
		}
	}
	return all, nil
}

// checkGaps checks that a connection got what follows its beginning, without a gap.
func checkGaps(c Connection, all []Event) error {
	next := 0
	if c.From != "" {
		i := slices.IndexFunc(all, func(e Event) bool { return e.ID == c.From })
		if i < 0 {
			return fmt.Errorf("resumed from %s, which never came", c.From)
		}
		next = i + 1
	}
	for _, e := range c.Events {
		if next >= len(all) || all[next].ID != e.ID {
			return fmt.Errorf("got %s where %s follows", e.ID, all[next].ID)
		}
		next++
	}
	return nil
}

// shown is how many events String writes from each end of a connection.
const shown = 12

// String writes the record for a person to read.
func (r *Record) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "stream %s\n", r.Stream)
	for i, c := range r.Connections() {
		fmt.Fprintf(&b, "  connection %d: %s", i+1, c.Op)
		if c.From != "" {
			fmt.Fprintf(&b, " after %s", c.From)
		}
		end := c.End
		if end == "" {
			end = "open, or closed by the client"
		}
		fmt.Fprintf(&b, ", %d events, %s\n", len(c.Events), end)
		for i, e := range c.Events {
			if i == shown && len(c.Events) > 2*shown {
				fmt.Fprintf(&b, "    and %d more, and then\n", len(c.Events)-2*shown)
			}
			if i < shown || i >= len(c.Events)-shown {
				fmt.Fprintf(&b, "    %s %s\n", strings.TrimPrefix(e.ID, r.Stream), e.Data)
			}
		}
	}
	return b.String()
}
