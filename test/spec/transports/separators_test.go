package transports_test

import (
	"context"
	"strings"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestSeparators sends text with U+2028 and U+2029, where many readers end a line, over every transport that has lines. An id
// and a progress token that have them go out as they came.
func TestSeparators(t *testing.T) {
	const text = "a\u2028b\u2029c\u0085d"
	const inJSON = `a\u2028b\u2029c` + "\u0085d"
	const id = "\"x\u2028\""
	call := `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"say","arguments":{},"_meta":{"progressToken":` + id + `}}}`
	add := func(s *troupe.Server) {
		troupe.AddTool(s, troupe.Tool{Name: "say"}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			_ = call.Progress(ctx, 1, 2, text)
			return text, call.Log(ctx, mcp.LevelError, "", text)
		})
	}
	check := func(what string, messages []string) {
		t.Helper()
		all := strings.Join(messages, "\n")
		switch {
		case len(messages) != 3 || strings.Count(all, inJSON) != 3 || strings.Contains(all, text):
			t.Errorf("%s: got %+q, want the text three times, escaped", what, messages)
		case strings.Count(all, `"progressToken":`+id) != 1 || strings.Count(all, `"id":`+id) != 1:
			t.Errorf("%s: got %+q, want the id and the token as they came", what, messages)
		}
	}
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		add(h.Server)
		a := h.Unchecked().InitializeAs("2025-06-18", `{}`).Post(call)
		check("Streamable HTTP", host.Payloads(a.All()))

		s := h.SSE()
		s.Handshake("2025-06-18", `{}`)
		messages := []string{s.Ask(call)}
		for len(messages) < 3 {
			m, ok := s.Next()
			if !ok {
				break
			}
			messages = append(messages, m)
		}
		check("HTTP+SSE", messages)
	})
	kit.Bubble(t, func(t *testing.T) {
		p := host.NewPipe(t, troupe.Options{})
		add(p.Server)
		p.Initialize("2025-11-25")
		p.Send(call)
		check("stdio", []string{p.Next(), p.Next(), p.Next()})
	})
}
