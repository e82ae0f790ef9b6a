package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/test/kit"
)

// counting is what a client saw of a call of the tool count.
type counting struct {
	progress []int
	results  int
	err      error
}

var progressOf = regexp.MustCompile(`"progress":(\d+)`)

// count calls the tool and reads its stream to the end. It calls first when the first
// number has come.
func (p *process) count(ctx context.Context, session string, id, to int, first func()) (c counting) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"count","arguments":{"to":%d,"delay_ms":25},"_meta":{"progressToken":"p%d"}}}`, id, to, id)
	req, err := http.NewRequestWithContext(ctx, "POST", p.base+"/mcp", strings.NewReader(body))
	if err != nil {
		return counting{err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Session-Id", session)
	req.Header.Set("MCP-Protocol-Version", "2025-11-25")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return counting{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return counting{err: fmt.Errorf("status %d", resp.StatusCode)}
	}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		line := lines.Text()
		if m := progressOf.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[1])
			if c.progress = append(c.progress, n); n == 1 {
				first()
			}
		}
		if strings.Contains(line, `"result"`) && strings.Contains(line, fmt.Sprintf("counted to %d", to)) {
			c.results++
		}
	}
	return c
}

// awaitReady waits until /readyz has the status and the text.
func (p *process) awaitReady(t *testing.T, status int, text string) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		got, _, body := p.request(t, "GET", "/readyz", "", "")
		if got == status && strings.Contains(body, text) {
			return
		}
		select {
		case <-late:
			t.Fatalf("/readyz is still answered with %d: %s\n%s", got, body, p.stderr)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestFullDiskProcess fills the disk while calls run, and makes room again: the same
// process answers every call, with all its progress, and says meanwhile that it is not
// ready.
func TestFullDiskProcess(t *testing.T) {
	t.Parallel()
	disk := kit.SmallDisk(t, 48<<20)
	p := start(t, "--data", filepath.Join(disk, "data"), "--drain-delay", "0s")
	session := p.session(t)
	const calls, to = 12, 240
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	ended, began := make(chan counting, calls), make(chan struct{}, calls)
	for id := range calls {
		go func() { ended <- p.count(ctx, session, 10+id, to, func() { began <- struct{}{} }) }()
	}
	for range calls {
		select {
		case <-began:
		case c := <-ended:
			t.Fatalf("a call ended before the disk was full: %+v", c)
		}
	}
	p.awaitReady(t, http.StatusOK, "ready")
	room := kit.FillDisk(t, disk)
	p.awaitReady(t, http.StatusServiceUnavailable, "the disk of the store is full")
	if status, _, body := p.request(t, "GET", "/healthz", "", ""); status != http.StatusOK {
		t.Errorf("/healthz is answered with %d at once: %s", status, body)
	}
	if _, _, metrics := p.request(t, "GET", "/metrics", "", ""); !strings.Contains(metrics, "\ntroupe_store_failed_ratio 1\n") && !strings.Contains(metrics, "\ntroupe_store_failed 1\n") {
		t.Errorf("/metrics does not tell of the full disk:\n%s", metrics)
	}
	// After a shorter wait, a store that only tries again would look like one without a
	// fault.
	select {
	case c := <-ended:
		t.Errorf("a call ended while nothing could be stored: %+v", c)
	case <-time.After(3 * time.Second):
	}
	room()
	p.awaitReady(t, http.StatusOK, "ready")
	for range calls {
		c := <-ended
		if c.err != nil || c.results != 1 || len(c.progress) == 0 {
			t.Errorf("a call ended with %v, %d results after %d numbers", c.err, c.results, len(c.progress))
			continue
		}
		last := 0
		for _, n := range c.progress {
			if n <= last {
				t.Errorf("progress %d came after %d", n, last)
			}
			last = n
		}
		if last != to {
			t.Errorf("the last number was %d, want %d", last, to)
		}
	}
	p.echo(t, session)
	p.echo(t, p.session(t))
	if _, _, metrics := p.request(t, "GET", "/metrics", "", ""); !regexp.MustCompile(`\ntroupe_store_restarts_total [1-9]`).MatchString(metrics) {
		t.Errorf("/metrics counts no restart of the store:\n%s", metrics)
	}
}
