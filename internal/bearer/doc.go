// Package bearer is the door of a Runtime with Options.Auth: it joins package auth, which knows tokens, to package transport, which knows requests.
//
// A [Checker] says whose a request is, or how it is refused: with which status, challenge and text, counted and logged by its reason. The resource
// of a request is that of its path: a server's own path is one resource, and the two paths of its HTTP+SSE together are another. A token that is
// known costs a comparison with the connection's last one, or a look into a table. An address whose tokens fail too often has none of them looked at
// for a while but those that are known.
//
// A Checker also serves the metadata by which clients find the authorization server (RFC 9728, RFC 8414). That is public: pages of all origins may read
// it, and caches keep it.
//
// All methods may be called from any goroutine.
package bearer
