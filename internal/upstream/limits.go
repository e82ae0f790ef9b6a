package upstream

import "time"

// What a backend may make us keep, wait for, or send. They are names without settings: whoever lets
// a user set one of them gives it a row in internal/limits.
const (
	// MostMessage is the largest message in bytes, in both directions. A line, an event or a body
	// that is larger ends the connection that it came on.
	MostMessage = 16 << 20
	// MostStray is how much is read of an HTTP body that is no message, in bytes.
	MostStray = 64 << 10
	// MostOpen is how many requests of ours may wait for an answer on one connection.
	MostOpen = 1024
	// MostQuestions is how many requests of the backend may wait for an answer of ours.
	MostQuestions = 64
	// MostReplies is how many short messages (answers to pings, refusals, cancellations) may wait
	// for a backend that does not read. One more ends the connection.
	MostReplies = 256
	// MostLate is how many given-up requests are remembered, to tell their late answers from answers
	// to nothing.
	MostLate = 256
	// MostBatch is how many messages a batch may hold.
	MostBatch = 1000
	// MostItems, MostPages and MostListing bound a list: its items, its pages, and its bytes.
	MostItems   = 100_000
	MostPages   = 2000
	MostListing = 64 << 20
	// MostToken is the longest id of a question, event id or session id, in bytes.
	MostToken = 1 << 10
	// MostResumes is how often in a row a stream may fail to be resumed before its request is lost.
	MostResumes = 8
)

// For how long we wait where nothing says how long.
const (
	// ProbeSilence is how long a probe may stay without an answer until initialize is sent beside it.
	ProbeSilence = 3 * time.Second
	// StandaloneSilence is how long a backend may take to begin its standalone stream before requests are sent: what it says on a
	// stream that nobody reads yet is lost.
	StandaloneSilence = time.Second
	// Farewell bounds what is sent at the end: a cancellation, the end of a session.
	Farewell = 2 * time.Second
	// StreamSilence is how long a stream that can be taken up again may be silent, comments included,
	// before it counts as broken.
	StreamSilence = 5 * time.Minute
	// The pause before a stream is taken up again grows from ShortestPause to LongestPause, unless
	// the backend said a longer one.
	ShortestPause = 100 * time.Millisecond
	LongestPause  = 30 * time.Second
)
