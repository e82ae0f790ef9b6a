package operator

import "time"

// SessionPage is a part of a list.
type SessionPage struct {
	Sessions []Session `json:"sessions"`
	Next     uint64    `json:"next,omitempty"` // 0: there are no more
}

// Session is what is told of a session. Its id is a credential of its client: no more than the tag of it is told that logs have.
type Session struct {
	ID       string    `json:"id"`     // # and 12 digits
	Server   string    `json:"server"` // the path where it is mounted, or its id
	Tenant   string    `json:"tenant"` // a hash of the principal; anon for all anonymous clients
	Revision string    `json:"revision"`
	Client   string    `json:"client,omitempty"` // its name and version, as it says
	Created  time.Time `json:"created"`
	Used     time.Time `json:"used"` // about: activity is noted once in a quarter of the time for which an unused session is kept
	Expires  time.Time `json:"expires"`

	Streams    []Stream `json:"streams"`    // at most 100 of them
	AllStreams int      `json:"allStreams"` // in the store: those whose calls have ended are kept for a while
	Subscribed int      `json:"subscribed"` // resources
}

// Stream is an event stream of a session.
type Stream struct {
	ID         string   `json:"id"`      // # and 12 digits
	Node       string   `json:"node"`    // that writes it, or wrote it last
	Boot       string   `json:"boot"`    // of that node
	Methods    []string `json:"methods"` // of the calls whose responses it has; none for a standalone stream
	Standalone bool     `json:"standalone,omitempty"`
}
