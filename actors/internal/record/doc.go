// Package record has the writer record of a stream, which is a call's record too: what the
// next writer of the stream must know of its calls. The log forgets by count, bytes and
// age, and the record does not: each rewrite copies into it what the log is about to forget
// (Digest, Sent, Watermark). Past is what log and record say together, and grows with each
// stored append.
//
// Nothing here reads a clock or does I/O. Values are not safe for concurrent use.
package record
