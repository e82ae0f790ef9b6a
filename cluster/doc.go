// Package cluster keeps what must survive a crash: node leases, session
// records, the event log of streams, tasks and the key ring. It stores them in NATS
// JetStream, in a server embedded in this process, on disk or in memory, or on servers of their own
// (Options.Remote), which several processes may share.
//
// A Node is made of its parts, each of which does what its interface in internal/store says: Records
// keeps small values, Log the event logs of streams, Tasks what tasks have and their queue. Members is
// the node among the others: its lease, its letters, and who is dead. Server is the server in this
// process, or the connection to others. Below them, messages writes and reads single messages of the
// streams, and wire has the connections and names that all share.
//
// # Guarantees
//
//   - An acknowledged write survives the death of the process. A power cut may
//     cost the writes of the file store's last sync interval (Options.Sync), or
//     nothing.
//   - A full disk costs no acknowledged write. Writes are refused with
//     ErrRetry until there is room; then the server is restarted in this
//     process.
//   - Every error says what became of the operation. ErrNotFound, ErrConflict,
//     ErrFenced, ErrRetry, ErrFull and ErrTooBig mean that it was not done;
//     ErrUnavailable means that the outcome is unknown.
//   - ErrNotFound of Get, Writer and Taken is certain: on replicated servers it is concluded from
//     a write, as a leader that was replaced answers reads with what it had until it notices. That
//     of Peek, of bodies and parts, and of lists is what the leader says.
//   - Once Rewrite has succeeded on a stream, the store accepts no append of
//     the previous writer (ErrFenced): every append names the revision of the
//     writer record it was made under, and the store checks it.
//   - No call takes longer than its context, nor longer than 5 s plus the time
//     of a retry, whatever happens to NATS.
//   - Nothing grows without bound: streams have byte budgets and refuse what
//     exceeds them, everything stored has a lifetime, and calls in flight are
//     counted and capped.
//
// # Goroutines
//
// All methods of Node and Keyring may be called from any goroutine. Append's
// done function runs on the goroutine that receives acknowledgements, or on the
// one that flushes (Options.Sync below 0). It must not block, and must not wait
// for another call of this package.
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
// A suspended node takes no new work. The fence guards the writes that it still
// makes; the lease does not.
//
// # Layout
//
// Records are messages whose key is their subject, one message per subject;
// their first byte is a version. An empty message is a tombstone that expires
// by itself. Events live under ev.<tenant>.<server>.<session>.<stream>: .open
// is the writer record, .body its body, .0 to .999 a ring of appends. In a store that has several shards for
// events, the first token is ev-<shard>. nodes.<node> is the entry of a node, and
// nodes.taken.<boot> says of a boot that it is gone. keys.<epoch> is a key of the ring, keys.api.<id> an API key, keys.revoked.<id> a revocation. A task is a record under
// task.<tenant>.<server>.<task> with parts behind it, and a message under work.<server> while it has
// something to run.
//
// # Messages between nodes
//
// Mail carries them, over core NATS: nothing is kept of a letter, and each arrives at most once. Letters
// to all are numbered, and so are the hearts that say every second that a node is there: a receiver
// learns that it missed some, though not which. Node.Gone is the one way to conclude that a node is dead.
//
// Each letter and each reply has a MAC, by a key that is made from one of the key ring. It covers all that is in it, who sends it, the subject that it
// is sent to and the one that its reply is expected on. So a user of the same servers who may publish to the nodes' subjects, and may not read the store,
// can neither say something in a node's name nor have a node publish anything. What has no valid MAC is dropped, counted and logged; nobody replies to it. A
// letter whose key is not known waits until the key ring was read, which many made-up numbers of keys cannot have happen often.
//
// A letter that was read and is sent again is dropped, too: each node knows the serials of the boots that it hears. A reply is good for one question. Not
// covered is what somebody does who can read letters, publish them and hold others up: one that was held up is taken when it comes, unless it is then 64
// letters or more behind the newest that came from its sender on that subject; and a letter to all from a boot that had ended before this one began is taken
// while its key is in the ring. What is told by such a letter is a hint, or a count that is over after seconds. Nor is the word of the servers covered that
// nobody listens to a subject; no node takes another for dead because of it. Letters are not encrypted: who reads them reads what clients send and get.
//
// # Not the public API
//
// This package is a part of Troupe that its own packages share. Programs use the root
// package, troupe, and package mcp: its exported names may change in any release, without
// a word in the changelog.
package cluster
