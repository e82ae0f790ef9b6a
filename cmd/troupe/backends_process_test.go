//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestKeeperProcess has the program be a keeper, and nothing else, before it reads any flag of its own.
func TestKeeperProcess(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(binary(t), keeperCommand).CombinedOutput()
	if e, ok := errors.AsType[*exec.ExitError](err); !ok || e.ExitCode() != 2 || !strings.Contains(string(out), "one of --socket and --fd is needed") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestHangupReadsBackends has a server read its file of servers again: those that are new are offered, those that are wrong stay as they
// were, and a file of which nothing can be used changes nothing.
func TestHangupReadsBackends(t *testing.T) {
	t.Parallel()
	program := binary(t)
	file := filepath.Join(t.TempDir(), "servers.json")
	write := func(servers string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(`{"mcpServers": {`+strings.ReplaceAll(servers, "DEMO", `"`+program+`", "args": ["stdio"]`)+`}}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`"a": {"command": DEMO}, "b": {"comand": DEMO}`)
	p := start(t, "--memory", "--set", "conformance=false", "--servers", file)
	offers := func(tool string) bool {
		t.Helper()
		r := runCommand("tools", p.base+"/mcp")
		if r.code != 0 {
			t.Fatalf("the list of tools: %s", r.stderr)
		}
		return strings.Contains(r.stdout, "\n"+tool+" ")
	}
	p.await(t, `a backend cannot be used, and is left out.*backend=b.*servers\.json:1: mcpServers\.b\.comand`)
	if !offers("a__echo") || offers("b__echo") || offers("echo") {
		t.Errorf("the tools are those of others:\n%s", runCommand("tools", p.base+"/mcp").stdout)
	}
	write(`"b": {"command": DEMO}, "a": {"comand": DEMO}`)
	p.signal(t, syscall.SIGHUP)
	p.await(t, `stays as it was.*backend=a`)
	p.await(t, `the backends have changed.* added=\[b\]`)
	p.await(t, `the config file was read again"? file=.*servers\.json`)
	if !offers("a__echo") || !offers("b__echo") {
		t.Errorf("the tools are those of others:\n%s", runCommand("tools", p.base+"/mcp").stdout)
	}
	write(`"b": {"comand": DEMO}}`)
	p.signal(t, syscall.SIGHUP)
	p.await(t, `all settings stay as they were.*servers\.json:1: `)
	if !offers("a__echo") || !offers("b__echo") {
		t.Errorf("the tools are those of others:\n%s", runCommand("tools", p.base+"/mcp").stdout)
	}
}

// TestBackendsThatDoNotStart has a program and a server that are not there. The log says so, and why, without their secrets; clients hear
// nothing of the machine.
func TestBackendsThatDoNotStart(t *testing.T) {
	t.Parallel()
	const secret = "s3cret-s3cret"
	file := writeConfig(t, "backends:\n  absent: {command: no-such-program}\n  dead: {url: 'http://127.0.0.1:1/mcp?token="+secret+"'}\n")
	p := start(t, "--memory", "--set", "conformance=false", "--config", file)
	p.await(t, `a backend would not start now" backend=absent why="there is no program no-such-program in PATH, which is `)
	for name, why := range map[string]string{"absent": "it does not start: no-such-program: file does not exist in the PATH of its environment (", "dead": "it does not start: the backend cannot be reached ("} {
		r := runCommand("call", "--retry", "0", p.base+"/mcp", name+"__x")
		if r.code == 0 || !strings.Contains(r.stderr, why) {
			t.Errorf("the call ends with %d and %s", r.code, r.stderr)
		}
	}
	p.await(t, `has not started" backend=absent .*status="no-such-program: file does not exist`)
	p.await(t, `has not started" backend=dead .*status="the backend cannot be reached" cause="dial tcp .*refused`)
	if strings.Contains(p.stderr.String(), secret) {
		t.Errorf("the log has a secret:\n%s", p.stderr.String())
	}
}

// TestGatewayProcess serves the file of examples/gateway, of which the program itself is each server.
func TestGatewayProcess(t *testing.T) {
	t.Parallel()
	p := start(t, "--memory", "--set", "conformance=false", "--servers", "../../examples/gateway/servers.json", "PATH="+filepath.Dir(binary(t))+string(os.PathListSeparator)+os.Getenv("PATH"))
	p.await(t, `\n  backends  echo \(troupe\), counter \(troupe\)\n`)
	r := runCommand("tools", p.base+"/mcp")
	for _, tool := range []string{"echo__echo", "echo__whoami", "counter__count", "counter__tick"} {
		if !strings.Contains(r.stdout, "\n"+tool+" ") {
			t.Errorf("there is no %s: %s%s", tool, r.stdout, r.stderr)
		}
	}
	if n := strings.Count(r.stdout, "\n"); n != 5 { // with a heading
		t.Errorf("there are %d tools:\n%s", n-1, r.stdout)
	}
	if r := runCommand("call", p.base+"/mcp", "counter__count", `{"to":3}`); r.code != 0 || !strings.Contains(r.stdout, "counted to 3") {
		t.Errorf("it ends with %d, %s and %s", r.code, r.stdout, r.stderr)
	}
}
