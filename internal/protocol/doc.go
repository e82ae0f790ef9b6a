// Package protocol holds the tables of the Model Context Protocol and what follows from them: which
// methods, features and capabilities a revision has, and how a message that was written for the
// newest revision reads in an older one. Package mcp has the types of the messages, which are what
// users write and read; this package is for those who serve them. It does no I/O and starts no
// goroutine.
//
// # How another revision joins
//
// The structs of package mcp are the union of all revisions; a member means the same in every
// revision that has it. A new revision changes four places, none of which disturbs the others:
//
//   - revision.go of package mcp gets its constant and date, and feature.go here the features that
//     it brings or drops;
//   - method.go gets its new methods, and the last revision of the methods that it drops;
//   - a new member becomes an optional member of the existing struct, and a new type goes into the
//     file of its subject in package mcp;
//   - project_*.go, by subject, says what a peer of an older revision must not be sent. The For
//     functions there clear or convert the members that came later; they are applied where lists,
//     results and questions are encoded.
//
// # Projection
//
// A For function never changes its input, which handlers may share between calls and between peers
// of several revisions. It returns its input when nothing has to change. It returns results for the
// newest revisions of both eras without looking at their content. A revision that is none counts as
// older than all.
//
// A For function converts what a peer does not know, because it came later or because it is gone,
// where something that the peer knows says the same: audio becomes an embedded resource, a link
// becomes text, structured content becomes text, a list of blocks becomes several messages.
// Otherwise it clears it. A question that would lose its meaning is an error that wraps
// [mcp.ErrInexpressible]. Content of unknown types, schemas of arguments, and `_meta` of params and
// results pass as they are.
//
// 2026-07-28 requires more of results than their content: resultType and, for results that may be
// cached, ttlMs and cacheScope. No For function adds them: the caller that encodes a result for that
// revision knows them. For older revisions they are cleared.
//
// # Concurrency
//
// The tables never change after package initialization and may be read from any goroutine.
//
// The tests read the official schemas. They fail when a definition of the newest revisions of both
// eras has no type in package mcp and is none that the server reads and writes in place, when a
// property has no counterpart, and when a value that was projected for another revision has a member
// that its schema does not name.
package protocol
