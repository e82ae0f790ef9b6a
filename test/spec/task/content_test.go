package task_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// contents are results with each type of content.
var contents = map[string]mcp.CallToolResult{
	"text":          {Content: mcp.Contents{mcp.Text("a \"☃\" \u2028 <b>")}},
	"nothing":       {Content: mcp.Contents{}},
	"image":         {Content: mcp.Contents{mcp.Image([]byte{0, 1, 254, 255}, "image/png")}},
	"audio":         {Content: mcp.Contents{mcp.Audio([]byte{0, 1, 254, 255}, "audio/wav")}},
	"link":          {Content: mcp.Contents{mcp.Link(mcp.Resource{URI: "x:1", Name: "one", Title: "One", Description: "first", MIMEType: "text/plain"})}},
	"embedded text": {Content: mcp.Contents{mcp.Embed(mcp.TextResource("x:1", "text/plain", "words"))}},
	"embedded blob": {Content: mcp.Contents{mcp.Embed(mcp.BlobResource("x:2", "application/octet-stream", []byte{255, 0}))}},
	"structured":    {Content: mcp.Contents{mcp.Text("{}")}, StructuredContent: json.RawMessage(`{"n":1.0,"big":12345678901234567890,"deep":{"a":[null,true,""]}}`)},
	"a list":        {Content: mcp.Contents{mcp.Text("[1]")}, StructuredContent: json.RawMessage(`[1]`)},
	"an error":      {Content: mcp.Contents{mcp.Text("no luck"), mcp.Image([]byte{7}, "image/png")}, IsError: true},
	"metadata":      {Content: mcp.Contents{mcp.Text("x")}, Meta: mcp.Meta{"example.com/own": json.RawMessage(`{"a":[1]}`)}},
	"everything": {Content: mcp.Contents{mcp.Text("x"), mcp.Image([]byte{1}, "image/png"), mcp.Audio([]byte{2}, "audio/wav"),
		mcp.Link(mcp.Resource{URI: "x:1", Name: "one"}), mcp.Embed(mcp.TextResource("x:1", "", "words"))},
		StructuredContent: json.RawMessage(`{"a":1}`), Meta: mcp.Meta{"example.com/own": mcp.Raw(1)}},
}

// TestEachContentIsReadInBothEras makes a task of each era with each type of content, and reads it in the same era, in the other one, and
// in the next process: every reader gets what it would have got for the call.
func TestEachContentIsReadInBothEras(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		start := func(dir string) *host.Host {
			h := serve(t, troupe.Options{Dir: dir, Limits: host.Unhurried.Limits, Shared: host.Unhurried.Shared}, nil)
			add(h, troupe.Tool{Name: "give", Task: troupe.TaskOptional, Rerun: troupe.Safe}, func(_ context.Context, _ *troupe.Call, in WorkIn) (*mcp.CallToolResult, error) {
				r := contents[in.Text]
				return &r, nil
			})
			return h
		}
		type made struct{ what, id string }
		h := start(dir)
		old, now := session(h), stateless(h, withTasks)
		var tasks []made
		for _, what := range slices.Sorted(maps.Keys(contents)) {
			args := fmt.Sprintf(`{"text":%q}`, what)
			tasks = append(tasks, made{what, begin(t, old, "give", args)}, made{what, now.begin("give", args)})
		}
		read := func(h *host.Host, old *kit.Client, where string) {
			now, plain := stateless(h, withTasks), stateless(h, `{}`)
			for _, m := range tasks {
				args, status := fmt.Sprintf(`{"text":%q}`, m.what), "completed"
				if contents[m.what].IsError {
					status = "failed"
				}
				what := m.what + where
				// 2026-07-28
				got, want := at(t, now.await(m.id, "completed"), "result", "result"), at(t, plain.call("give", args), "result")
				same(t, what+" in 2026-07-28", without(t, got, "_meta"), without(t, want, "_meta"))
				host.Equal(t, what+": own _meta", at(t, got, "_meta", "example.com/own"), at(t, want, "_meta", "example.com/own"))
				host.Equal(t, what+": structured as it was", at(t, got, "structuredContent"), at(t, want, "structuredContent"))
				// 2025-11-25
				host.Equal(t, what+": status", str(t, old.Post(of("get", m.id)).Body, "result", "status"), status)
				answer := body(t, old.Post(of("result", m.id)))
				legal(t, answer, "CallToolResult")
				got, want = at(t, answer, "result"), at(t, body(t, old.Post(host.Call("2", "give", args))), "result")
				same(t, what+" in 2025-11-25", without(t, got, "_meta"), without(t, want, "_meta"))
				host.Equal(t, what+": own _meta", at(t, got, "_meta", "example.com/own"), at(t, want, "_meta", "example.com/own"))
				host.Equal(t, what+": the task", str(t, got, "_meta", related, "taskId"), m.id)
			}
		}
		for _, m := range tasks {
			now.await(m.id, "completed")
		}
		time.Sleep(5 * time.Second)
		read(h, old, "")
		next := start(host.CopyDir(t, dir))
		read(next, next.Moved(old), ", after a restart")
		// Older sessions have no tasks, also not those of others.
		for _, r := range []string{host.R20241105, host.R20250326, host.R20250618} {
			if a := h.Unchecked().InitializeAs(r, `{}`).Post(of("get", tasks[0].id)).Body; !strings.Contains(a, "-32601") {
				t.Errorf("%s: %s", r, a)
			}
		}
	})
}
