// Package nodes tests several runtimes on the same NATS server, over the wire: a client may send each request to any of them.
package nodes
