package limits_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// raw sends a request on a connection of its own, whose response nobody reads.
func raw(h *host.Host, request string) net.Conn {
	h.T.Helper()
	conn, err := h.Listener.Dial(h.T.Context(), "", "")
	if err != nil {
		h.T.Fatal(err)
	}
	h.T.Cleanup(func() { _ = conn.Close() })
	go func() { _, _ = io.WriteString(conn, request) }() // a large body is read only as far as it is held
	return conn
}

// inSession is a request of c's session, with a body or none.
func inSession(c *kit.Client, method, body string) string {
	head := method + " /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
	if c != nil {
		head += "Mcp-Session-Id: " + c.Session + "\r\n"
	}
	if body != "" {
		head += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	return head + "\r\n" + body
}

// stateless is a request of 2026-07-28.
func stateless(method, name, params string) string {
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/logLevel":"debug","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}`
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,%s}}`, method, params, meta)
	head := "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n" +
		"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: " + method + "\r\n"
	if name != "" {
		head += "Mcp-Name: " + name + "\r\n"
	}
	return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body), body)
}

// TestBytesHeld compares what is counted for what clients hold with what the heap and the stacks grow by: each within a
// factor of two of the other. docs/limits.md has what is counted.
func TestBytesHeld(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	when.Long(t, "it measures memory")
	big := strings.Repeat("x", 1<<20)
	// What was just written to the log stays in memory in blocks of 8 MiB, until real time passes: the store does not ask the virtual
	// clock. A resume from the memory of the node does not read them, after which they would go.
	blocks := map[string]int64{"resumes that are not read": 5 * 8 << 20}
	maps := strings.TrimSuffix(strings.Repeat("{},", 20_000), ",")
	for _, row := range []struct {
		name string
		n    int
		hold func(h *host.Host, c *kit.Client, i int)
	}{
		{"calls in flight", 300, func(h *host.Host, c *kit.Client, i int) {
			raw(h, inSession(c, "POST", host.Call(fmt.Sprint(i), "wait", `{}`)))
		}},
		{"calls in flight with 1 MiB each", 20, func(h *host.Host, c *kit.Client, i int) {
			raw(h, inSession(c, "POST", host.Call(fmt.Sprint(i), "wait", `{"text":"`+big+`"}`)))
		}},
		{"bodies on their way", 20, func(h *host.Host, c *kit.Client, i int) {
			all := inSession(c, "POST", host.Call(fmt.Sprint(i), "wait", `{"text":"`+big+`"}`))
			raw(h, all[:len(all)-10])
		}},
		{"arguments of 20,000 values", 10, func(h *host.Host, c *kit.Client, i int) {
			raw(h, inSession(c, "POST", host.Call(fmt.Sprint(i), "decode", `{"list":[`+maps+`]}`)))
		}},
		{"standalone streams", 300, func(h *host.Host, _ *kit.Client, _ int) {
			raw(h, inSession(h.Unchecked().Initialize(`{}`), "GET", ""))
		}},
		{"unread events", 30, func(h *host.Host, _ *kit.Client, _ int) { // without a session, as the store keeps the others
			raw(h, stateless("tools/call", "talk", `"name":"talk","arguments":{}`))
		}},
		{"resumes that are not read", 10, func(h *host.Host, _ *kit.Client, _ int) {
			c := h.Unchecked().Initialize(`{}`)
			a := c.Post(host.Call("1", "burst", `{}`))
			e, _ := a.Next()
			time.Sleep(time.Second)
			a.Close()
			raw(h, strings.TrimSuffix(inSession(c, "GET", ""), "\r\n")+"Last-Event-ID: "+e.ID+"\r\n\r\n")
		}},
		{"unread responses", 20, func(h *host.Host, c *kit.Client, i int) {
			raw(h, inSession(c, "POST", host.Call(fmt.Sprint(i), "large", `{}`)))
		}},
		{"sessions", 500, func(h *host.Host, _ *kit.Client, _ int) { h.Unchecked().Initialize(`{}`) }},
		{"stateless calls in flight", 300, func(h *host.Host, _ *kit.Client, _ int) {
			raw(h, stateless("tools/call", "wait", `"name":"wait","arguments":{}`))
		}},
		{"parked calls of 100 kB", 100, func(h *host.Host, _ *kit.Client, _ int) {
			conn := raw(h, stateless("tools/call", "question", `"name":"question","arguments":{"text":"`+big[:100_000]+`"}`))
			go func() { _, _ = io.Copy(io.Discard, conn) }()
		}},
		{"kept responses of 60 kB", 100, func(h *host.Host, _ *kit.Client, _ int) {
			m := h.Stateless(host.EveryCapability)
			a, id := m.Tool("answering", `{}`)
			m.Tool("answering", `{}`, m.Parked(a, id, "elicit"), host.Given("elicit", "x"))
		}},
		{"listeners for 100 resources", 200, func(h *host.Host, _ *kit.Client, i int) {
			uris := make([]string, 100)
			for k := range uris {
				uris[k] = fmt.Sprintf("%q", fmt.Sprintf("test://r/%d/%d", i, k))
			}
			raw(h, stateless("subscriptions/listen", "", `"notifications":{"resourceSubscriptions":[`+strings.Join(uris, ",")+`]}`))
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				h := host.New(t, troupe.Options{Limits: troupe.Limits{CallsPerSession: -1, CallRate: -1, StreamsPerSession: -1, Grace: time.Hour, LogRate: -1, WriteTimeout: time.Hour, BodyTimeout: time.Hour},
					Dir: t.TempDir(), Shared: troupe.SharedLimits{PrincipalRate: -1, MaxMemory: 8 << 30}}, nil)
				end := make(chan struct{})
				t.Cleanup(func() { close(end) })
				addHolders(h, end, big)
				addAnswering(h, big[:60_000])
				c := h.Unchecked().Initialize(`{}`)
				row.hold(h, c, 10_000) // what the first makes for all
				synctest.Wait()
				counted, used := h.HeldBytes(), host.InUse()
				for i := range row.n {
					row.hold(h, c, i)
				}
				time.Sleep(20 * time.Second) // the store keeps what it has just written in memory for a moment
				synctest.Wait()
				counted, used = h.HeldBytes()-counted, host.InUse()-used
				t.Logf("%d x %s: %d bytes each, %d counted", row.n, row.name, used/int64(row.n), counted/int64(row.n))
				if counted < (used-blocks[row.name])/2 || counted > used*2 {
					t.Errorf("%s: %d bytes are counted, %d are used", row.name, counted, used)
				}
			})
		})
	}
}

