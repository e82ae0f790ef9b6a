// Package scope tests over the wire who may do what with the scopes that a caller has: every method in every revision and on every transport, what goes on
// with the calls of a wider token, and what depends on arguments.
package scope
