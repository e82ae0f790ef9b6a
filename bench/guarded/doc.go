// Command guarded serves the demo to callers that have an access token with the scope demo:read, which this process makes: what listens is a proxy that adds a valid one to each request that has
// none. It takes the arguments of `troupe serve` that it needs, so that whatever drives that can drive a guarded server:
//
//	guarded serve --listen 127.0.0.1:8080 --data DIR
//
// The first line of its output is the address of the MCP endpoint, and the second one is that of the server behind the proxy.
package main
