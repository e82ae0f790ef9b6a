package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/examples/everything"
	"github.com/troupe-run/troupe/mcp"
)

// demo serves the demo until the test ends, and returns its URL.
func demo(t *testing.T, o troupe.Options) string {
	t.Helper()
	rt, err := troupe.New(o)
	if err != nil {
		t.Fatal(err)
	}
	rt.Mount("/mcp", everything.NewConformance(troupe.ServerOptions{}))
	srv := httptest.NewServer(rt)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := rt.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.URL + "/mcp"
}

// slow is what a command says of a server that is silent, as each may be on a busy machine.
var slow = regexp.MustCompile(`(?m)^waiting for .* so far\n`)

// ran is what a command has written, and its exit code.
type ran struct {
	code           int
	stdout, stderr string
}

func runCommand(args ...string) ran {
	var stdout, stderr bytes.Buffer
	code := run(args, &stdout, &stderr)
	return ran{code, stdout.String(), slow.ReplaceAllString(stderr.String(), "")}
}

// TestCall calls tools of the demo in every revision.
func TestCall(t *testing.T) {
	t.Parallel()
	at := demo(t, troupe.Options{})
	for _, revision := range append(troupe.Revisions(), "") {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			spoken := revision
			if spoken == "" {
				spoken = mcp.Latest.String()
			}
			asks := spoken >= mcp.Revision20250618.String() // there is elicitation since then
			refused := 3
			if spoken < mcp.Revision20251125.String() {
				refused = 1 // arguments that do not fit are an error of the protocol there
			}
			for _, tt := range []struct {
				args           []string
				code           int
				stdout, stderr string // all of it, and a part
				skip           bool
			}{
				{args: []string{"echo", `{"text":"hello"}`}, stdout: "hello\n"},
				{args: []string{"count", `{"to":2}`}, stdout: "counted to 2\n", stderr: "1 of 2\n2 of 2\n"},
				{args: []string{"test_error_handling"}, code: 3, stdout: "This tool intentionally returns an error for testing\n", stderr: "the tool says that it failed"},
				{args: []string{"nothing"}, code: 1, stderr: "troupe: the server refuses: Unknown tool: nothing (-32602)"},
				{args: []string{"echo"}, code: refused, stdout: "*", stderr: "troupe: the "},
				{args: []string{"ask", `{"question":"Tea?"}`, "--answer", `{"answer":"green"}`}, stdout: "green\n", stderr: "the server asks: Tea? (answer)\n", skip: !asks},
				{args: []string{"ask", `{"question":"Tea?"}`, "--answer", "decline"}, code: 3, stdout: "the user did not answer: decline\n", stderr: "the tool says that it failed", skip: !asks},
				{args: []string{"ask", `{"question":"Tea?"}`}, code: 3, stdout: "the user did not answer: cancel\n", stderr: "1 of the questions had no answer: give one for each with --answer", skip: !asks},
				{args: []string{"count", `{"to":1}`, "--quiet"}, stdout: "counted to 1\n"},
			} {
				if tt.skip {
					continue
				}
				got := runCommand(append([]string{"call", at, "--revision", spoken}, tt.args...)...)
				if got.code != tt.code || got.stdout != tt.stdout && tt.stdout != "*" || !strings.Contains(got.stderr, tt.stderr) || got.stderr != "" && tt.stderr == "" {
					t.Errorf("%q: got %+v, want %d, %q and %q", tt.args, got, tt.code, tt.stdout, tt.stderr)
				}
			}
		})
	}
}

