//go:build unix

package compare

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// runProbe runs a probe as a process of its own, which a test may kill.
func runProbe(t *testing.T, library, addr, dir string, env ...string) program {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return run(t, exe, addr, append([]string{"PROBE=" + library, "DATA=" + dir}, env...)...)
}

// kill ends the program as the kernel does that is out of memory.
func (p program) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.exited
}

// TestPanic has a handler panic, and looks whether its client is answered and the process lives.
func TestPanic(t *testing.T) {
	for _, test := range []struct {
		library  string
		env      []string
		answered string // a part of the answer; empty where the connection breaks
		lives    bool
	}{
		{"troupe", nil, "-32603", true},
		{"gosdk", nil, "", false},
		{"mcpgo", nil, "", true},
		{"mcpgo", []string{"RECOVERY=1"}, "boom", true},
	} {
		t.Run(fmt.Sprint(test.library, test.env), func(t *testing.T) {
			p := runProbe(t, test.library, freeAddress(t), "", test.env...)
			session := begin(t, p.url+"/mcp")
			a, err := send(t, "POST", p.url+"/mcp", toolCall(3, "boom", "{}"), session)
			if answered := err == nil && a.body != ""; answered != (test.answered != "") || !strings.Contains(a.body, test.answered) {
				t.Errorf("%+v, %v", a, err)
			}
			if test.lives {
				if a := must(t, "POST", p.url+"/mcp", list, session); a.status != http.StatusOK {
					t.Errorf("after it: %+v", a)
				}
				return
			}
			select {
			case err := <-p.exited:
				if err == nil || err.Error() != "exit status 2" {
					t.Errorf("it ends with %v", err)
				}
			case <-time.After(patience):
				t.Error("it lives")
			}
		})
	}
}

// TestKill kills a process in the middle of a call, starts it again on the same data, and comes back for the response.
func TestKill(t *testing.T) {
	for _, want := range []struct {
		library, env    string
		session, resume int
		response        bool
	}{
		{"troupe", "", http.StatusOK, http.StatusOK, true},
		{"gosdk", "", http.StatusNotFound, http.StatusNotFound, false},
		{"mcpgo", "", http.StatusOK, http.StatusBadRequest, false}, // it takes any id for a session's
		{"mcpgo", "STATEFUL=1", http.StatusNotFound, http.StatusBadRequest, false},
	} {
		t.Run(want.library+want.env, func(t *testing.T) {
			addr, dir := freeAddress(t), t.TempDir()
			p := runProbe(t, want.library, addr, dir, want.env)
			session := begin(t, p.url+"/mcp")
			id := startCall(t, p.url+"/mcp", session)
			p.kill(t)

			p = runProbe(t, want.library, addr, dir, want.env, "RELEASED=1")
			if a := must(t, "POST", p.url+"/mcp", list, session); a.status != want.session {
				t.Errorf("the session: %+v", a)
			}
			a := must(t, "GET", p.url+"/mcp", "", session, "Last-Event-ID: "+id)
			if response := strings.Contains(a.body, `"done"`); a.status != want.resume || response != want.response {
				t.Errorf("the stream: %+v", a)
			}
		})
	}
}

// startCall calls wait, and returns the id of the event by which it says that it waits.
func startCall(t *testing.T, url, session string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(toolCall(3, "wait", "{}")))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	name, value, _ := strings.Cut(session, ": ")
	r.Header.Set(name, value)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	var id string
	for s := bufio.NewScanner(resp.Body); s.Scan(); {
		if after, ok := strings.CutPrefix(s.Text(), "id: "); ok {
			id = after
		}
		if strings.Contains(s.Text(), "notifications/progress") && id != "" {
			return id
		}
	}
	t.Fatal("the stream ended before the call said that it waits")
	return ""
}

// TestKillStateless kills a process of Troupe in the middle of a call of a client of 2026-07-28 that declares the extension of
// tasks: the call has become a task, which goes on in the next process.
func TestKillStateless(t *testing.T) {
	const capabilities = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	addr, dir := freeAddress(t), t.TempDir()
	p := runProbe(t, "troupe", addr, dir)
	a := stateless(t, p.url+"/mcp", "tools/call", "long", `"name":"long","arguments":{},`, capabilities)
	task, ok := a.result(t).Result["taskId"].(string)
	if !ok {
		t.Fatalf("no task: %+v", a)
	}
	p.kill(t)

	p = runProbe(t, "troupe", addr, dir, "RELEASED=1")
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		a := stateless(t, p.url+"/mcp", "tasks/get", task, fmt.Sprintf(`"taskId":%q,`, task), capabilities)
		status := a.result(t).Result
		if status["status"] == "completed" {
			if raw, _ := json.Marshal(status["result"]); !strings.Contains(string(raw), `"done"`) {
				t.Errorf("%+v", a)
			}
			return
		}
		if status["status"] != "working" || time.Now().After(end) {
			t.Fatalf("%+v", a)
		}
	}
}
