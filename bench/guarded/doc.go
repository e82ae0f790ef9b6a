// Command guarded serves the demo to callers that have an access token. It takes the arguments of `troupe serve` that it needs, so that
// whatever drives that can drive a guarded server:
//
//	guarded serve --listen 127.0.0.1:0 --issuer http://127.0.0.1:9000 --introspect http://127.0.0.1:9000/token/introspection --client ID --secret S
//	guarded serve --listen 127.0.0.1:8080 --data DIR
//
// In the first form tokens come from an authorization server. In the second they come from this process, and what listens is a proxy
// that adds a valid one to each request that has none. The first line of its output is the address of the MCP endpoint, and in the second form the
// second one is that of the server behind the proxy.
//
// To the demo it adds the tool whoami, and the tool guarded, which needs the scope demo:write beside demo:read, which all need.
package main
