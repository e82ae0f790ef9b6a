// Package greed has clients that take all they can get of one server: every kind of request, and
// everything that a request can make the server hold. Each way of doing that is an attack.
//
// Guarantees: an attack runs a bounded number of goroutines for each of its principals, and has
// closed its connections when [Run] returns. Its outcomes tell how every attempt ended, so that an
// attack which does nothing cannot pass for one that was borne.
//
// A principal is a source address: in network 1 the first is 127.0.1.2, the second 127.0.1.3, and
// so on. Attacks that are made one after the other come from the same principals, except those that
// are apart. The goroutines of an attack share nothing but their principal, whose methods are safe
// for concurrent use.
package greed
