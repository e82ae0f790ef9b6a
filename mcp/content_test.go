package mcp_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
)

// coders are the two ways a value travels through JSON here.
var coders = map[string]struct {
	marshal   func(any) ([]byte, error)
	unmarshal func([]byte, any) error
}{
	"codec": {codec.Marshal, codec.Unmarshal},
	"std":   {stdMarshal, json.Unmarshal},
}

func stdMarshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(buf.Bytes()), err
}

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
		if got := protocol.ContentsFor(full, r); &got[0] != &full[0] {
			t.Errorf("%s: got a copy of blocks that it knows", r)
		}
		if got := protocol.ContentsFor((mcp.Contents{own, mcp.Link(mcp.Resource{URI: "a:b", Icons: []mcp.Icon{{Src: "a:c"}}})}), r); len(got[0].(rich).Tags) != 1 {
			t.Errorf("%s: got %v", r, got)
		}
		prompt := &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Content: own}}}
		if got := protocol.PromptResultFor(prompt, r); got != prompt {
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
	for name, coder := range coders {
		in := []byte(` { "b" : 1.0 , "progressToken":0,"a":{"progressToken":9}, "b2":[1e400,{"x":"}", "x":-0.0}],"b":0.10, "\u0063":"\u00e9\/" , "<&>":null} `)
		var m mcp.Meta
		if err := coder.unmarshal(in, &m); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		clear(in)
		if token, ok := m.ProgressToken(); !ok || token.String() != "0" {
			t.Errorf("%s: got token %s, %v, want 0", name, token, ok)
		}
		got := m.With("b", mcp.Raw("<2>")).With(mcp.MetaRelatedTask, mcp.Raw(protocol.RelatedTask{TaskID: `t"1`}))
		var related protocol.RelatedTask
		if found, err := got.Decode(mcp.MetaRelatedTask, &related); err != nil || !found || related.TaskID != `t"1` {
			t.Errorf("%s: got task %q, %v", name, related.TaskID, err)
		}
		for _, tt := range []struct {
			m    mcp.Meta
			want string
		}{
			{m, `{"<&>":null,"a":{"progressToken":9},"b":0.10,"b2":[1e400,{"x":"}","x":-0.0}],"c":"\u00e9\/","progressToken":0}`},
			{got, `{"<&>":null,"a":{"progressToken":9},"b":"<2>","b2":[1e400,{"x":"}","x":-0.0}],"c":"\u00e9\/","io.modelcontextprotocol/related-task":{"taskId":"t\"1"},"progressToken":0}`},
			{mcp.Meta{"a": nil}, `{"a":null}`},
			{nil, `{}`},
		} {
			if out, err := coder.marshal(tt.m); err != nil || string(out) != tt.want {
				t.Errorf("%s: got %s, %v\nwant %s", name, out, err, tt.want)
			}
		}
		if out, err := coder.marshal(&mcp.TextContent{Type: "text", Text: "x", Meta: mcp.Meta{}}); err != nil || string(out) != `{"type":"text","text":"x"}` {
			t.Errorf("%s: an empty _meta is sent: %s, %v", name, out, err)
		}
		if out, err := coder.marshal(mcp.Meta{"a": json.RawMessage(`{`)}); err == nil {
			t.Errorf("%s: a value that is no JSON is sent: %s", name, out)
		}
		for _, bad := range []string{`[]`, `1`, `"{}"`, `true`} {
			if err := coder.unmarshal([]byte(bad), &m); err == nil {
				t.Errorf("%s: %s is a _meta", name, bad)
			}
		}
	}
	for _, bad := range []string{`null`, `{}`, `true`, `[0]`} {
		m := mcp.Meta{mcp.MetaProgressToken: json.RawMessage(bad)}
		if token, ok := m.ProgressToken(); ok {
			t.Errorf("%s: got token %s, want none", bad, token)
		}
	}
	if token, ok := mcp.Meta(nil).ProgressToken(); ok {
		t.Errorf("no _meta has the token %s", token)
	}
}

// TestMetaIsTheProgramsOwn checks what a program may do with a Meta: read it as Go values, and change a copy.
func TestMetaIsTheProgramsOwn(t *testing.T) {
	t.Parallel()
	m := mcp.Meta{"n": mcp.Raw(7), "s": mcp.Raw("<x>"), "none": nil, "null": json.RawMessage(" null ")}
	var n int
	var s string
	if found, err := m.Decode("n", &n); !found || err != nil || n != 7 {
		t.Errorf("n: %v, %v, %d", found, err, n)
	}
	if found, err := m.Decode("s", &s); !found || err != nil || s != "<x>" {
		t.Errorf("s: %v, %v, %q", found, err, s)
	}
	if found, err := m.Decode("s", &n); !found || err == nil || n != 7 {
		t.Errorf("a string as a number: %v, %v, %d", found, err, n)
	}
	for _, key := range []string{"none", "null", "other"} {
		if found, err := m.Decode(key, &n); found || err != nil || n != 7 {
			t.Errorf("%s: %v, %v, %d", key, found, err, n)
		}
	}
	c := m.Clone()
	c["n"][0], c["x"] = '8', nil
	if string(m["n"]) != "7" || len(m) != 4 {
		t.Errorf("a change of a copy is seen in %v", m)
	}
	if mcp.Meta(nil).Clone() != nil {
		t.Error("the copy of no _meta is one")
	}
	defer func() {
		if recover() == nil {
			t.Error("Raw returns something for a function")
		}
	}()
	mcp.Raw(func() {})
}

func TestObjectWith(t *testing.T) {
	t.Parallel()
	o := mcp.Object(` { "b" : 1.0 , "a":{"b":9}, "b":2 } `)
	if got, want := string(o.With("b", mcp.Raw(3)).With("c", mcp.Raw("x"))), `{"b":3,"a":{"b":9},"c":"x"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := string(mcp.Object(nil).With("c", mcp.Raw("x"))); got != `{"c":"x"}` {
		t.Errorf("got %s", got)
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
	out, err := codec.Marshal(protocol.CompleteResult{Completion: mcp.NewCompletion(nil)})
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
		mcp.Object(data).Get("type")
		mcp.Object(data).With("type", json.RawMessage("1"))
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
