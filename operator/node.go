package operator

import "time"

// The states of a lease.
const (
	LeaseHeld = "held"
	LeaseLate = "late" // not renewed in time: others take its streams over once its entry is gone
	LeaseGone = "gone"
)

// Node is what is known of a boot of a node.
type Node struct {
	Name    string     `json:"name"`
	Boot    string     `json:"boot"`
	Self    bool       `json:"self,omitempty"`
	HeardMS *int64     `json:"heardMs,omitempty"` // how long ago; absent for a node that was not heard
	Lease   string     `json:"lease"`
	LeftMS  *int64     `json:"leftMs,omitempty"` // of the lease, below 0 for one that is late; absent where that is not known
	Since   *time.Time `json:"since,omitempty"`
	Servers []string   `json:"servers,omitempty"` // their ids
	Load    *Load      `json:"load,omitempty"`    // absent for a node that does not say
}

// Load is what a node says of itself.
type Load struct {
	Release  string `json:"release"`
	Draining bool   `json:"draining"`
	Calls    int    `json:"calls"`    // in flight
	Streams  int    `json:"streams"`  // that it writes
	Sessions int    `json:"sessions"` // in its memory
}

// Draining is how far a node is with its end.
type Draining struct {
	Node        string `json:"node"`
	Boot        string `json:"boot"`
	Draining    bool   `json:"draining"`
	Calls       int    `json:"calls"`       // in flight
	Streams     int    `json:"streams"`     // that it writes
	Connections int    `json:"connections"` // of event streams
}
