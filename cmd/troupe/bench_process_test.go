package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/bench/loadgen"
)

// measure runs a measurement until its clients were not late themselves, as they are where the machine has no time for them: what they count then says
// nothing of the server.
func measure(t *testing.T, file string, args []string, stderr *bytes.Buffer) (r *loadgen.Report, code int) {
	t.Helper()
	for tries := 0; tries < 100; tries++ {
		var stdout bytes.Buffer
		stderr.Reset()
		if code = run(args, &stdout, stderr); code != 0 {
			return r, code
		}
		var err error
		if r, err = loadgen.Read(file); err != nil {
			t.Fatal(err)
		}
		if r.Errors["not begun"] == 0 && (r.Errors["doubled"] == 0 || !slices.Contains(args, "fanout")) { // an update of before the first one that counts comes late
			break
		}
	}
	return r, code
}

// TestBench measures a server in each scenario, in both eras. It judges what is counted, and no times.
func TestBench(t *testing.T) {
	t.Parallel()
	p := start(t, "--data", t.TempDir(), "--set", "call-rate=0", "--set", "principal-rate=0")
	for scenario := range loadgen.Scenarios() {
		for _, revision := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
			sessions := scenario == "sessions" || scenario == "hold" || scenario == "resume"
			if sessions && revision == "2026-07-28" || scenario == "parked" && revision != "2026-07-28" || scenario == "tasks" && revision == "2025-06-18" {
				continue // There are none.
			}
			file := filepath.Join(t.TempDir(), "report.json")
			var stdout, stderr bytes.Buffer
			args := []string{"bench", p.base + "/mcp", "--scenario", scenario, "--revision", revision, "--rate", "200", "--clients", "20", "--duration", "100ms", "--warm-up", "-1s", "--json", file, "--pid", strconv.Itoa(p.cmd.Process.Pid)}
			switch scenario {
			case "hold", "parked", "streams", "resume":
				args = append(args, "--count", "20")
			case "fanout": // The server gathers updates for 100 ms.
				args = append(args, "--count", "20", "--rate", "5", "--duration", "1s")
			}
			r, code := measure(t, file, args, &stderr)
			if code != 0 {
				t.Errorf("%s of %s: exit code %d: %s", scenario, revision, code, stderr.String())
				continue
			}
			whole := r.Operations == 20 || scenario == "fanout" && r.Operations > 0 && r.Operations%20 == 0
			events := slices.Contains([]string{"progress", "mixed", "resume", "fanout"}, scenario)
			if !whole || r.Failed() > 0 || (r.Events > 0) != events || r.Resident == 0 {
				t.Errorf("%s of %s: %+v", scenario, revision, r)
			}
			held, beside := scenario == "hold" || scenario == "parked" || scenario == "streams", scenario == "slow"
			if (r.Held != nil) != held || held && (r.Held.Count != 20 || r.Held.After == 0) || (r.Beside != nil) != beside || (r.First != nil) != (scenario == "resume") {
				t.Errorf("%s of %s: %+v, %+v, %+v", scenario, revision, r.Held, r.Beside, r.First)
			}
			if b := r.Beside; beside && (b.Alone.P50 == 0 || b.P50 == 0 || b.Streams != 1) {
				t.Errorf("%s of %s: %+v", scenario, revision, b)
			}
			stdout.Reset()
			if code := run([]string{"bench", "compare", file, file}, &stdout, &stderr); code != 0 || !strings.Contains(stdout.String(), "x 1.00") || strings.Contains(stdout.String(), "differs") {
				t.Errorf("compared with itself: exit code %d, %s", code, stdout.String())
			}
		}
	}
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		file := filepath.Join(t.TempDir(), "large.json")
		var stderr bytes.Buffer
		args := []string{"bench", p.base + "/mcp", "--size", "1000000", "--revision", revision, "--rate", "10", "--clients", "4", "--duration", "400ms", "--warm-up", "-1s", "--json", file}
		if r, code := measure(t, file, args, &stderr); code != 0 {
			t.Errorf("1 MB of %s: exit code %d: %s", revision, code, stderr.String())
		} else if r.Operations != 4 || r.Failed() > 0 || r.Size != 1_000_000 {
			t.Errorf("1 MB of %s: %+v", revision, r)
		}
	}
	large := filepath.Join(t.TempDir(), "arguments.json") // A command line has no room for them.
	if err := os.WriteFile(large, []byte(`{"text":"`+strings.Repeat("x", 1_000_000)+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if code := run([]string{"bench", p.base + "/mcp", "--arguments", "@" + large, "--clients", "2", "--duration", "200ms", "--warm-up", "-1s"}, &stdout, &stderr); code != 0 {
		t.Errorf("arguments of a file: exit code %d: %s", code, stderr.String())
	}
	for want, args := range map[string][]string{
		"arguments: open nowhere":   {"--arguments", "@nowhere"},
		"no scenario is called":     {"--scenario", "dance"},
		`the server has no tool`:    {"--tool", "nobody"},
		"want NAME: VALUE":          {"--header", "x"},
		"cannot be looked at":       {"--pid", "0"},
		"the first operation faile": {"--arguments", `{"no":1}`},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(append([]string{"bench", p.base + "/mcp"}, args...), &stdout, &stderr); code == 0 || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v: exit code %d, %s", args, code, stderr.String())
		}
	}
}
