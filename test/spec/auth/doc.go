// Package auth tests who may come in where a program sets Options.Auth, over the wire: the metadata, the refusals of tokens and what each of them
// tells the client, the log and the metrics, and that nobody reaches what is another's.
package auth
