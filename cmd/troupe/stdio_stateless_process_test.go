package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// alone makes a request of 2026-07-28 whose response is the next message.
func (p *stdioProcess) alone(id, method, params string) (a answered) {
	p.t.Helper()
	p.send(aloneBody(id, method, params))
	text := p.message()
	if err := json.Unmarshal([]byte(text), &a); err != nil || string(a.ID) != id {
		p.t.Fatalf("%s %s is answered with %s", id, method, text)
	}
	a.Body = text
	return a
}

// want reads a message and compares it.
func (p *stdioProcess) want(what, message string) {
	p.t.Helper()
	if got := p.message(); got != message {
		p.t.Errorf("%s: got %s\nwant %s", what, got, message)
	}
}

func note(id, method, rest string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/%s","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}%s}}`, method, id, rest)
}

// listen opens a listener for one resource.
func (p *stdioProcess) listen(id string) {
	p.t.Helper()
	p.send(aloneBody(id, "subscriptions/listen", `"notifications":{"resourceSubscriptions":["test://watched-resource"]}`))
	p.want("acknowledged", note(id, "subscriptions/acknowledged", `,"notifications":{"resourceSubscriptions":["test://watched-resource"]}`))
}

// begunAlone starts a process whose client tries the newest revision first, and asks
// for everything that this revision has.
func begunAlone(t *testing.T, args ...string) *stdioProcess {
	p := startStdio(t, args...)
	if a := p.alone("1", "server/discover", ""); !strings.Contains(a.Body, `"supportedVersions":["2026-07-28","2025-11-25","2025-06-18"`) {
		t.Errorf("it discovers %s", a.Body)
	}
	if a := p.alone(`"two"`, "tools/call", tool("echo", `{"text":"x"}`)); a.says() != "x" {
		t.Errorf("echo: %s", a.Body)
	}
	if a := p.alone("3", "tools/call", tool("guarded", `{}`)); a.says() != "written by the program that has started this one" {
		t.Errorf("guarded, which may do anything here: %s", a.Body)
	}
	return p
}

func TestStdioProcessServesBothEras(t *testing.T) {
	t.Parallel()
	p := begunAlone(t)
	asked := p.alone("3", "tools/call", tool("test_input_required_result_multi_round", `{}`))
	for _, round := range [][3]string{{"step1", "name", "Ada"}, {"step2", "color", "green"}} {
		if want := "asks " + round[0]; asked.says() != want {
			t.Fatalf("got %s, want %s", asked.Body, want)
		}
		k := asking{params: tool("test_input_required_result_multi_round", `{}`), state: asked.Result.RequestState}
		asked = p.alone(`"r"`, "tools/call", k.given(form(round[0], round[1], round[2])))
	}
	if asked.says() != "Ada likes green" {
		t.Errorf("after both rounds: %s", asked.Body)
	}

	p.listen(`"L"`)
	const touch = `{"uri":"test://watched-resource"}`
	p.send(aloneBody("4", "tools/call", tool("touch", touch)))
	told := map[string]bool{p.message(): true, p.message(): true} // in either order
	if !told[note(`"L"`, "resources/updated", `,"uri":"test://watched-resource"`)] {
		t.Errorf("after a touch: %v", told)
	}

	// A client of an older revision, in the same process.
	p.begin()
	p.send(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"echo","arguments":{"text":"y"}}}`)
	p.want("echo", `{"jsonrpc":"2.0","id":5,"result":{"content":[{"type":"text","text":"y"}]}}`)

	// A cancelled call and a cancelled listener send nothing more.
	p.send(aloneBody("6", "tools/call", tool("count", `{"to":1000,"delay_ms":60000}`)))
	p.send(aloneBody("7", "tools/call", tool("sleep", `{"ms":3600000}`)))
	for _, id := range []string{"6", "7", `"L"`} {
		p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
	}
	if a := p.alone("8", "tools/call", tool("touch", touch)); a.says() != "touched test://watched-resource" {
		t.Error(a.Body)
	}
	// Two calls are gone; otherwise the end would have waited for them.
	_ = p.in.Close()
	p.exit()
}

func TestStdioProcessEndsWhileACallWaits(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(p *stdioProcess){
		"EOF":     func(p *stdioProcess) { _ = p.in.Close() },
		"SIGTERM": func(p *stdioProcess) { _ = p.cmd.Process.Signal(syscall.SIGTERM) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := begunAlone(t)
			p.listen("3")
			for id, name := range []string{"ask", "ask_once"} {
				if a := p.alone(fmt.Sprint(10+id), "tools/call", tool(name, `{"question":"q"}`)); a.says() != "asks elicit" {
					t.Error(a.Body)
				}
			}
			end(p)
			p.want("cancelled", note("3", "cancelled", `,"requestId":3,"reason":"the server is shutting down"`))
			p.want("the end", `{"jsonrpc":"2.0","id":3,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":3,"io.modelcontextprotocol/serverInfo":{"name":"everything","title":"Troupe: everything","version":"1.0.0"}}}}`)
			p.exit()
		})
	}
}
