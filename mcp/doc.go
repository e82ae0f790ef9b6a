// Package mcp holds the protocol data of the Model Context Protocol: the types
// that travel as params, results and notifications, the revisions, the names of the
// methods, the capabilities of clients and the error codes. It does no I/O and
// starts no goroutine. How the revisions differ says internal/protocol.
//
// # Guarantees
//
// Request ids, progress tokens, the values in `_meta`, tool schemas, arguments and structured
// content keep the bytes that arrived (white space apart), and are sent as those
// bytes; the keys of `_meta` are sent in order. Every other member, cursors among them, comes back as the same JSON value.
// Members that the protocol does not define are kept in both capability sets, in
// `_meta` and in content blocks of an unknown type; elsewhere they are dropped.
//
// An optional member whose zero value means something (total 0, size 0, priority 0,
// hasMore false) is a pointer, and nil means absent. Only in [Task.TTL], which is
// required, nil is the explicit null of the protocol. An optional string, list or map
// that is empty counts as absent, and so does a boolean that defaults to false.
//
// The types are plain structs with json tags and encode with any encoder that honours
// them. Production uses package codec: it writes a nil slice as [] (encoding/json
// writes null, which a required list must not be) and matches member names by case.
// Only unions have their own methods for encoding or decoding, and encoding a
// [CallToolResult] uses none of them.
//
// # Concurrency
//
// The tables never change after package initialization and may be read from any
// goroutine. Values are ordinary data: no goroutine may write one that several read.
// Byte slices inside decoded values are never shared with the input.
package mcp
