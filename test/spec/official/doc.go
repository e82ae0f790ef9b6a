// Package official checks messages of servers against the official schemas of the protocol, for tests. [Of] returns the
// schema of a revision, and [Schema.Check] tells whether a message is legal by it. A member that only later revisions
// have is not.
//
// The schemas are not in the repository: TROUPE_SPEC_DIR says where they are. Tests without them do everything but
// these checks.
//
// The package imports nothing of the runtime, so that the test of its checks is a small program.
package official
