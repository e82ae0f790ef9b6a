// Package stateless tests requests without a session (2026-07-28) over the wire: their headers and statuses, results,
// caching hints, log levels and limits. Requests that ask for input are in internal/spec/mrtr.
package stateless
