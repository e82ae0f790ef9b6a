// Package badinput tests over the wire what a server answers to messages that break a rule: bytes that are no message,
// requests that no revision has, cursors and sessions of others, bodies that never end, and clients that do anything
// at any time. Each is answered with its own error, harms nobody else and leaves nothing behind.
package badinput
