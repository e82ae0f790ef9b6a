// Package codec reads and writes the JSON-RPC envelopes of MCP without copying them, and encodes and decodes
// payloads through sonic; payloads without a type it decodes itself.
//
// # Reading
//
// [Scan] classifies a message in one pass over its bytes and returns spans of them. It accepts only strict JSON (RFC
// 8259, UTF-8, no unpaired surrogate escapes, bounded depth). So [Field], [Members], [Elements], [Str], [SameString],
// [AppendCompact] and [UnmarshalValid] may walk any span it returned without another check. Scan allocates nothing
// unless it refuses the message or the method is written with escapes. [DecodeHeader] reads the headers in which
// clients repeat parts of a message.
//
// # Writing
//
// The Append functions splice raw members into an envelope. They never add a line break. The raw members must be valid
// JSON; where messages are lines, [AppendCompact] must have removed their line breaks.
//
// # Payloads
//
// [Marshal] and [Unmarshal] differ from encoding/json in the following. Keys are matched exactly. Numbers decoded into
// any keep their digits as json.Number. The characters <, > and & stay as they are. Nil slices are written as [], a nil
// []byte as "" and nil maps as {}. Map keys are sorted. The output is compact and UTF-8. Decoded values never refer to
// the input, so the input may live in a pooled [Buffer].
//
// # Concurrency
//
// All functions may be called from any goroutine. A [Message] and a [Buffer] belong to one goroutine at a time. The
// spans of a Message are valid only as long as the bytes that it was scanned from.
//
// # Files
//
// The files from the top; most of the names that a file uses are in its own line or below:
//
//	payload tree append integer headervalue canonical  values and how they are read and written
//	scan envelope walk mismatch  messages and how they are read
//	buffer bytes text lexer plan message  shared by both
//
// # Not the public API
//
// This package is a part of Troupe that its own packages share. Programs use the root
// package, troupe, and package mcp: its exported names may change in any release, without
// a word in the changelog.
package codec
