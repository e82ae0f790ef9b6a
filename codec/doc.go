// Package codec reads and writes the JSON-RPC envelopes of MCP without copying them, and encodes and decodes
// payloads through sonic, or through json/v2 where sonic has no native path; payloads without a type it decodes itself.
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
// The build decides which library does that. sonic, which compiles machine code for each type at run time, has native
// paths for amd64 and arm64 and for the Go releases that the build constraint of path_native.go names. Elsewhere, and
// with the build tag troupe_nosonic, it is json/v2, at two to seven times the processor time for a payload of a type. [Path]
// says which. They differ in the following, and a test holds them to the rest:
//
//   - json/v2 refuses a member that comes twice, with [ErrDuplicate], where it decodes into a struct or map; to sonic the
//     last one counts, but of two objects or arrays it merges what they hold.
//   - A nil []byte in an interface is [] to sonic and "" to json/v2.
//   - A name in a tag that encoding/json does not allow counts to json/v2 up to the first such character; sonic takes the
//     field's own name.
//   - json/v2 writes \b and \f, and sonic \u0008 and \u000c.
//   - Of several values that do not fit they may report different ones, and json/v2 knows the offset of more.
//
// # Concurrency
//
// All functions may be called from any goroutine. A [Message] and a [Buffer] belong to one goroutine at a time. The
// spans of a Message are valid only as long as the bytes that it was scanned from.
//
// # Not the public API
//
// This package is a part of Troupe that its own packages share. Programs use the root
// package, troupe, and package mcp: its exported names may change in any release, without
// a word in the changelog.
package codec
