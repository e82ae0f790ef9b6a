//go:build full && linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A caller is a client of a process. Its zero value but for the process is a client of 2026-07-28.
type caller struct {
	to      *process
	tls     bool
	address string // that a proxy would name, "" for none
	session string // of 2025-11-25
}

// send sends a request, and returns the response, whose body the caller must close.
func (c *caller) send(ctx context.Context, method, body string, more ...string) (*http.Response, error) {
	base := "http://"
	if c.tls {
		base = "https://"
	}
	req, err := http.NewRequestWithContext(ctx, method, base+c.to.address+"/mcp", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if c.session != "" {
		more = append(more, "Mcp-Session-Id", c.session, "Mcp-Protocol-Version", "2025-11-25")
	}
	if c.address != "" {
		more = append(more, "X-Forwarded-For", c.address)
	}
	for i := 0; i < len(more); i += 2 {
		req.Header.Set(more[i], more[i+1])
	}
	return client.Do(req)
}

// readAll reads a response to its end.
func readAll(resp *http.Response, err error) (int, string, error) {
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// ask makes a request without a session. name is that of the tool or prompt, "" for none.
func (c *caller) ask(ctx context.Context, method, name, params string) (int, string, error) {
	if params != "" {
		params += ","
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"watch","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`, method, params)
	header := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	if name != "" {
		header = append(header, "Mcp-Name", name)
	}
	return readAll(c.send(ctx, "POST", body, header...))
}

// tool calls a tool without a session.
func (c *caller) tool(ctx context.Context, name, arguments string) (int, string, error) {
	return c.ask(ctx, "tools/call", name, fmt.Sprintf(`"name":%q,"arguments":%s`, name, arguments))
}

// begin begins a session, whose client can answer questions.
func (c *caller) begin(ctx context.Context) error {
	return c.beginWith(ctx, `"elicitation":{"form":{}}`)
}

// beginWith begins a session of a client with capabilities.
func (c *caller) beginWith(ctx context.Context, capabilities string) error {
	resp, err := c.send(ctx, "POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{%s},"clientInfo":{"name":"watch","version":"1"}}}`, capabilities))
	if err != nil {
		return err
	}
	session := resp.Header.Get("Mcp-Session-Id")
	if status, body, err := readAll(resp, nil); err != nil || session == "" {
		return fmt.Errorf("initialize: %d %s, %v", status, body, err)
	}
	c.session = session
	if status, body, err := readAll(c.send(ctx, "POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)); err != nil || status != http.StatusAccepted {
		return fmt.Errorf("initialized: %d %s, %v", status, body, err)
	}
	return nil
}

// started is begin for a test.
func (c *caller) started(t *testing.T) *caller {
	t.Helper()
	if err := c.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// call calls a tool in the session, with what else params have, and returns the response.
func (c *caller) call(ctx context.Context, id int, name, arguments, more string) (*http.Response, error) {
	return c.send(ctx, "POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{"progressToken":%d}%s}}`, id, name, arguments, id, more))
}

// events reads the events of a stream, and hands each one over with its id, until the stream or take ends it.
func events(resp *http.Response, take func(id, data string) (more bool)) {
	defer resp.Body.Close()
	id, data := "", ""
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		line := lines.Text()
		if v, ok := strings.CutPrefix(line, "id: "); ok {
			id = v
		}
		if v, ok := strings.CutPrefix(line, "data: "); ok {
			data = v
		}
		if line == "" && data != "" { // a whole event
			if !take(id, data) {
				return
			}
			data = ""
		}
	}
}

// A load is calls that go on at a rate, over the callers in turn.
type load struct {
	rate atomic.Int64 // a second
	made atomic.Int64
}

// newLoad begins a load that ends with the test.
func newLoad(t *testing.T, rate int64, callers ...*caller) *load {
	l := &load{}
	l.rate.Store(rate)
	ctx, stop := context.WithCancel(context.Background())
	var over sync.WaitGroup
	over.Go(func() {
		began, due := time.Now(), 0.0
		for ctx.Err() == nil {
			now := time.Now()
			due += now.Sub(began).Seconds() * float64(l.rate.Load())
			began = now
			for due = min(due, 100); due >= 1 && ctx.Err() == nil; due-- {
				c := callers[int(l.made.Add(1))%len(callers)]
				within, cancel := context.WithTimeout(ctx, 10*time.Second)
				_, _, _ = c.tool(within, "echo", `{"text":"x"}`) // what comes of it is what the metrics say
				cancel()
			}
			ago(ctx, 10*time.Millisecond)
		}
	})
	t.Cleanup(func() {
		stop()
		over.Wait()
	})
	return l
}

// repeatedly does something again and again, with a pause between, until the returned function ends it.
func repeatedly(pause time.Duration, do func(ctx context.Context, n int)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var over sync.WaitGroup
	over.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			do(ctx, n)
			ago(ctx, pause)
		}
	})
	return func() {
		cancel()
		over.Wait()
	}
}
