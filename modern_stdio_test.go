package troupe_test

import (
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/testkit"
)

// TestModernProbes holds what a client hears over a pipe that finds out what the
// server speaks (2026-07-28, basic/transports/stdio, backward compatibility).
func TestModernProbes(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		p := newPiped(t, troupe.Options{}, nil)
		const (
			version      = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
			capabilities = `"io.modelcontextprotocol/clientCapabilities":{}`
			noVersion    = `{"code":-32602,"message":"_meta must name the protocol version: io.modelcontextprotocol/protocolVersion"}`
		)
		unsupported := func(v string) string {
			return `{"code":-32022,"message":"unsupported protocol version","data":{"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"` + v + `"}}`
		}
		for _, initialized := range []bool{false, true} {
			for _, tt := range []struct{ method, params, want string }{
				{"server/discover", ``, noVersion},
				{"server/discover", `,"params":{}`, noVersion},
				{"server/discover", `,"params":{"_meta":{` + capabilities + `}}`, noVersion},
				{"tools/list", `,"params":{"_meta":{` + capabilities + `}}`, noVersion},
				{"tools/list", `,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":7,` + capabilities + `}}`, noVersion},
				{"server/discover", `,"params":{"_meta":{` + version + `}}`, `{"code":-32602,"message":"_meta must have the client's capabilities: io.modelcontextprotocol/clientCapabilities"}`},
				{"tools/list", `,"params":{"_meta":{` + version + `,` + capabilities + `,"io.modelcontextprotocol/clientInfo":"me"}}`,
					`{"code":-32602,"message":"_meta has a client info that is no object: io.modelcontextprotocol/clientInfo"}`},
				{"server/discover", `,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01"}}`, unsupported("2099-01-01")},
				{"tools/list", `,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25",` + capabilities + `}}`, unsupported("2025-11-25")},
				{"initialize", `,"params":{"_meta":{` + version + `,` + capabilities + `}}`, `{"code":-32601,"message":"method not found: initialize"}`},
			} {
				got := p.ask(`{"jsonrpc":"2.0","id":1,"method":"` + tt.method + `"` + tt.params + `}`)
				legal(t, got, tt.method)
				equal(t, tt.method+tt.params, got, `{"jsonrpc":"2.0","id":1,"error":`+tt.want+`}`)
			}
			contains(t, "without client info", p.ask(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{`+version+`,`+capabilities+`}}}`), `"supportedVersions":["2026-07-28",`)
			if !initialized {
				p.initialize(r11)
			}
		}
		// What one request has said is nothing to the next, and the session is another's.
		equal(t, "a request of the session", p.ask(`{"jsonrpc":"2.0","id":1,"method":"ping"}`), `{"jsonrpc":"2.0","id":1,"result":{}}`)
		p.m.caps = `{}`
		contains(t, "a request that declares less than the session", p.result("tools/call", toolParams("ask", `{"question":"?"}`), ""), `{"code":-32021,`)
	})
}
