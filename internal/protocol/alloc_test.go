package protocol_test

import (
	"encoding/json"
	"testing"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
)

// TestAllocations checks the budgets of the functions that run for every request.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	name := []byte("tools/call")
	meta := mcp.Meta{"a": json.RawMessage(`{"progressToken":1}`), "progressToken": mcp.Raw("p")}
	blocks := mcp.Contents{mcp.Text("a"), mcp.Text("b")}
	supported := mcp.Revisions()
	result := &mcp.CallToolResult{Content: blocks, StructuredContent: []byte(`{"a":1}`), Meta: meta}
	prompt := &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Content: blocks[0]}}}
	read := mcp.ReadResourceResult{Contents: []mcp.ResourceContents{{URI: "x:", Meta: meta}}}
	request := []byte(`{"progressToken":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/logLevel":"info",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`)
	for what, f := range map[string]func(){
		"request meta": func() {
			if q, err := mcp.ReadRequestMeta(request); err != nil || q.Revision != r28 {
				t.Error(q, err)
			}
		},
		"look up a method": func() { protocol.LookupMethod(name) },
		"progress token":   func() { meta.ProgressToken() },
		"typed blocks":     func() { blocks.Typed() },
		"negotiate":        func() { protocol.Negotiate("2025-11-25", supported) },
		"project": func() {
			protocol.CallResultFor(result, r11)
			protocol.PromptResultFor(prompt, r11)
			protocol.ReadResultFor(read, r11)
			protocol.CallResultFor(result, r28)
			protocol.PromptResultFor(prompt, r28)
		},
		"project nothing": func() { protocol.ContentsFor(blocks, r24); protocol.PromptResultFor(prompt, r24) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: got %v allocations, want 0", what, n)
		}
	}
}

func BenchmarkEncodeTextResult(b *testing.B) {
	result := &mcp.CallToolResult{Content: mcp.Contents{mcp.Text("hello, world")}}
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if buf, err = codec.AppendMarshal(buf[:0], result); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeCallParams(b *testing.B) {
	data := []byte(`{"name":"echo","arguments":{"text":"hello, world"},"_meta":{"progressToken":17}}`)
	b.ReportAllocs()
	for b.Loop() {
		var p mcp.CallToolParams
		if err := codec.UnmarshalValid(data, &p); err != nil {
			b.Fatal(err)
		}
		if _, ok := p.Meta.ProgressToken(); !ok {
			b.Fatal("no token")
		}
	}
}

func BenchmarkRequestMeta(b *testing.B) {
	meta := []byte(`{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"client","version":"1.0.0"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"sampling":{},"roots":{}}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := mcp.ReadRequestMeta(meta); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLookupMethod(b *testing.B) {
	name := []byte("tools/call")
	b.ReportAllocs()
	for b.Loop() {
		protocol.LookupMethod(name)
	}
}

func BenchmarkDecodeContents(b *testing.B) {
	data := []byte(`[{"type":"text","text":"hello, world"},{"type":"image","data":"AAAA","mimeType":"image/png"}]`)
	b.ReportAllocs()
	for b.Loop() {
		var c mcp.Contents
		if err := c.UnmarshalJSON(data); err != nil {
			b.Fatal(err)
		}
	}
}
