package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/bench/loadgen"
)

// runOf is a run of echo-32 whose calls take so much processor time.
func runOf(server string, cpu float64) result {
	return result{Scenario: "echo-32", Server: server, Calls: &loadgen.Report{CPU: cpu, Latency: loadgen.Latency{P50: 1, P90: 2}}}
}

// TestRatios: what a call costs is compared with bare in the same round, and stands in the lines
// that benchstat reads, without what was not measured.
func TestRatios(t *testing.T) {
	t.Parallel()
	all := []result{runOf("mcp-go", 40), runOf(base, 10)}
	setRatios(all)
	alone := []result{runOf("mcp-go", 40), {Scenario: "echo-32", Server: base, Failed: 7}}
	setRatios(alone) // bare has failed
	held := []result{{Scenario: "sessions-10k", Server: "troupe-serve", Begun: &loadgen.Report{Held: &loadgen.Held{Each: 2.5, After: 50}}}}
	var b bytes.Buffer
	writeLines(&b, append(append(all, alone...), held...))
	want := `BenchmarkLoad/scenario=echo-32/server=mcp-go 1 4 times-bare 1 p50-ms 40 server-µs/operation
BenchmarkLoad/scenario=echo-32/server=bare 1 1 times-bare 1 p50-ms 10 server-µs/operation
BenchmarkLoad/scenario=echo-32/server=mcp-go 1 1 p50-ms 40 server-µs/operation
BenchmarkLoad/scenario=echo-32/server=bare 1 7 failed-operations
BenchmarkLoad/scenario=sessions-10k/server=troupe-serve 1 2.5 begin-server-KiB-each 50 begin-held-server-MiB
`
	if got := b.String(); got != want {
		t.Errorf("the lines are\n%s\nwant\n%s", got, want)
	}
	if strings.Contains(b.String(), "p90") {
		t.Error("a figure is shown that the tables leave out")
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		servers, scenarios string
		want               int
		wantErr            string
	}{
		{"", "", len(servers) * 4, ""},
		{"", "memory", len(servers) * 8, ""},
		{"", "slow,sizes,size-1k", len(servers) * 6, ""},
		{"gosdk", "echo-32", 2, ""}, // and bare
		{"bare,gosdk", "echo-32,echo-256", 4, ""},
		{"gosdk,nobody", "", 0, `no server is called "nobody"`},
		{"", "dance", 0, `no scenario is called "dance"`},
	} {
		c := comparison{rounds: 1, length: 1, servers: servers}
		err := c.chooseLoad(tt.servers, tt.scenarios)
		if tt.wantErr != "" {
			if err == nil || err.Error() != tt.wantErr {
				t.Errorf("choose(%q, %q): %v, want %s", tt.servers, tt.scenarios, err, tt.wantErr)
			}
			continue
		}
		if n := len(c.servers) * len(c.scenarios); err != nil || n != tt.want {
			t.Errorf("choose(%q, %q): %d runs in a round, %v, want %d", tt.servers, tt.scenarios, n, err, tt.want)
		}
	}
}
