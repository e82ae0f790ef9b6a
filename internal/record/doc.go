// Package record has the writer record of a stream, which is a call's record too: what
// whoever takes the stream over has to know of its calls. The log forgets by count, bytes
// and age, and the record does not: whenever it is rewritten, it takes over what the log
// is about to forget (Digest, Sent, Mark). Past is what the log and the record tell
// together, and grows with each append that has got to the log.
//
//	stream.go    Stream, the record as it is stored
//	digest.go    Digest, what it tells of questions, answers and the newest event
//	sent.go      Sent, how far the notifications of a call have got
//	question.go  Question, and how the log's entries name one
//
// Nothing here reads a clock or does I/O. Values are not safe for concurrent use.
package record
