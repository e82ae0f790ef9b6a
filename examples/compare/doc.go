// Package compare has three servers, each written with the official Go SDK, with mcp-go and with Troupe, so that one
// can read them side by side: what a weather server takes (weather), what it takes to ask a user twice (book), and fifty
// servers behind one address, each for who brings its token (tenants). The programs of a row do the same for the same
// clients: its test runs them all with the official SDK's client, in the newest revision with sessions and in the one
// without, and says how long each of them is. It is a module of its own, so that Troupe's has none of its dependencies.
//
//	go test -v .
package compare
