// Package hosting tests over the wire what a server offers that somebody else has written: how it looks, what of it clients of each
// era get, and that nobody gets what is another's. The backends run in the process of the tests: troupe's host.Serve.
package hosting
