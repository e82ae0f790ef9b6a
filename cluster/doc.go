// Package cluster keeps what must survive a crash: node leases, session records, the event log of
// streams, tasks and the key ring. It stores them in NATS JetStream, in a server embedded in this
// process, on disk or in memory, or on servers of their own (Options.Remote), which several
// processes may share.
//
// A Node has the parts whose promises are in internal/store: Records keeps small values, Log the
// event logs of streams, Tasks what tasks have and their queue. Members is the node among the
// others: its lease, its letters, and who is dead. Server is the server in this process, or the
// connection to others.
//
// # Guarantees
//
//   - An acknowledged write survives the death of the process. A power cut may cost the writes of
//     the last sync interval (Options.Sync), or nothing.
//   - A full disk costs no acknowledged write. Writes are refused with ErrRetry until there is room;
//     then the server is restarted in this process.
//   - Every error says what became of the operation. ErrNotFound, ErrConflict, ErrFenced, ErrRetry,
//     ErrFull and ErrTooBig mean that it was not done; ErrUnavailable that the outcome is unknown.
//   - ErrNotFound of Get, Writer and Taken is certain: on replicated servers it is concluded from a
//     write. That of Peek, of bodies and parts, and of lists is what the leader says.
//   - Once Rewrite has succeeded on a stream, the store accepts no append of the previous writer
//     (ErrFenced): every append names the revision of the writer record it was made under.
//   - No call takes longer than its context, nor longer than 5 s plus the time of a retry.
//   - Nothing grows without bound: streams have byte budgets, everything stored has a lifetime, and
//     calls in flight are counted and capped.
//
// # Goroutines
//
// All methods of Node and Keyring may be called from any goroutine. Append's done function runs on
// the goroutine that receives acknowledgements, or on the one that flushes (Options.Sync below 0).
// It must not block, and must not wait for another call of this package.
//
// # States of a node
//
//	            renewed in time
//	             ┌──────────┐
//	             ▼          │
//	Open ──▶ serving ───────┘
//	             │  ▲
//	  lease over │  │ renewed under the same boot nonce
//	             ▼  │
//	         suspended ──────▶ (a newer boot holds the name: stays suspended
//	             │              until that one's entry is gone)
//	             ▼
//	          Close
//
// A suspended node takes no new work. The fence guards the writes that it still makes.
//
// # Layout
//
// Records are messages whose key is their subject, one message per subject; their first byte is a
// version. An empty message is a tombstone that expires by itself. docs/architecture.md, "What is
// stored where", has the subjects.
//
// # Messages between nodes
//
// Mail carries them, over core NATS: nothing is kept of a letter, and each arrives at most once.
// Letters to all are numbered, and so are the hearts that say every second that a node is there: a
// receiver learns that it missed some. Node.Gone is the one way to conclude that a node is dead.
//
// Each letter and each reply has a MAC, by a key made from one of the key ring, over all that is in
// it, who sends it, its subject and the one that its reply is expected on. So a user of the same
// servers who may not read the store can neither say something in a node's name nor have a node
// publish anything. What has no valid MAC, or was read before, is dropped and counted. A letter
// whose key is not known waits until the key ring was read.
//
// Not covered is what somebody does who can read letters, publish them and hold others up: one that
// was held up is taken when it comes, unless 64 newer ones came from its sender; and a letter to all
// from a boot that had ended before this one began is taken while its key is in the ring. Such a
// letter is a hint, or a count that is over after seconds. Letters are not encrypted.
//
// # Not the public API
//
// Programs use the root package, troupe, and package mcp: what is exported here may change in any
// release, without a word in the changelog.
package cluster
