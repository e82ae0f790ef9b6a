package admin

import (
	"context"
	"errors"
	"time"
)

// ErrDraining reports that a node ends already.
var ErrDraining = errors.New("the node is draining already")

// Fleet is a node among those that share its store.
type Fleet interface {
	// Nodes lists the nodes, with this one.
	Nodes(ctx context.Context) ([]Node, error)
	// Drain begins to end this node in order, as SIGTERM does, and returns how far that is. ErrDraining: it ends already.
	Drain(ctx context.Context) (Draining, error)
	// Draining returns what this node still has to do.
	Draining(ctx context.Context) (Draining, error)
}

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
