// Package session tests sessions over the wire: the lifecycle and its handshakes, what each revision is given of one
// answer, what keeps a session and what ends it, pings, ids of requests, and whose session it is.
package session
