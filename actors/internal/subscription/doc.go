// Package subscription knows which sessions and listeners of one process want updates of which
// resource. Each resource of a server with a subscriber has an actor. The actor gathers updates
// that come soon after one another, and ends with its last subscriber. Package actors says what
// a subscriber is, and how an update gets to its client.
//
//	Table ──Follow─────▶ subscription ──Wants──▶ Subscriber
//	      ──SendUpdate─▶              ──Push───▶
package subscription
