// Package compare has three servers, each written with the official Go SDK, with mcp-go and with Troupe, so that one
// can read them side by side: a weather server (weather), a tool that asks a user twice (book), and fifty servers
// behind one address, each for callers with its token (tenants). The three programs of a kind do the same for the same
// clients: the test runs them all with the official SDK's client, in the newest revision with sessions and in the one
// without, and prints how long each of them is. It is a separate module, so that Troupe's has none of its dependencies.
//
//	go test -v .
package compare
