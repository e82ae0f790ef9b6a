package telemetry_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// logged runs four calls of ann, one of which fails and one of which takes two seconds, and returns what is logged of them:
// the method, the target and the outcome.
func logged(t *testing.T, which troupe.RequestLog) (calls []string, raw string) {
	lines := &host.Lines{}
	which.Log = slog.New(slog.NewJSONHandler(lines, nil))
	h := host.New(t, troupe.Options{Telemetry: troupe.Telemetry{Requests: which}, Authenticate: host.User}, nil)
	h.AddTool("fails", 0, func(context.Context, *troupe.Call) (string, error) { return "", errors.New("no") })
	c := host.As(h.Client(), "ann")
	c.Initialize(`{}`)
	c.Post(host.Call("2", "echo", `{"text":"a secret"}`))
	c.Post(host.Call("3", "fails", `{}`))
	host.Last(t, c.Post(host.Call("4", "sleep", `{"ms":2000}`)))
	c.Post(host.Call("5", "a made up secret", `{}`))
	synctest.Wait()
	raw = lines.String()
	for line := range strings.Lines(raw) {
		var said struct {
			Principal, Server, Method, Target, Revision, Outcome string
			Duration                                             time.Duration
		}
		if err := json.Unmarshal([]byte(line), &said); err != nil {
			t.Fatal(err)
		}
		if said.Principal == "" || said.Server != "main" || said.Revision != "2025-11-25" || said.Duration < 0 || said.Target == "sleep" && said.Duration < 2*time.Second {
			t.Errorf("the log has %s", line)
		}
		calls = append(calls, strings.TrimSpace(said.Method+" "+said.Target)+" "+said.Outcome)
	}
	return calls, raw
}

// TestRequestLog: each request that was asked for has one line, which says who called what, and nothing of what was sent.
func TestRequestLog(t *testing.T) {
	for name, tt := range map[string]struct {
		which troupe.RequestLog
		want  []string
	}{
		"all":             {troupe.RequestLog{All: true}, []string{"initialize ok", "notifications/initialized ok", "tools/call echo ok", "tools/call fails tool_error", "tools/call sleep ok", "tools/call -32602"}},
		"errors":          {troupe.RequestLog{Errors: true}, []string{"tools/call fails tool_error", "tools/call -32602"}},
		"slow":            {troupe.RequestLog{Slow: time.Second}, []string{"tools/call sleep ok"}},
		"errors and slow": {troupe.RequestLog{Errors: true, Slow: time.Second}, []string{"tools/call fails tool_error", "tools/call sleep ok", "tools/call -32602"}},
		"none":            {troupe.RequestLog{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				calls, raw := logged(t, tt.which)
				compare(t, "lines", calls, tt.want)
				if strings.Contains(raw, "secret") {
					t.Errorf("the log has what was sent:\n%s", raw)
				}
			})
		})
	}
}
