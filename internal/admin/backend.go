package admin

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// ErrNoBackend reports that the node has no backend of that name.
var ErrNoBackend = errors.New("there is no such backend at this node")

// Backends are the servers of others that a node runs. Each node has its own. Secrets are masked in all that is told of them.
type Backends interface {
	// Backends lists all, in the order of the configuration.
	Backends(ctx context.Context) ([]Backend, error)
	// Backend returns one by its name. ErrNoBackend.
	Backend(ctx context.Context, name string) (BackendDetail, error)
	// BackendLog returns the last lines of a backend, or those behind from, which is the Next of another answer. ErrNoBackend.
	BackendLog(ctx context.Context, name, from string) (BackendLog, error)
	// RestartBackend has new instances take the place of those of a backend. The old ones end when their calls have, or at once.
	// ErrNoBackend.
	RestartBackend(ctx context.Context, name string, atOnce bool) (BackendRestart, error)
}

// The states of a backend.
const (
	BackendRunning  = "running"  // an instance of it can serve
	BackendStarting = "starting" // the first one starts
	BackendDown     = "down"     // the last one has failed, and none runs
	BackendStopped  = "stopped"  // none runs, as nobody needs one
	BackendWrong    = "wrong"    // it is left out, as its configuration cannot be used
)

// Backend is what is told of a backend.
type Backend struct {
	Name      string   `json:"name"` // with the id of its server and a slash in front, unless that is the main one
	Target    string   `json:"target"`
	Era       string   `json:"era"`                 // legacy, modern or both; "unknown" until it has started once
	Revisions []string `json:"revisions,omitempty"` // that its instances speak, as far as it is known
	State     string   `json:"state"`
	// Wrong is why its configuration cannot be used, "" if it can. With another State than wrong it goes on as it was configured before.
	Wrong string `json:"wrong,omitempty"`
	// Reason is why it is down, and Retry when it is tried again, if somebody wants it by then. Refused says that calls are refused
	// until then: the breaker is open.
	Reason      string          `json:"reason,omitempty"`
	Retry       *time.Time      `json:"retry,omitempty"`
	Refused     bool            `json:"refused,omitempty"`
	Instances   InstanceCounts  `json:"instances"`
	Waiting     int             `json:"waiting"`          // calls that have no instance yet
	Memory      int64           `json:"memory,omitempty"` // bytes that its processes have; absent where nobody knows
	LastFailure *BackendFailure `json:"lastFailure,omitempty"`
}

// InstanceCounts are how many instances there are in each state, and how many there may be, 0 for any number.
type InstanceCounts struct {
	Starting int `json:"starting"`
	Idle     int `json:"idle"`
	Serving  int `json:"serving"`
	Stopping int `json:"stopping"`
	Max      int `json:"max,omitempty"`
}

// BackendFailure is what went wrong with an instance.
type BackendFailure struct {
	Time time.Time `json:"time"`
	Text string    `json:"text"`
}

// BackendDetail is all that is told of a backend.
type BackendDetail struct {
	Backend
	Options []string          `json:"options"`         // in force, each as a line of the section backends
	Lists   *BackendLists     `json:"lists,omitempty"` // absent until it has listed
	Running []BackendInstance `json:"running"`         // its instances, the oldest first
	Ended   []BackendEnd      `json:"ended"`           // the last of them, the oldest first
}

// BackendLists is how much a backend lists, also of what is not offered to clients.
type BackendLists struct {
	Tools     int `json:"tools"`
	Prompts   int `json:"prompts"`
	Resources int `json:"resources"`
	Templates int `json:"templates"`
}

// BackendInstance is what is told of an instance.
type BackendInstance struct {
	PID     int       `json:"pid,omitempty"`     // absent for what is no process
	State   string    `json:"state"`             // starting, idle, serving or stopping
	Ends    bool      `json:"ends,omitempty"`    // it gets no more calls
	Holder  string    `json:"holder"`            // whose it is: session, principal, call, all or nobody
	Session string    `json:"session,omitempty"` // # and 12 digits
	Tenant  string    `json:"tenant,omitempty"`  // a hash of the principal; anon for all anonymous clients
	Since   time.Time `json:"since"`
	Calls   int       `json:"calls"` // in flight
	Memory  int64     `json:"memory,omitempty"`
}

