// Package limits tests over the wire that each limit holds, refuses with its own error and harms nobody else, and that a
// runtime keeps nothing of clients that are gone.
package limits
