// Package stateless tests requests without a session (2026-07-28) over the wire: their headers and statuses, results,
// caching hints, log levels and limits, and multi-round-trip requests (mrtr_*). There a handler asks for input, the client
// sends the request again with its responses and the requestState, and the call goes on, also in another process.
package stateless
