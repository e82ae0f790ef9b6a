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
//   - project_*.go, by subject, says what a peer of an older revision must not be
//     sent. The For methods there clear or convert the members that came later; they
//     are applied where lists, results and questions are encoded.
//
// # Projection
//
// A For method never changes its input, which handlers may share between calls and
// between peers of several revisions. It returns what it was given when nothing has
// to change, and results for the newest revisions of both eras without looking at
// their content. A revision that is none counts as older than all. What a peer may
// not know, because it came later or because it is gone, is converted where something
// it knows says the same (audio as an embedded resource, a link as text, structured
// content as text, a list of blocks as several messages), else cleared; a question that would lose its meaning is an error that
// wraps [ErrInexpressible]. Content of unknown types, schemas of arguments, and
// `_meta` of params and results pass as they are.
//
// What 2026-07-28 requires of results beyond their content, resultType and where
// they may be kept ttlMs and cacheScope, no For method adds: whoever encodes a result
// for that revision knows them. Towards older ones they are cleared.
//
// The tests read the official schemas: they fail when a definition or a property of
// the newest revisions of both eras has no counterpart here, and when a value that was
// projected for another revision has a member its schema does not name.
package mcp
