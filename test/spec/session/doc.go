// Package session tests sessions over the wire: the lifecycle and its handshakes, what each revision is given of one
// answer, what keeps a session and what ends it, pings, ids of requests, and whose session it is. It tests, too, what a
// server asks of the client of a session (elicitation, sampling, roots), and how clients hear of changes: resource
// subscriptions, changed lists, and subscriptions/listen.
package session
