// Package attachment has the reading side of an event stream: an [Attachment] is one connection
// to a client, and how far that has read. It passes frames of the stream's writer on strictly
// n+1 after n, primes the client with an event id to come back with, and says how long to wait
// before that. It neither stores nor reads anything: the writer hands it frames, and a
// resume hands it what the log has.
//
// A resumed connection is attached to the writer first, so that it misses nothing, and then
// reads the log:
//
//	Open ──▶ WriteReplayed ... ──▶ CatchUp ──▶ live: each Frame goes to the connection
//	              ▲                   │ again: frames were dropped meanwhile
//	              └───────────────────┘
//
// A connection of a new stream is live from the beginning. [Flow] is what the writer knows of a reader on another node.
package attachment
