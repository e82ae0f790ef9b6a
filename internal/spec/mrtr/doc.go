// Package mrtr tests multi-round-trip requests (2026-07-28) over the wire: a handler of a request without a session asks
// for input, the client sends the request again with its responses and the requestState, and the call goes on, also in
// another process.
package mrtr
