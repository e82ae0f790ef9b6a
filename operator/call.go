package operator

import "time"

// CallStates are what a list of calls may be restricted to; "" means all.
//
//   - running: nothing of a response has been sent
//   - streaming: the response is a stream
//   - waiting: the client was asked, and is to send the request again (2026-07-28)
var CallStates = []string{"running", "streaming", "waiting"}

// CallPage is a list of calls.
type CallPage struct {
	Calls []Call `json:"calls"`
	// More is how many others there are.
	More int `json:"more,omitempty"`
}

// Call is what is told of a call in flight.
type Call struct {
	ID        string    `json:"id"` // at its node, until that ends
	Node      string    `json:"node"`
	State     string    `json:"state"`
	Method    string    `json:"method"`
	Target    string    `json:"target,omitempty"`    // the name of the tool or prompt, or the URI of the resource
	Server    string    `json:"server"`              // the path where it is mounted, or its id
	Session   string    `json:"session,omitempty"`   // # and 12 digits; "" for a stateless call
	Tenant    string    `json:"tenant"`              // a hash of the principal; anon for all anonymous clients
	Principal string    `json:"principal,omitempty"` // "" for an anonymous client
	Address   string    `json:"address,omitempty"`   // of its client, with the port; "" if there is none
	Revision  string    `json:"revision,omitempty"`
	Client    string    `json:"client,omitempty"` // its name and version, as it says
	Trace     string    `json:"trace,omitempty"`  // the id of its trace; "" if there is none
	Attempt   int       `json:"attempt"`          // above 1 for a call that runs again
	Began     time.Time `json:"began"`
}
