package task_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// pasted is the answer of a client that pastes a text.
func pasted(key, text string) string {
	return `"inputResponses":{"` + key + `":{"action":"accept","content":{"answer":"` + text + `"}}}`
}

// TestAngleBracketsTakeAByteEach has a client answer with 85,000 of them, and a handler return many: the record has room for both, and the handler runs once.
func TestAngleBracketsTakeAByteEach(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var effects atomic.Int32
		h := host.New(t, troupe.Options{}, nil)
		add(h, troupe.Tool{Name: "review", Task: troupe.TaskOptional, Needs: mcp.CapClientElicitationForm, Rerun: troupe.Safe},
			func(ctx context.Context, call *troupe.Call, _ WorkIn) (*mcp.CallToolResult, error) {
				if _, err := call.Elicit(ctx, "Paste the page", host.Form); err != nil {
					return nil, err
				}
				effects.Add(1)
				return words(strings.Repeat("<", 60000)), nil
			})
		now := stateless(h, withForms)
		id := now.begin("review", `{}`)
		time.Sleep(time.Second)
		a := now.of("update", id, pasted(keys(t, now.of("get", id))[0], strings.Repeat("<", 85000)))
		time.Sleep(20 * time.Second)
		if got := now.of("get", id); str(t, got, "result", "status") != "completed" || effects.Load() != 1 {
			t.Errorf("after %.100s the task says %.200s, and its handler ran %d times", a, got, effects.Load())
		}
	})
}

// TestAnswersToTheBrim looks for the longest answer that is taken. The task goes on with it as with any other.
func TestAnswersToTheBrim(t *testing.T) {
	when.Unraced(t, "one goroutine does all of it")
	kit.Bubble(t, func(t *testing.T) {
		lines := new(host.Lines)
		h := host.New(t, troupe.Options{Log: slog.New(slog.NewTextHandler(lines, nil)), Limits: troupe.Limits{CallRate: 1e6}, Shared: troupe.SharedLimits{PrincipalRate: 1e6}}, nil)
		add(h, troupe.Tool{Name: "review", Task: troupe.TaskOptional, Needs: mcp.CapClientElicitationForm, Rerun: troupe.Safe},
			func(ctx context.Context, call *troupe.Call, _ WorkIn) (*mcp.CallToolResult, error) {
				_, err := call.Elicit(ctx, "Paste the page", host.Form)
				return words(strings.Repeat("r", 60000)), err
			})
		now := stateless(h, withForms)
		try := func(filler int) (id string, taken bool) {
			id = now.begin("review", `{}`)
			time.Sleep(time.Second)
			a := now.of("update", id, pasted(keys(t, now.of("get", id))[0], strings.Repeat("<", 80000)+strings.Repeat("x", filler)))
			return id, strings.Contains(a, `"complete"`)
		}
		low, high := 0, 400000
		for low+1 < high {
			mid := (low + high) / 2
			if _, ok := try(mid); ok {
				low = mid
			} else {
				high = mid
			}
		}
		if low < 100000 {
			t.Errorf("the longest answer that is taken has %d bytes", 80000+low)
		}
		id, _ := try(low)
		time.Sleep(time.Minute)
		if status := str(t, now.of("get", id), "result", "status"); status != "completed" {
			t.Errorf("a task with the longest answer is %q", status)
		}
		if text := lines.String(); strings.Contains(text, "cannot be read now") {
			t.Errorf("the log says %.300s", text)
		}
	})
}
