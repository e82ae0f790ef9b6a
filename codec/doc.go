// Package codec reads and writes the JSON-RPC envelopes of MCP without copying them, and encodes and decodes
// payloads through sonic.
//
// # Reading
//
// [Scan] classifies a message in one pass over its bytes and returns spans of them. What it accepts is strict JSON
// through and through (RFC 8259, UTF-8, no unpaired surrogate escapes, bounded depth), so [Field], [Members],
// [Elements], [Str], [SameString], [AppendCompact] and [UnmarshalValid] may walk any span it returned without checking again.
// Scan allocates nothing unless the message is refused or its method is written with escapes. [DecodeHeader] reads the
// headers in which clients repeat parts of a message.
//
// # Writing
//
// The Append functions splice raw members into an envelope. They never add a line break; the raw members they are
// given must be valid JSON and, where the framing is line based, must have gone through [AppendCompact].
//
// # Payloads
//
// [Marshal] and [Unmarshal] are what encoding/json would be with these differences: keys are matched exactly,
// numbers decoded into any keep their digits as json.Number, the characters <, > and & stay as they are, nil slices
// are written as [], a nil []byte as "" and nil maps as {}, map keys are sorted, and everything that is written is
// compact and UTF-8. Nothing that was decoded refers to the input, so the input may live in a pooled [Buffer].
//
// # Concurrency
//
// All functions may be called from any goroutine. A [Message] and a [Buffer] belong to one goroutine at a time, and
// the spans of a Message live only as long as the bytes it was scanned from.
//
// # Not the public API
//
// This package is a part of Troupe that its own packages share. Programs use the root
// package, troupe, and package mcp: what is exported here may change in any release, without
// a word in the changelog.
package codec
