package main

import (
	"bytes"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/bench/loadgen"
)

// TestBench measures a server in each scenario, in both eras. It judges what is counted, and no times.
func TestBench(t *testing.T) {
	t.Parallel()
	p := start(t, "--data", t.TempDir(), "--call-rate", "0", "--principal-rate", "0")
	for scenario := range loadgen.Scenarios() {
		for _, revision := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
			if scenario == "sessions" && revision == "2026-07-28" || scenario == "tasks" && revision == "2025-06-18" {
				continue // There are none.
			}
			file := filepath.Join(t.TempDir(), "report.json")
			var stdout, stderr bytes.Buffer
			args := []string{"bench", p.base + "/mcp", "--scenario", scenario, "--revision", revision, "--rate", "50", "--clients", "16", "--duration", "400ms", "--warm-up", "-1s", "--json", file, "--pid", strconv.Itoa(p.cmd.Process.Pid)}
			if code := run(args, &stdout, &stderr); code != 0 {
				t.Errorf("%s of %s: exit code %d: %s", scenario, revision, code, stderr.String())
				continue
			}
			r, err := loadgen.Read(file)
			if err != nil {
				t.Fatal(err)
			}
			if r.Operations != 20 || r.Failed() > 0 || (r.Events > 0) != (scenario == "progress" || scenario == "mixed") || r.Resident == 0 {
				t.Errorf("%s of %s: %+v", scenario, revision, r)
			}
			stdout.Reset()
			if code := run([]string{"bench", "compare", file, file}, &stdout, &stderr); code != 0 || !strings.Contains(stdout.String(), "x 1.00") || strings.Contains(stdout.String(), "differs") {
				t.Errorf("compared with itself: exit code %d, %s", code, stdout.String())
			}
		}
	}
	for want, args := range map[string][]string{
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
