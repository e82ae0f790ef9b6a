// Package request decides how a request gets its response: plainly, or on a stream once the
// handler emits something or has run for the grace. It also decides what a cancel, a
// question to the client of a stateless request, a lost stream or the end of the node do to
// the request. One pure function maps phase and event to phase and actions, for all
// requests. The request's actor carries the actions out over the request's delivery.
package request
