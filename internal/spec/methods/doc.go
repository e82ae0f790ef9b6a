// Package methods has the black-box tests of what a program puts around and beside the methods of the specification:
// middleware, methods and notifications of its own, and what is told of the beginning and the end of sessions.
package methods