// addHolders adds tools that hold what they get until end.
func addHolders(h *host.Host, end <-chan struct{}, big string) {
	wait := func(ctx context.Context) {
		select {
		case <-end:
		case <-ctx.Done():
		}
	}
	type text struct {
		Text string `json:"text,omitempty"`
	}
	troupe.AddTool(h.Server, troupe.Tool{Name: "wait", Description: "d"}, func(ctx context.Context, _ *troupe.Call, _ text) (string, error) {
		wait(ctx)
		return "", nil
	})
	troupe.AddTool(h.Server, troupe.Tool{Name: "decode", Description: "d", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, _ *troupe.Call, in map[string]any) (string, error) {
		wait(ctx)
		return fmt.Sprint(len(in)), nil
	})
	troupe.AddTool(h.Server, troupe.Tool{Name: "talk", Description: "d"}, func(ctx context.Context, call *troupe.Call, _ text) (string, error) {
		_ = call.Log(ctx, mcp.LevelError, "test", big[:500_000])
		wait(ctx)
		return "", nil
	})
	troupe.AddTool(h.Server, troupe.Tool{Name: "burst", Description: "d"}, func(ctx context.Context, call *troupe.Call, _ text) (string, error) {
		for range 16 {
			_ = call.Log(ctx, mcp.LevelError, "test", big[:200_000])
			time.Sleep(10 * time.Millisecond)
		}
		return "", nil
	})
	troupe.AddTool(h.Server, troupe.Tool{Name: "large", Description: "d"}, func(context.Context, *troupe.Call, text) (string, error) {
		return big, nil
	})
	troupe.AddTool(h.Server, troupe.Tool{Name: "question", Description: "d", Needs: mcp.CapClientElicitationForm}, func(ctx context.Context, call *troupe.Call, _ text) (string, error) {
		_, err := call.Elicit(ctx, "?", host.Form)
		return "", err
	})
}
