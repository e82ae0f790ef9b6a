//go:build unix && full

package main

import (
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestPausedProcess stops the process for longer than the records of its streams live, as a
// closed lid or a snapshot of the machine does. Every running call of every class gets its
// response, though the store has forgotten the streams when the process goes on.
func TestPausedProcess(t *testing.T) {
	t.Parallel()
	const asleep = 7 * time.Second // records live for 4 s, events for 9 s
	p := start(t, "--data", t.TempDir(), "--set", "lease=5s", "--set", "replay-age=3s", "--drain-delay", "0s")
	s := sit(t, p, "2025-11-25")
	type result struct {
		body string
		err  error
	}
	var answers []chan result
	for i, tool := range []string{`"sleep","arguments":{"ms":9000}`, `"count","arguments":{"to":9,"delay_ms":1000}`, `"test_tool_with_progress","arguments":{}`} {
		x, err := p.post(t.Context(), fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%s,"_meta":{"progressToken":%d}}}`, i, tool, i), s.header()...)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan result, 1)
		answers = append(answers, done)
		go func() {
			defer x.close()
			all, err := io.ReadAll(x.Body)
			done <- result{string(all), err}
		}()
	}
	time.Sleep(time.Second) // the calls run
	p.signal(t, syscall.SIGSTOP)
	time.Sleep(asleep)
	p.signal(t, syscall.SIGCONT)
	for i, done := range answers {
		select {
		case r := <-done:
			if r.err != nil || !strings.Contains(r.body, `"result":`) {
				t.Errorf("call %d: %v, %s", i, r.err, r.body)
			}
		case <-time.After(hung):
			t.Errorf("call %d was not answered\n%s", i, p.stderr)
		}
	}
	// Whether the store forgets them before their records are renewed is a race at the wake-up;
	// TestForgottenIsNotTaken has each outcome.
	t.Logf("%d streams were forgotten and stored again", strings.Count(p.stderr.String(), "it is stored again"))
}
