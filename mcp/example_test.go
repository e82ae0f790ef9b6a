package mcp_test

import (
	"encoding/json"
	"fmt"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
)

func ExampleCallToolResult() {
	result := mcp.CallToolResult{
		Content:           mcp.Contents{mcp.Text(`{"sum":3}`)},
		StructuredContent: json.RawMessage(`{"sum":3}`),
	}
	data, err := codec.Marshal(result)
	fmt.Println(string(data), err)
	// Output: {"content":[{"type":"text","text":"{\"sum\":3}"}],"structuredContent":{"sum":3}} <nil>
}

func ExampleError() {
	err := mcp.Errorf(mcp.CodeInvalidParams, "Unknown tool: %s", "add")
	data, _ := codec.Marshal(err)
	fmt.Println(string(data))

	err = mcp.NewError(mcp.CodeResourceNotFound, "").WithData(map[string]string{"uri": "file:///a"})
	data, _ = codec.Marshal(err)
	fmt.Println(string(data))
	// Output:
	// {"code":-32602,"message":"Unknown tool: add"}
	// {"code":-32002,"message":"resource not found","data":{"uri":"file:///a"}}
}

func ExampleFormSchema() {
	form := mcp.FormSchema{
		Properties: []mcp.Property{{Name: "answer", Schema: &mcp.StringSchema{Title: "Your answer"}}},
		Required:   []string{"answer"},
	}
	schema, err := form.Raw()
	fmt.Println(string(schema), err)
	// Output: {"type":"object","properties":{"answer":{"type":"string","title":"Your answer"}},"required":["answer"]} <nil>
}

func ExampleNegotiate() {
	supported := []mcp.Revision{mcp.Revision20251125}
	fmt.Println(protocol.Negotiate("2025-11-25", supported), protocol.Negotiate("2031-01-01", supported))
	// Output: 2025-11-25 2025-11-25
}

func ExampleMeta() {
	meta := mcp.Meta{"example.com/trace": mcp.Raw("abc"), "example.com/limits": mcp.Raw(map[string]int{"most": 3})}
	result := mcp.CallToolResult{Content: mcp.Contents{mcp.Text("done")}, Meta: meta}

	var trace string
	found, err := result.Meta.Decode("example.com/trace", &trace)
	fmt.Println(trace, found, err)
	fmt.Println(string(mcp.Raw(result.Meta)))
	// Output:
	// abc true <nil>
	// {"example.com/limits":{"most":3},"example.com/trace":"abc"}
}

func ExampleRaw() {
	result := mcp.CallToolResult{
		Content: []mcp.Content{
			&mcp.TextContent{Text: "3 °C", Annotations: &mcp.Annotations{Priority: new(0.5)}},
			mcp.Link(mcp.Resource{URI: "weather://oslo", Name: "oslo", Size: new(int64(3))}),
			mcp.Embed(mcp.TextResource("weather://oslo/note", "text/plain", "")),
			mcp.Image([]byte("..."), "image/png"),
		},
		StructuredContent: mcp.Raw(map[string]any{"celsius": 3}),
	}
	fmt.Println(string(mcp.Raw(result.StructuredContent)))

	asked := mcp.SamplingMessage{Role: mcp.RoleUser, Content: mcp.Blocks(mcp.Text("Is that cold?"))}
	fmt.Println(string(mcp.Raw(asked)))
	// Output:
	// {"celsius":3}
	// {"role":"user","content":{"type":"text","text":"Is that cold?"}}
}