// BackendEnd is how an instance has ended.
type BackendEnd struct {
	Time    time.Time `json:"time"`
	PID     int       `json:"pid,omitempty"`
	Reason  string    `json:"reason"`
	LivedMS int64     `json:"livedMs"`
	Status  string    `json:"status,omitempty"` // with the last lines of its standard error
}

// BackendLog is a part of the journal of a backend.
type BackendLog struct {
	Lines  []BackendLine `json:"lines"`
	Missed int           `json:"missed,omitempty"` // lines that were dropped before they could be read
	Next   string        `json:"next"`
}

// BackendLine is a line that an instance has written to its standard error, or says what became of one.
type BackendLine struct {
	Time   time.Time `json:"time"`
	PID    int       `json:"pid,omitempty"`
	Stderr bool      `json:"stderr,omitempty"`
	Text   string    `json:"text"`
}

// BackendRestart is what a restart has done.
type BackendRestart struct {
	Ended    int    `json:"ended"`              // instances that end at once
	Ending   int    `json:"ending"`             // instances that end when their calls have
	Calls    int    `json:"calls"`              // that those serve, or that those which end at once served
	Failures int    `json:"failures,omitempty"` // in a row, which are forgotten
	Refused  bool   `json:"refused,omitempty"`  // calls were refused because of them
	Reason   string `json:"reason,omitempty"`   // the last of them
}

// handleBackends answers the requests about backends.
func handleBackends(mux *http.ServeMux, b Backends) {
	mux.HandleFunc("GET /backends", func(w http.ResponseWriter, r *http.Request) {
		all, err := b.Backends(r.Context())
		answer(w, all, err)
	})
	mux.HandleFunc("GET /backends/{name}", func(w http.ResponseWriter, r *http.Request) {
		d, err := b.Backend(r.Context(), r.PathValue("name"))
		answer(w, d, err)
	})
	mux.HandleFunc("GET /backends/{name}/log", func(w http.ResponseWriter, r *http.Request) {
		l, err := b.BackendLog(r.Context(), r.PathValue("name"), r.URL.Query().Get("from"))
		answer(w, l, err)
	})
	mux.HandleFunc("POST /backends/{name}/restart", func(w http.ResponseWriter, r *http.Request) {
		did, err := b.RestartBackend(r.Context(), r.PathValue("name"), r.URL.Query().Get("now") == "true")
		answer(w, did, err)
	})
}

// backends asks a node for its backends.
type backends struct{ c *Client }

// HostedBackends returns the backends of the node.
func (c *Client) HostedBackends() Backends { return backends{c} }

// Backends implements [Backends].
func (b backends) Backends(ctx context.Context) (all []Backend, err error) {
	err = b.c.do(ctx, http.MethodGet, "/backends", &all)
	return all, err
}

// Backend implements [Backends].
func (b backends) Backend(ctx context.Context, name string) (d BackendDetail, err error) {
	if isNoName(name) {
		return d, ErrNoBackend
	}
	err = b.c.do(ctx, http.MethodGet, "/backends/"+url.PathEscape(name), &d)
	return d, err
}

// BackendLog implements [Backends].
func (b backends) BackendLog(ctx context.Context, name, from string) (l BackendLog, err error) {
	if isNoName(name) {
		return l, ErrNoBackend
	}
	err = b.c.do(ctx, http.MethodGet, "/backends/"+url.PathEscape(name)+"/log?from="+url.QueryEscape(from), &l)
	return l, err
}

// RestartBackend implements [Backends].
func (b backends) RestartBackend(ctx context.Context, name string, atOnce bool) (did BackendRestart, err error) {
	if isNoName(name) {
		return did, ErrNoBackend
	}
	err = b.c.do(ctx, http.MethodPost, "/backends/"+url.PathEscape(name)+"/restart?now="+strconv.FormatBool(atOnce), &did)
	return did, err
}
