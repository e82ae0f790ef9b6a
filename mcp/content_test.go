package mcp_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

func TestConstructorsSetTheType(t *testing.T) {
	t.Parallel()
	blocks := mcp.Contents{
		mcp.Text("t"), mcp.Image([]byte{0}, "image/png"), mcp.Audio(nil, "audio/wav"),
		mcp.Link(mcp.Resource{URI: "a:b", Name: "n", Size: new(int64(0))}),
		mcp.Embed(mcp.TextResource("a:b", "", "")), mcp.Embed(mcp.BlobResource("a:b", "m", []byte{1})),
		mcp.ToolUse("1", "n", nil), mcp.ToolResult("1"),
	}
	want := `[{"type":"text","text":"t"},{"type":"image","data":"AA==","mimeType":"image/png"},` +
		`{"type":"audio","data":"","mimeType":"audio/wav"},{"type":"resource_link","uri":"a:b","name":"n","size":0},` +
		`{"type":"resource","resource":{"uri":"a:b","text":""}},{"type":"resource","resource":{"uri":"a:b","mimeType":"m","blob":"AQ=="}},` +
		`{"type":"tool_use","id":"1","name":"n","input":{}},{"type":"tool_result","toolUseId":"1","content":[]}]`
	got, err := codec.Marshal(blocks)
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
	var back mcp.Contents
	if err := codec.Unmarshal(got, &back); err != nil {
		t.Fatal(err)
	}
	for i, b := range back {
		if mcp.ContentType(b) != mcp.ContentType(blocks[i]) {
			t.Errorf("block %d: got a %s, want a %s", i, mcp.ContentType(b), mcp.ContentType(blocks[i]))
		}
	}
}

func TestTypedFillsOnlyWhatIsMissing(t *testing.T) {
	t.Parallel()
	full := mcp.Contents{mcp.Text("a"), &mcp.UnknownContent{Type: "x"}, nil, (*mcp.TextContent)(nil)}
	if got := full.Typed(); &got[0] != &full[0] {
		t.Error("got a copy of blocks that lack nothing")
	}
	bare := mcp.Contents{
		mcp.Text("a"), &mcp.TextContent{Text: "b"}, &mcp.ImageContent{}, &mcp.AudioContent{}, &mcp.ResourceLink{},
		&mcp.EmbeddedResource{}, &mcp.ToolUseContent{},
		&mcp.ToolResultContent{Type: "tool_result", Content: mcp.Contents{&mcp.TextContent{Text: "c"}}},
	}
	got := bare.Typed()
	if got[0] != bare[0] {
		t.Error("got a copy of a complete block")
	}
	if bare[1].(*mcp.TextContent).Type != "" || bare[7].(*mcp.ToolResultContent).Content[0].(*mcp.TextContent).Type != "" {
		t.Error("got the caller's blocks changed")
	}
	data, err := codec.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(data, []byte(`"type":""`)) {
		t.Errorf("got %s, want every type set", data)
	}
}

// rich is a block of a program's own type, which cannot be compared.
type rich struct {
	*mcp.TextContent
	Tags []string `json:"tags"`
}

func TestBlocksOfAnyType(t *testing.T) {
	t.Parallel()
	own := rich{mcp.Text("a"), []string{"x"}}
	full := mcp.Contents{own, mcp.ToolResult("1", own)}
	if got := full.Typed(); &got[0] != &full[0] {
		t.Error("got a copy of blocks that lack nothing")
	}
	for _, r := range []mcp.Revision{mcp.Revision20241105, mcp.Revision20250326, mcp.Revision20250618} {
		if got := full.For(r); &got[0] != &full[0] {
			t.Errorf("%s: got a copy of blocks that it knows", r)
		}
		if got := (mcp.Contents{own, mcp.Link(mcp.Resource{URI: "a:b", Icons: []mcp.Icon{{Src: "a:c"}}})}).For(r); len(got[0].(rich).Tags) != 1 {
			t.Errorf("%s: got %v", r, got)
		}
		prompt := &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Content: own}}}
		if got := prompt.For(r); got != prompt {
			t.Errorf("%s: got a copy of messages that it knows", r)
		}
	}
	bare := mcp.Contents{own, &mcp.TextContent{Text: "b"}}
	if got := bare.Typed(); got[1].(*mcp.TextContent).Type != "text" || len(got[0].(rich).Tags) != 1 {
		t.Errorf("got %v", got)
	}
	prompt := &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Content: own}}}
	if got := prompt.Typed(); got != prompt {
		t.Error("got a copy of messages that lack nothing")
	}
	prompt.Messages = append(prompt.Messages, mcp.PromptMessage{Content: &mcp.TextContent{Text: "b"}})
	if got := prompt.Typed(); got.Messages[1].Content.(*mcp.TextContent).Type != "text" || prompt.Messages[1].Content.(*mcp.TextContent).Type != "" {
		t.Errorf("got %v of %v", got, prompt)
	}
}

