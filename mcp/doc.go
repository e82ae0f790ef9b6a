// Package mcp holds the protocol data of the Model Context Protocol: the types
// that travel as params, results and notifications, the revisions, the method
// table, the capability table and the table of error codes. It does no I/O and
// starts no goroutine.
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
//
// # How another revision joins
//
// The structs are the union of all revisions; a member means the same in every
// revision that has it. A new revision changes four places, none of which disturbs
// the others:
//
//   - revision.go gets its constant and date, and the features it brings or drops;
//   - methods.go gets its new methods, and the last revision of the methods it
//     drops;
//   - a new member becomes an optional member of the existing struct, and a new type
//     goes into the file of its subject;
//   - project_*.go, by subject, says what a peer of an older revision must not be
//     sent. The For methods there clear or convert the members that came later; they
//     are applied where lists, results and questions are encoded.
//
// # Projection
//
// A For method never changes its input, which handlers may share between calls and
// between peers of several revisions. It returns its input when nothing has to
// change. It returns results for the newest revisions of both eras without looking at
// their content. A revision that is none counts as older than all.
//
// A For method converts what a peer does not know, because it came later or because
// it is gone, where something that the peer knows says the same: audio becomes an
// embedded resource, a link becomes text, structured content becomes text, a list of
// blocks becomes several messages. Otherwise it clears it. A question that would lose
// its meaning is an error that wraps [ErrInexpressible]. Content of unknown types,
// schemas of arguments, and `_meta` of params and results pass as they are.
//
// 2026-07-28 requires more of results than their content: resultType and, for results
// that may be cached, ttlMs and cacheScope. No For method adds them: the caller that
// encodes a result for that revision knows them. For older revisions they are
// cleared.
//
// The tests read the official schemas. They fail when a definition of the newest
// revisions of both eras has no type here and is none that the server reads and writes
// in place, when a property has no counterpart, and when a value that was projected for
// another revision has a member that its schema does not name.
package mcp

// # Files
//
// The files from the top; most of the names that a file uses are in its own line or below:
//
//	project_lifecycle project_question project_content project_catalogue  the messages of older revisions
//	check  whether a peer can read content
//	sampling requestmeta errortable completion elicit prompt tool skill ui content resource progress input lifecycle listen root  the messages
//	jsonrpc errors methods capability capabilities form logging revision  methods, capabilities and errors by revision
//	decode task meta raw scan result  decoding
