// Package mrtr has what multi-round-trip requests (2026-07-28, basic/patterns/mrtr) are made
// of: the state that a client carries from one round to the next, what a call has asked
// for and been given, and what became of rounds whose answers came before.
//
//	state.go     State: for whom, for which request and until when the answers are good
//	input.go     Input: the questions of a call, by unique keys, and their answers
//	outcomes.go  Outcomes: what the answers of a round led to, for who lost the response
//	mutex.go     Mutex: held while a handler waits for its client
//
// Nothing here knows the call: how it waits, and is found again, is in package actors.
package mrtr
