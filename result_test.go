package troupe

import (
	"testing"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit/when"
)

func TestResultHead(t *testing.T) {
	t.Parallel()
	h := newResultHead(mcp.Implementation{Name: "<s>", Version: "1", Title: "S"})
	const meta = `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"<s>","title":"S","version":"1"}}`
	for _, tt := range []struct {
		cache *Cache
		own   string
		value any
		want  string
	}{
		{nil, "", struct{}{}, `{"resultType":"complete",` + meta + `}`},
		{nil, "", map[string]int{"a": 1}, `{"resultType":"complete",` + meta + `,"a":1}`},
		{&Cache{TTL: time.Second, Scope: mcp.CachePublic}, "", struct{}{}, `{"resultType":"complete","ttlMs":1000,"cacheScope":"public",` + meta + `}`},
		{&Cache{}, `{"a": "\n"}`, map[string]int{"b": 1}, `{"resultType":"complete","ttlMs":0,"cacheScope":"private",` +
			`"_meta":{"a":"\n","io.modelcontextprotocol/serverInfo":{"name":"<s>","title":"S","version":"1"}},"b":1}`},
	} {
		got, err := h.appendResult([]byte("before "), []byte(tt.own), tt.cache, tt.value)
		if err != nil || string(got) != "before "+tt.want || !codec.Valid(got[len("before "):]) {
			t.Errorf("got %s, %v\nwant %s", got, err, tt.want)
		}
	}
	for _, own := range []string{`[]`, `{`, `x`, `{"a":1}{}`} {
		if got, err := h.appendResult(nil, []byte(own), nil, struct{}{}); err == nil {
			t.Errorf("_meta %s: got %s", own, got)
		}
	}
	if _, err := h.appendResult(nil, nil, nil, make(chan int)); err == nil {
		t.Error("a value that does not encode is accepted")
	}
}

// TestResultHeadAllocatesNothing checks that a result for 2026-07-28 costs as much as one
// for a session.
func TestResultHeadAllocatesNothing(t *testing.T) {
	if when.RaceEnabled {
		t.Skip("under the race detector pools lose what they have, at random")
	}
	h := newResultHead(mcp.Implementation{Name: "s", Version: "1"})
	result, buf := &mcp.CallToolResult{Content: mcp.Contents{mcp.Text("hello, world")}}, make([]byte, 0, 1024)
	plain := testing.AllocsPerRun(100, func() {
		if _, err := codec.AppendMarshal(buf, result); err != nil {
			t.Error(err)
		}
	})
	headed := testing.AllocsPerRun(100, func() {
		if _, err := h.appendResult(buf, nil, nil, result); err != nil {
			t.Error(err)
		}
	})
	if headed > plain {
		t.Errorf("got %v allocations, %v without a head", headed, plain)
	}
}

func BenchmarkResultHead(b *testing.B) {
	h := newResultHead(mcp.Implementation{Name: "server", Version: "1.0.0"})
	result, buf := &mcp.CallToolResult{Content: mcp.Contents{mcp.Text("hello, world")}}, make([]byte, 0, 1024)
	for name, f := range map[string]func() error{
		"legacy":    func() error { _, err := codec.AppendMarshal(buf, result); return err },
		"stateless": func() error { _, err := h.appendResult(buf, nil, nil, result); return err },
	} {
		b.Run("era="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestOutcomeFor reads what a task has stored: with the bytes that came, but for structured content of a form that a revision does not know.
func TestOutcomeFor(t *testing.T) {
	t.Parallel()
	const blocks = `"content":[{"text":"one","type":"text","own":1.0},{"type":"novel","of":[1,2]}]`
	for _, tt := range []struct {
		revision    mcp.Revision
		value, want string
	}{
		{mcp.Revision20251125, `{"z":{"b":1e2},` + blocks + `,"_meta":{"x":1}}`, `{"z":{"b":1e2},` + blocks + `,"_meta":{"x":1}}`},
		{mcp.Revision20251125, `{"resultType":"complete",` + blocks + `,"more":null}`, `{` + blocks + `,"more":null}`},
		{mcp.Revision20260728, `{"resultType":"complete",` + blocks + `,"structuredContent":[1]}`, `{` + blocks + `,"structuredContent":[1]}`},
		{mcp.Revision20251125, `{"structuredContent":[1],"content":[]}`, `{"content":[{"type":"text","text":"[1]"}]}`},
	} {
		if got, err := outcomeFor([]byte(tt.value), tt.revision); err != nil || string(got) != tt.want {
			t.Errorf("%s: %s is %s, %v", tt.revision, tt.value, got, err)
		}
	}
	if got, err := outcomeFor([]byte(`{"content":1}`), mcp.Latest); err == nil {
		t.Errorf("got %s", got)
	}
}
