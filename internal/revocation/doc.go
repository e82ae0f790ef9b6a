// Package revocation keeps whose access tokens are refused, though they are good: those that were issued before an operator revoked their subject, their client or their API key, and all of a
// principal that is banned.
//
// # Records
//
// A revocation is a record of the store, under an id that says whom it is about: to revoke somebody again changes that record, and never weakens it. It goes by itself once no token can be left
// that was issued before, a ban when it is removed.
//
// # What other nodes know
//
// Each node has all revocations in memory, in a table that does not change and is replaced: a token costs one atomic load while nobody is revoked, and a look into a map or two otherwise. A node
// that shares its store asks twice a second what has changed since, which is one question while nothing has. What was deleted leaves a mark in the store for seconds; a node that could not ask
// for so long reads everything anew. While the store does not answer, a node keeps what it knew. One that has never heard of it refuses tokens as not verifiable.
//
// All methods may be called from any goroutine.
package revocation
