// Package transports tests stdio and HTTP+SSE as a client meets them, and how a server listens: TLS, headers, slow
// clients.
package transports
