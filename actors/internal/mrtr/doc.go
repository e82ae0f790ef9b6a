// Package mrtr has the parts of multi-round-trip requests (2026-07-28,
// basic/patterns/mrtr): the state that a client carries from one round to the next, the
// questions and answers of a call, and the outcomes of earlier rounds.
//
// Nothing here knows the call. Package actors decides how it waits and how a request finds
// it again.
package mrtr
