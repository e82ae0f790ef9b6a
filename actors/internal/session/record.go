package session

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/unknown"
)

// RecordVersion is the version of stored session records.
const RecordVersion = 1

// Record is the stored state of a session: what initialize settled, and what later requests
// changed. Any node serves any request from it.
type Record struct {
	Version      int                        `json:"v"`
	Revision     string                     `json:"revision"`
	Client       json.RawMessage            `json:"client,omitempty"`       // what is kept of clientInfo
	Capabilities json.RawMessage            `json:"capabilities,omitempty"` // what is kept of the client's capabilities
	Level        string                     `json:"level,omitempty"`        // of logging/setLevel; "" = never set
	Subscribed   []string                   `json:"subscribed,omitempty"`   // resource URIs, sorted
	Standalone   string                     `json:"standalone,omitempty"`   // id of the standalone stream
	Announced    string                     `json:"told,omitempty"`         // digest of the catalogues last announced
	Values       map[string]json.RawMessage `json:"values,omitempty"`       // of handlers; never changed in place, see SetValue
	Fresh        bool                       `json:"fresh,omitempty"`        // the client has sent nothing since initialize
	Anchor       Anchor                     `json:"anchor,omitzero"`        // the node that has what only one can have of the session
	Anchored     []string                   `json:"anchored,omitempty"`     // what that is, by the service's names; never changed in place
	Owed         []string                   `json:"owed,omitempty"`         // what an earlier anchor had of which it is not known yet whether it is lost; never changed in place
	Created      time.Time                  `json:"created"`
	Written      time.Time                  `json:"written"`
	Expires      time.Time                  `json:"expires"`

	// Unknown is what a newer release has stored beside that.
	Unknown unknown.Members `json:"-"`
}

// Anchor is the boot of a node. The zero value is none.
type Anchor struct {
	Node string `json:"node"`
	Boot string `json:"boot"`
}

// Decode reads a stored record.
func Decode(data []byte) (r Record, err error) {
	if err = codec.Unmarshal(data, &r); err == nil {
		r.Unknown = unknown.Of[Record](data)
	}
	return r, err
}

// Encode returns the record as it is stored.
func (r *Record) Encode() ([]byte, error) {
	data, err := codec.Marshal(r)
	if err != nil {
		return nil, err
	}
	return r.Unknown.Append(data), nil
}

// Size is about how many bytes of memory the record takes.
func (r *Record) Size() int64 {
	n := len(r.Client) + len(r.Capabilities) + len(r.Unknown)
	for _, uri := range r.Subscribed {
		n += len(uri)
	}
	for key, value := range r.Values {
		n += len(key) + len(value)
	}
	return int64(n)
}

// NewerVersion returns the version of a stored record if a newer release wrote it, and 0
// otherwise. It reads nothing else, as the form of the rest may have changed.
func NewerVersion(data []byte) int {
	var v struct {
		Version int `json:"v"`
	}
	if json.Unmarshal(data, &v) != nil || v.Version <= RecordVersion {
		return 0
	}
	return v.Version
}

// Lifetime bounds a session: Idle after its last activity, Absolute after its creation, and
// Fresh in place of Idle until its client sends something after initialize. A Fresh of 0, or of Idle
// and more, is none.
type Lifetime struct {
	Idle     time.Duration `option:"Store.SessionIdle"`
	Absolute time.Duration `option:"Store.SessionMax"`
	Fresh    time.Duration `option:"Store.SessionUnused"`
}

// idleLimit is how long a session is kept without activity.
func (l Lifetime) idleLimit(r *Record) time.Duration {
	if r.Fresh {
		return l.Fresh
	}
	return l.Idle
}

// New returns the record of a session created now.
func New(now time.Time, l Lifetime) Record {
	r := Record{Version: RecordVersion, Created: now, Fresh: 0 < l.Fresh && l.Fresh < l.Idle}
	r.touch(now, l)
	return r
}

func (r *Record) touch(now time.Time, l Lifetime) {
	r.Written = now
	r.Expires = now.Add(l.idleLimit(r))
	if end := r.Created.Add(l.Absolute); end.Before(r.Expires) {
		r.Expires = end
	}
}

// NoteHeard notes that the client has sent something since initialize; it reports whether that is new.
// The record must be touched then.
func (r *Record) NoteHeard() (first bool) {
	first, r.Fresh = r.Fresh, false
	return first
}

// Touched returns the record as it must be rewritten now.
func (r Record) Touched(now time.Time, l Lifetime) Record {
	r.Subscribed = slices.Clone(r.Subscribed)
	r.touch(now, l)
	return r
}

// RewriteDue reports whether activity now is worth a rewrite: at most one per quarter
// of the time without activity, so that an active session never expires.
func (r *Record) RewriteDue(now time.Time, l Lifetime) bool {
	return now.Sub(r.Written) > l.idleLimit(r)/4 && r.Expires.Before(r.Created.Add(l.Absolute))
}

// Expired reports whether the session has ended by its own clock.
func (r *Record) Expired(now time.Time) bool { return !now.Before(r.Expires) }

// Subscribe adds uri; it reports whether that changed anything.
func (r *Record) Subscribe(uri string) bool {
	i, found := slices.BinarySearch(r.Subscribed, uri)
	if found {
		return false
	}
	r.Subscribed = slices.Insert(slices.Clone(r.Subscribed), i, uri)
	return true
}

// Unsubscribe removes uri; it reports whether that changed anything.
func (r *Record) Unsubscribe(uri string) bool {
	i, found := slices.BinarySearch(r.Subscribed, uri)
	if !found {
		return false
	}
	r.Subscribed = slices.Delete(slices.Clone(r.Subscribed), i, i+1)
	return true
}