// TestCallJSON: with --json the result is printed whole, and a tool's error is told all the same.
func TestCallJSON(t *testing.T) {
	t.Parallel()
	at := demo(t, troupe.Options{})
	got := runCommand("call", at, "test_error_handling", "--json")
	var r mcp.CallToolResult
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || !r.IsError || got.code != 3 {
		t.Errorf("got %+v, %v", got, err)
	}
	got = runCommand("call", at, "test_image_content")
	if got.code != 0 || !regexp.MustCompile(`^\[image, image/png, \d+ bytes\]\n$`).MatchString(got.stdout) {
		t.Errorf("an image is %+v", got)
	}
	arguments := filepath.Join(t.TempDir(), "arguments.json")
	if err := os.WriteFile(arguments, []byte(`{"text":"from a file"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := runCommand("call", at, "echo", "@"+arguments); got.stdout != "from a file\n" {
		t.Errorf("arguments of a file: %+v", got)
	}
}

// TestTools lists the tools of the demo.
func TestTools(t *testing.T) {
	t.Parallel()
	at := demo(t, troupe.Options{})
	for _, revision := range troupe.Revisions() {
		got := runCommand("tools", at, "--revision", revision)
		if got.code != 0 || got.stderr != "" || !regexp.MustCompile(`(?m)^count +to \[delay_ms\] +Counts from 1`).MatchString(got.stdout) {
			t.Errorf("%s: %+v", revision, got)
		}
	}
	var all []mcp.Tool
	got := runCommand("tools", at, "--json")
	if err := json.Unmarshal([]byte(got.stdout), &all); err != nil || len(all) < 10 {
		t.Errorf("%d tools, %v: %s", len(all), err, got.stderr)
	}
	var b strings.Builder
	if err := printTools(&b, nil, false); err != nil || b.String() != "there are no tools\n" {
		t.Errorf("no tools are %q, %v", b.String(), err)
	}
}

// TestCallUsage: what is wrong with a command line ends with 2, and no server is asked.
func TestCallUsage(t *testing.T) {
	t.Parallel()
	const at = "http://127.0.0.1:1/mcp"
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"call"}, 2, "want the URL of a server, the name of a tool, which troupe tools URL lists,"},
		{[]string{"call", at, "echo", "{}", "more"}, 2, "want the URL of a server, the name of a tool, which troupe tools URL lists,"},
		{[]string{"tools"}, 2, "which server? give its URL"},
		{[]string{"call", "127.0.0.1:8080/mcp", "echo"}, 2, `URL is "127.0.0.1:8080/mcp": want that of an MCP endpoint`},
		{[]string{"tools", "ftp://x/mcp"}, 2, `URL is "ftp://x/mcp"`},
		{[]string{"call", at, "echo", "[1]"}, 2, `arguments are "[1]": want a JSON object`},
		{[]string{"call", at, "echo", "null"}, 2, `want a JSON object`},
		{[]string{"call", at, "echo", "@/nowhere/x"}, 2, "arguments: open /nowhere/x"},
		{[]string{"call", at, "echo", "--token", "@/nowhere/x"}, 2, "token: open /nowhere/x"},
		{[]string{"call", at, "echo", "--revision", "2020-01-01"}, 2, `revision is "2020-01-01": want one of 2024-11-05, `},
		{[]string{"call", at, "echo", "--header", "no colon"}, 2, `header is "no colon": want NAME: VALUE`},
		{[]string{"call", at, "echo", "--answer", "yes"}, 2, `answer is "yes": want accept, decline, cancel`},
		{[]string{"call", at, "echo", "--retry", "-1s"}, 2, "want a time from 0 on"},
		{[]string{"call", at, "echo", "--retry", "0"}, 1, "troupe: the server cannot be reached (127.0.0.1:1: "},
		{[]string{"call", at, "echo", "--timeout", "1ms"}, 1, "no result within 1ms: the call is cancelled"},
		{[]string{"call", "--help"}, 0, "3 if the tool says that it failed (isError)"},
		{[]string{"tools", "--help"}, 0, "--header NAME:VALUE"},
	} {
		got := runCommand(tt.args...)
		if got.code != tt.code || !strings.Contains(got.stdout+got.stderr, tt.want) {
			t.Errorf("%q ends with %+v, want %d and %q", tt.args, got, tt.code, tt.want)
		}
	}
}

// TestHelpOfRemoteShowsEveryFlag compares the groups of the help with the flags, which are declared elsewhere.
func TestHelpOfRemoteShowsEveryFlag(t *testing.T) {
	t.Parallel()
	for _, cmd := range []*cobra.Command{callCommand(io.Discard, io.Discard), toolsCommand(io.Discard, io.Discard)} {
		var help bytes.Buffer
		cmd.SetOut(&help)
		cmd.HelpFunc()(cmd, nil)
		flag := regexp.MustCompile(`(?m)^\s+--([a-z-]+)`)
		var shown, declared []string
		for _, match := range flag.FindAllStringSubmatch(help.String(), -1) {
			shown = append(shown, match[1])
		}
		for _, match := range flag.FindAllStringSubmatch(cmd.LocalFlags().FlagUsages(), -1) {
			declared = append(declared, match[1])
		}
		slices.Sort(shown)
		slices.Sort(declared)
		if !slices.Equal(shown, declared) {
			t.Errorf("the help of %s shows %q, want %q", cmd.Name(), shown, declared)
		}
		if strings.Contains(help.String(), "`") {
			t.Errorf("the help of %s has a backquote", cmd.Name())
		}
	}
}

