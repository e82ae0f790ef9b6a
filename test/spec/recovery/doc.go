// Package recovery tests over the wire what sessions, streams and calls are after a crash of their process, and how a
// process ends in good order.
package recovery
