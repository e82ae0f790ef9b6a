// Package request decides how a request is answered: plainly, or by a stream once the
// handler emits something or has run for the grace period; and what a cancel, a question
// to the client of a stateless request, a lost stream or the end of the node do to it. It
// is a pure function from phase and event to phase and actions, one for all requests. The
// request's actor carries the actions out over the request's delivery.
package request
