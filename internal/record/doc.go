// Package record has the writer record of a stream, which is a call's record too: what the
// next writer of the stream must know of its calls. The log forgets by count, bytes and
// age, and the record does not: each rewrite copies into it what the log is about to forget
// (Digest, Sent, Watermark). Past is what log and record say together, and grows with each
// stored append.
//
// Nothing here reads a clock or does I/O. Values are not safe for concurrent use.
//
// # Files
//
// From the top; most of what a file uses lies in its own line or below:
//
//	past  Past: what log and record say together
//	digest  Digest: questions, answers and the newest event
//	question  Question, and how the log's entries name one
//	stream  Stream, the record as it is stored
//	step  Step: what a run of a call has done, and no other does again
//	sent  Sent: how far the notifications of a call have got
package record
