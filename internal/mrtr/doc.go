// Package mrtr has the parts of multi-round-trip requests (2026-07-28,
// basic/patterns/mrtr): the state that a client carries from one round to the next, the
// questions and answers of a call, and the outcomes of earlier rounds.
//
// Nothing here knows the call. Package actors decides how it waits and how a request finds
// it again.
//
// # Files
//
// From the top; most of what a file uses lies in its own line or below:
//
//	state  State: for whom, for which request and until when the answers are good
//	responses  Responses: the answers that a request brings to the questions of its round
//	input  Input: the questions of a call, by unique keys, and their answers
//	outcomes  Outcomes: the responses that followed a round, for clients that lost them
//	mutex  Mutex: held while a handler waits for its client
package mrtr
