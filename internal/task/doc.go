// Package task is the state machine of a durable task: what is stored of it, and how it
// changes. A task is a request that outlives its connection, its session and the process
// that took it.
//
//	            BeginAttempt               Finish
//	New ──▶ queued ─────▶ running ──────────────────────────▶ ended
//	          ▲  ▲          │  │ AskQuestions                  ▲ ▲
//	          │  └──────────┘  ▼                               │ │
//	          │  YieldAttempt waiting ─────────────────────────┘ │
//	          │                │  Finish                         │
//	          └────────────────┘                           Cancel│
//	              TakeAnswers     (from any state but ended) ────┘
//
// A queued task has a work message and no worker; a running one has one worker, named by
// its attempt's epoch and boot; a waiting one has neither, however long its client takes to
// answer. What ended never changes.
//
// An attempt may change a task only under its own epoch, and the store accepts a change only
// under the revision that was read. So an attempt that was taken over changes nothing,
// whenever it wakes.
//
// Request, answers and outcome are kept as the newest revision has them. What a reader sees
// depends on its revision: [Record.Status].
//
// Nothing here reads a clock or does I/O. Values are not safe for concurrent use.
package task