func TestUnknownContentKeepsItsBytes(t *testing.T) {
	t.Parallel()
	const in = `{"type":"video","z":1.0,"a":{"b":"<&>"},"Text":"x"}`
	for name, coder := range coders {
		var c mcp.Contents
		if err := coder.unmarshal([]byte(`[`+in+`,{"type":"text","text":"t"}]`), &c); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out, err := coder.marshal(c)
		if want := `[` + in + `,{"type":"text","text":"t"}]`; err != nil || string(out) != want {
			t.Errorf("%s: got %s, %v, want %s", name, out, err, want)
		}
	}
}

func TestContentNamesMatchByCase(t *testing.T) {
	t.Parallel()
	for name, coder := range coders {
		var c mcp.Contents
		in := `[{"type":"text","Text":"wrong","TEXT":"wrong","text":"right","annotations":{"Priority":1}}]`
		if err := coder.unmarshal([]byte(in), &c); err != nil {
			t.Fatal(err)
		}
		got := c[0].(*mcp.TextContent)
		if got.Text != "right" || got.Annotations.Priority != nil {
			t.Errorf("%s: got %q and priority %v, want names to match exactly", name, got.Text, got.Annotations.Priority)
		}
	}
	var c mcp.Contents
	if err := c.UnmarshalJSON([]byte(`{"\u0074ype":"te\u0078t","te\u0078t":"escaped"}`)); err != nil || c[0].(*mcp.TextContent).Text != "escaped" {
		t.Errorf("got %v, %v, want names and types read without their escapes", c, err)
	}
}