// TestCallWithToken: a token comes from the flag, a file or the environment, and a refusal says what to do.
func TestCallWithToken(t *testing.T) {
	at := demo(t, troupe.Options{Authenticate: func(r *http.Request) (troupe.Principal, error) {
		if r.Header.Get("Authorization") != "Bearer secret" || r.Header.Get("X-Team") != "maps" {
			return troupe.Principal{}, &troupe.AuthError{Challenge: `Bearer realm="demo"`}
		}
		return troupe.Principal{Subject: "ada"}, nil
	}})
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		variable string
		args     []string
		want     string // on standard error; "": it succeeds
	}{
		{"", []string{"--token", "secret"}, ""},
		{"", []string{"--token", "@" + file}, ""},
		{"secret", nil, ""},
		{"wrong", []string{"--token", "secret"}, ""},
		{"", nil, `(401 Unauthorized, WWW-Authenticate: Bearer realm="demo"): give a token with --token or in TROUPE_TOKEN`},
		{"wrong", nil, "it does not take this token"},
	} {
		t.Setenv(tokenVariable, tt.variable)
		got := runCommand(append([]string{"call", at, "echo", `{"text":"hi"}`, "--header", "X-Team: maps"}, tt.args...)...)
		if tt.want == "" && got.stdout != "hi\n" || tt.want != "" && (got.code != 1 || !strings.Contains(got.stderr, tt.want)) {
			t.Errorf("%q and %q: %+v, want %q", tt.variable, tt.args, got, tt.want)
		}
		if strings.Contains(got.stderr, "secret") {
			t.Errorf("the token is told: %s", got.stderr)
		}
	}
}

// TestCallTellsOfBadServers: what a server says moves no cursor of the user's terminal.
func TestCallTellsOfBadServers(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<h1>\x1b[2Jhello</h1>")
	}))
	defer srv.Close()
	got := runCommand("call", srv.URL, "echo")
	if got.code != 1 || got.stderr != "troupe: no answer of MCP: 200 OK, text/html: <h1>\uFFFD[2Jhello</h1>\n" {
		t.Errorf("got %+v", got)
	}
	if got := printable("a\tb\n\x1b[31mred\u009b\u202e"); got != "a\tb\n\uFFFD[31mred\uFFFD\uFFFD" {
		t.Errorf("printable is %q", got)
	}
}

// TestNarrate: each silence of two seconds ends with a line.
func TestNarrate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		err := runNarrated(&b, "count", func(say func(string)) error {
			time.Sleep(5 * time.Second)
			say("1 of 2")
			time.Sleep(1500 * time.Millisecond)
			say("2 of 2")
			time.Sleep(3 * time.Second)
			return errToolFailed
		})
		want := "waiting for count, 2s so far\nwaiting for count, 4s so far\n1 of 2\n2 of 2\nwaiting for count, 9s so far\n"
		if err != errToolFailed || b.String() != want {
			t.Errorf("got %v and\n%s\nwant\n%s", err, b.String(), want)
		}
	})
}

func TestNotice(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ method, params, want string }{
		{mcp.NotifyProgress, `{"progress":1}`, "1"},
		{mcp.NotifyProgress, `{"progress":0.5,"total":2,"message":"half"}`, "0.5 of 2: half"},
		{mcp.NotifyProgress, `7`, ""},
		{mcp.NotifyMessage, `{"level":"info","data":"x"}`, ""},
		{mcp.NotifyMessage, `{"level":"error","data":{"a":1}}`, "error: map[a:1]"},
		{mcp.NotifyToolsListChanged, `{}`, ""},
	} {
		if got := noticeText(tt.method, json.RawMessage(tt.params)); got != tt.want {
			t.Errorf("%s %s is %q, want %q", tt.method, tt.params, got, tt.want)
		}
	}
}

func TestBlockText(t *testing.T) {
	t.Parallel()
	for block, want := range map[string]string{
		`{"type":"text","text":"a"}`:                                                                    "a",
		`{"type":"audio","mimeType":"audio/wav","data":"AAAA"}`:                                         "[audio, audio/wav, 3 bytes]",
		`{"type":"resource","resource":{"uri":"x://y","text":"t"}}`:                                     "t",
		`{"type":"resource","resource":{"uri":"x://y","mimeType":"application/pdf","blob":"AAAAAAAA"}}`: "[x://y, application/pdf, 6 bytes]",
		`{"type":"resource_link","uri":"x://y","name":"y"}`:                                             "[x://y]",
		`7`: "[content that cannot be read]",
	} {
		if got := blockText(json.RawMessage(block)); got != want {
			t.Errorf("%s is %q, want %q", block, got, want)
		}
	}
}
