// Package operator tests over the wire what an operator sees of clients, and what these get when an operator ends
// what they have, in every revision and on every transport.
package operator