func TestNestedToolResultsAreBounded(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"type":"tool_result","toolUseId":"1","content":[`, 200) + strings.Repeat(`]}`, 200)
	var c mcp.Contents
	if err := c.UnmarshalJSON([]byte("[" + deep + "]")); err != nil {
		t.Fatal(err)
	}
	inner := c[0].(*mcp.ToolResultContent).Content[0]
	if _, ok := inner.(*mcp.UnknownContent); !ok {
		t.Errorf("got a %T inside a tool result, want it kept as unknown", inner)
	}
	out, err := codec.Marshal(c)
	if err != nil || string(out) != "["+deep+"]" {
		t.Errorf("got %d bytes, %v, want the same %d", len(out), err, len(deep)+2)
	}
}

func TestBadContentIsRefused(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		``, `1`, `"text"`, `[null]`, `[1]`, `[[]]`, `{}`, `[{}]`, `{"type":null}`, `{"type":1}`, `[{"type":"text"`,
		`{"type":"text","text":1}`, `{"type":"text","text":"a"} x`, `{"type":"tool_result","content":[1]}`,
		`{"type":"resource","resource":[]}`, `{"type":"resource_link","size":"1"}`, `{"type":"tool_use","input":[]}`,
		`{"type":"text","text":"a","_meta":[]}`, `{"type":"resource_link","icons":{}}`,
	} {
		var c mcp.Contents
		if err := c.UnmarshalJSON([]byte(in)); err == nil {
			t.Errorf("%s: got %v, want an error", in, c)
		} else if !errors.Is(err, mcp.ErrMalformed) {
			t.Errorf("%s: got %v, want it to wrap ErrMalformed", in, err)
		}
		if _, err := mcp.UnmarshalContent([]byte(in)); err == nil {
			t.Errorf("%s: got one block, want an error", in)
		}
	}
}

func TestMessageContentKeepsItsForm(t *testing.T) {
	t.Parallel()
	text := `{"type":"text","text":"<a>"}`
	for in, want := range map[string]mcp.MessageContent{
		text:                          mcp.Blocks(mcp.Text("<a>")),
		"[" + text + "]":              {Blocks: mcp.Contents{mcp.Text("<a>")}, List: true},
		`[]`:                          {Blocks: mcp.Contents{}, List: true},
		`[` + text + `,` + text + `]`: {Blocks: mcp.Contents{mcp.Text("<a>"), mcp.Text("<a>")}, List: true},
	} {
		var got mcp.MessageContent
		if err := codec.Unmarshal([]byte(in), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("%s: -got +want\n%s", in, diff)
		}
		if out, err := codec.Marshal(got); err != nil || string(out) != in {
			t.Errorf("got %s, %v, want %s", out, err, in)
		}
	}
	if out, err := codec.Marshal(mcp.Blocks(mcp.Text("a"), mcp.Text("b"))); err != nil || out[0] != '[' {
		t.Errorf("got %s, %v, want two blocks as a list", out, err)
	}
}

func TestMeta(t *testing.T) {
	t.Parallel()
	m := mcp.Meta(` { "b" : 1.0 , "progressToken":0,"a":{"progressToken":9}, "b2":[1,{"x":"}"}] } `)
	if token, ok := m.ProgressToken(); !ok || token.String() != "0" {
		t.Errorf("got token %s, %v, want 0", token, ok)
	}
	if v, ok := m.Get("b2"); !ok || string(v) != `[1,{"x":"}"}]` {
		t.Errorf("got %s, %v", v, ok)
	}
	got := m.With("b", json.RawMessage(`2`)).WithRelatedTask(`t"1`)
	want := `{"b":2,"progressToken":0,"a":{"progressToken":9},"b2":[1,{"x":"}"}],"io.modelcontextprotocol/related-task":{"taskId":"t\"1"}}`
	if string(got) != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if id, ok := got.RelatedTask(); !ok || id != `t"1` {
		t.Errorf("got task %q, %v", id, ok)
	}
	if got := mcp.Meta(nil).WithProgressToken(mcp.StringToken("p")); string(got) != `{"progressToken":"p"}` {
		t.Errorf("got %s", got)
	}
	for _, bad := range []string{``, `{}`, `null`, `[]`, `{"progressToken":null}`, `{"progressToken":{}}`, `{"progressToken":true}`,
		`{"progressToken"`, `{"progressToken":`, `{"progressToken":}`, `{,}`, `{"a":1 "progressToken":1}`, `{"\`, `{"a":"`} {
		if token, ok := mcp.Meta(bad).ProgressToken(); ok {
			t.Errorf("%s: got token %s, want none", bad, token)
		}
		if id, ok := mcp.Meta(bad).RelatedTask(); ok {
			t.Errorf("%s: got task %s, want none", bad, id)
		}
	}
}

func TestDecodedBytesAreNotShared(t *testing.T) {
	t.Parallel()
	for name, coder := range coders {
		in := []byte(`{"content":[{"type":"text","text":"aaaa","_meta":{"k":"aaaa"}},{"type":"new","k":"aaaa"}],"structuredContent":{"k":"aaaa"},"_meta":{"k":"aaaa"}}`)
		var r mcp.CallToolResult
		if err := coder.unmarshal(in, &r); err != nil {
			t.Fatal(err)
		}
		want, _ := coder.marshal(r)
		for i, c := range in {
			if c == 'a' {
				in[i] = 'X'
			}
		}
		if got, _ := coder.marshal(r); !bytes.Equal(got, want) {
			t.Errorf("%s: got %s after the input changed, want %s", name, got, want)
		}
	}
}

func TestCapabilitiesKeepWhatNobodyDefines(t *testing.T) {
	t.Parallel()
	const in = `{"tools":{},"experimental":{"x":{"b":1.0,"a":2}},"vendor/b":[1.0],"vendor/a":{"z":1,"y":2}}`
	for name, coder := range coders {
		var c mcp.ServerCapabilities
		if err := coder.unmarshal([]byte(in), &c); err != nil {
			t.Fatal(err)
		}
		out, err := coder.marshal(c)
		if want := `{"experimental":{"x":{"b":1.0,"a":2}},"tools":{},"vendor/a":{"z":1,"y":2},"vendor/b":[1.0]}`; err != nil || string(out) != want {
			t.Errorf("%s: got %s, %v\nwant %s", name, out, err, want)
		}
	}
	var c mcp.ClientCapabilities
	for _, bad := range []string{`[]`, `1`, `{"roots":1}`, `{"experimental":{"x":1}}`, `{"sampling":{"tools":[]}}`} {
		if err := codec.Unmarshal([]byte(bad), &c); err == nil {
			t.Errorf("%s: got %+v, want an error", bad, c)
		}
	}
}

func TestForm(t *testing.T) {
	t.Parallel()
	form := mcp.FormSchema{
		Properties: []mcp.Property{
			{Name: "zeta", Schema: &mcp.StringSchema{Default: new("")}},
			{Name: "alpha", Schema: &mcp.NumberSchema{Type: "integer", Minimum: new(0.0)}},
			{Name: "many", Schema: &mcp.TitledMultiEnumSchema{}},
			{Name: "one", Schema: &mcp.EnumSchema{}},
		},
		Required: []string{"alpha"},
	}
	want := `{"type":"object","properties":{"zeta":{"type":"string","default":""},"alpha":{"type":"integer","minimum":0},` +
		`"many":{"type":"array","items":{"anyOf":[]}},"one":{"type":"string","enum":[]}},"required":["alpha"]}`
	raw, err := form.Raw()
	if err != nil || string(raw) != want {
		t.Fatalf("got %s, %v\nwant %s", raw, err, want)
	}
	back, err := mcp.ParseFormSchema(raw)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := back.Raw(); err != nil || string(again) != want {
		t.Errorf("got %s, %v\nwant %s", again, err, want)
	}
	if _, err := (mcp.FormSchema{Properties: []mcp.Property{{Name: "x"}}}).Raw(); !errors.Is(err, mcp.ErrMalformed) {
		t.Errorf("a property without a schema: got %v", err)
	}
	for _, bad := range []string{``, `{}`, `[]`, `{"properties":1}`, `{"properties":{"a":1}}`, `{"properties":{"a":{"type":"string","minLength":"x"}}}`} {
		if f, err := mcp.ParseFormSchema([]byte(bad)); !errors.Is(err, mcp.ErrMalformed) {
			t.Errorf("%s: got %+v, %v, want it refused", bad, f, err)
		}
	}
	odd, err := mcp.ParseFormSchema([]byte(`{"type":"object","properties":{"a":{"type":"vector","n":1.0},"b":{}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if raw, _ := odd.Raw(); string(raw) != `{"type":"object","properties":{"a":{"type":"vector","n":1.0},"b":{}}}` {
		t.Errorf("got %s, want unknown schemas as they came", raw)
	}
}

func TestCompletionIsCapped(t *testing.T) {
	t.Parallel()
	c := mcp.NewCompletion(make([]string, 101))
	if len(c.Values) != 100 || *c.Total != 101 || !*c.HasMore {
		t.Errorf("got %d values of %d, more %v", len(c.Values), *c.Total, *c.HasMore)
	}
	out, err := codec.Marshal(mcp.CompleteResult{Completion: mcp.NewCompletion(nil)})
	if want := `{"completion":{"values":[],"total":0,"hasMore":false}}`; err != nil || string(out) != want {
		t.Errorf("got %s, %v, want %s", out, err, want)
	}
}

func TestLevels(t *testing.T) {
	t.Parallel()
	levels := []mcp.LoggingLevel{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}
	for i, l := range levels {
		if l.Severity() != i || !l.Valid() {
			t.Errorf("%s: got %d, want %d", l, l.Severity(), i)
		}
	}
	if mcp.LoggingLevel("Info").Valid() || mcp.LoggingLevel("").Valid() {
		t.Error("got a level that is none")
	}
}

func FuzzContents(f *testing.F) {
	for _, seed := range []string{
		`{"type":"text","text":"a"}`, `[{"type":"image","data":"AA==","mimeType":"image/png","annotations":{"priority":0}}]`,
		`[{"type":"resource_link","uri":"a:b","name":"n","size":0,"icons":[{"src":"x"}]}]`,
		`[{"type":"resource","resource":{"uri":"a:b","text":""}}]`, `{"type":"tool_use","id":"1","name":"n","input":{"a":1.0}}`,
		`[{"type":"tool_result","toolUseId":"1","content":[{"type":"tool_result","content":[]}],"structuredContent":null}]`,
		`[{"type":"new","z":[1.0,"<&>"]}]`, `[]`, `{"type":"text","text":"a","type":"audio"}`, `{"\u0074ype":"text"}`,
		`[{"type":"text","text":"\ud800","_meta":{}}]`, `null`, `{"type":"tool_result","content":null}`, "{\"type\":\"x\",\"a\":\"\xff\"}", `{"type":"x"`, `[{"type":"text"},]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		mcp.Meta(data).Get("type")
		mcp.Meta(data).With("type", json.RawMessage("1"))
		_, _ = mcp.ParseFormSchema(data)
		var first, second mcp.Contents
		if first.UnmarshalJSON(data) != nil {
			return
		}
		once, err := stdMarshal(first)
		if err != nil {
			t.Fatalf("encode what was decoded from %s: %v", data, err)
		}
		if err := second.UnmarshalJSON(once); err != nil {
			t.Fatalf("decode what was encoded, %s: %v", once, err)
		}
		twice, err := stdMarshal(second)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("got %s, %v\nthen %s", once, err, twice)
		}
		if codec.Valid(data) {
			var third mcp.Contents
			if data, err = codec.Marshal(first); err != nil {
				t.Fatalf("encode with codec: %v", err)
			}
			if err := codec.Unmarshal(data, &third); err != nil {
				t.Fatalf("decode what codec encoded, %s: %v", data, err)
			}
		}
		for _, b := range second {
			if _, ok := b.(*mcp.UnknownContent); !ok && !bytes.Contains(once, []byte(mcp.ContentType(b))) {
				t.Fatalf("got a %T from %s", b, once)
			}
		}
	})
}
