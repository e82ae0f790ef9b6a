// Package store says what the store of a node promises to those who use it: its errors, its
// budgets, the addresses of nodes and the letters between them, and the interfaces of its parts.
// Package cluster implements them, test/sim models them, and actors and internal/worker use
// them.
//
//   - Acknowledged means stored. What a method has returned without an error, or an append has
//     acknowledged, outlives the death of this process.
//   - Each error says what became of the operation: done, not done, or unknown. Unknown stays
//     unknown: a write whose outcome is not known is never taken for one that was not done. It is
//     read again, or written again where that does no harm.
//   - Each write names the revision that it replaces. A stream has one writer, which the revision
//     of its writer record fences: once another node has rewritten that record, no append under
//     the old revision is stored.
//   - ErrNotFound of Get and Writer is certain. What they find may be older than the last write by
//     20 s, for as long as a leader that was replaced does not know that.
//   - A node whose lease is not certain takes no new work. Who is dead only Mail.Gone says.
//   - A letter arrives once or not at all, and nothing is kept of it.
//
// All methods are safe for concurrent use. Keys are tokens with dots between them. Lifetimes are
// rounded up to seconds; 0 has no end.
package store
