// Package mcp holds the protocol data of the Model Context Protocol: the types
// that travel as params, results and notifications, the revisions, the method
// table, the capability table and the table of error codes. It does no I/O and
// starts no goroutine.
//
// # Guarantees
//
// Request ids, progress tokens, `_meta`, tool schemas, arguments and structured
// content are kept as the bytes that arrived (white space apart) and leave as
// those bytes. Every other member, cursors among them, comes back as the same JSON
// value. Members the protocol does not define are kept in both capability sets, in
// `_meta` and in content blocks of an unknown type; elsewhere they are dropped.
//
// An optional member whose zero value means something (total 0, size 0, priority 0,
// hasMore false) is a pointer, and nil means absent; only in [Task.TTL], which is
// required, nil is the explicit null the protocol asks for. An optional string,
// list or map that is empty counts as absent, and so does a boolean that defaults
// to false.
//
// The types are plain structs with json tags and encode with any encoder that
// honours them. Package codec is the one production uses: it writes a nil slice
// as [] (encoding/json writes null, which is not legal for a required list) and
// matches member names by case. Only unions have methods of their own for
// encoding or decoding, and none of them lies on the way out of a [CallToolResult].
//
// # Concurrency
//
// The tables never change after package initialization and may be read from any
// goroutine. Values are ordinary data: one that several goroutines read must not
// be written by any. Byte slices inside decoded values are never shared with the
// input.
//
// # How another revision joins
//
// The structs are the union of all revisions; a member means the same in every
// revision that has it. A revision joins in four places, none of which disturbs
// the others:
//
//   - revision.go gets its constant and date, and the features it brings or drops;
//   - methods.go gets its new methods, and the spans of the others their end;
//   - a member it adds becomes an optional member of the existing struct, a type it
//     adds goes into the file of its subject;
//   - project_<date>.go (one file per revision) says what a peer of that revision
//     must not be sent: it takes a value by copy, clears or converts the members
//     that came later, and is applied where lists and results are encoded.
//
// The tests read the official schema of a revision and fail when a definition or
// a property of it has no counterpart here.
package mcp
