// Package request decides how a request is answered: plainly, or by an event
// stream once the handler emits something or has run for the grace period. It
// is a pure function from phase and event to phase and actions; the request
// actor carries the actions out.
package request
