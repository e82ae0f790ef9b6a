// Package embedded knows the files of the embedded NATS server in a data directory: what each stream has there, what a
// crash can leave of it, and what is mended before the server, which drops what it cannot read, opens it.
package embedded
