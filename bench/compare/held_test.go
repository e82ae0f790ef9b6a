package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/bench/loadgen"
)

// heldRounds has two servers hold nothing and then 10,000 sessions, twice.
func heldRounds() (all []result) {
	for round := 1; round <= 2; round++ {
		f := float64(round)
		all = append(all,
			result{Scenario: "sessions-0", Server: "troupe-serve", Round: round, CPU: 20 * f, Held: &kept{Before: 30, After: 30 * f}},
			result{Scenario: "sessions-10k", Server: "troupe-serve", Round: round, CPU: 25, Held: &kept{Count: 10_000, After: 50, Each: 2000 * f, CPU: 150, PerSecond: 3000}},
			result{Scenario: "sessions-0", Server: "mcp-go", Round: round, CPU: 80, Held: &kept{After: 20}},
			result{Scenario: "sessions-10k", Server: "mcp-go", Round: round, CPU: 90, Held: &kept{Count: 10_000, After: 120, Each: 11_000}},
		)
	}
	return all
}

func TestTables(t *testing.T) {
	t.Parallel()
	all := append(heldRounds(),
		result{Scenario: "slow", Server: "mcp-go", P50: 2, P99: 9, Beside: &loadgen.Beside{Alone: loadgen.Latency{P50: 1, P99: 3}, P99: 3}, Failed: 5})
	for name, want := range map[string]string{
		"sessions-10k": "troupe-serve 3000 (2000..4000) 50.0 (50.0..50.0) 150 (150..150) 3000 25.0 (25.0..25.0)",
		"slow":         "mcp-go 1.00 (1.00..1.00) 2.00 (2.00..2.00) 3.00 (3.00..3.00) 9.00 (9.00..9.00) 3.00 (3.00..3.00) 0 0 (0..0) 5",
	} {
		s := scenarios[slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })]
		var b bytes.Buffer
		if err := writeTable(&b, s, rowsOf(all, name)); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(strings.Fields(b.String()), " "); !strings.Contains(got, want) {
			t.Errorf("the table of %s lacks %q:\n%s", name, want, b.String())
		}
	}
}

// TestFail: what failed is added up, by kind.
func TestFail(t *testing.T) {
	t.Parallel()
	var r result
	r.addFailures(&loadgen.Report{})
	if r.Errors != nil {
		t.Errorf("nothing failed, and there is %v", r.Errors)
	}
	r.addFailures(&loadgen.Report{Errors: map[string]int64{"timeout": 2, "status 503": 1}, Examples: map[string]string{"timeout": "late", "status 503": "busy"}})
	r.addFailures(&loadgen.Report{Errors: map[string]int64{"timeout": 3}, Examples: map[string]string{"timeout": "later"}})
	if r.Failed != 6 || r.Errors["timeout"] != "later" || r.Errors["status 503"] != "busy" {
		t.Errorf("failed are %d, %v", r.Failed, r.Errors)
	}
}

func TestDrawCharts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := drawCharts(dir, heldRounds()); err != nil {
		t.Fatal(err)
	}
	has(t, filepath.Join(dir, "peers-sessions-cpu.svg"), ">10k<", ">0<", ">troupe-serve<", ">mcp-go<", `fill="#1f5f9e"`)
	has(t, filepath.Join(dir, "peers-sessions-memory.svg"), ">sessions (logarithmic)<")
	if files, err := os.ReadDir(dir); err != nil || len(files) != 2 {
		t.Errorf("there are %v, %v: want the charts of sessions alone", files, err)
	}
}

// TestChart: a line has its points with a figure, and is left out with fewer than two.
func TestChart(t *testing.T) {
	t.Parallel()
	flat := func(x, y float64) point { return point{x, spread{y, y, y}} }
	d := chart{}.drawLines(map[string][]point{base: {flat(0, 10), {100, spread{100, 50, 200}}, flat(10_000, 1000)}, "gosdk": {flat(0, 10)}})
	if d == nil || strings.Count(d.String(), "<circle") != 3 || strings.Contains(d.String(), "gosdk") {
		t.Fatalf("want a line of three points: %v", d)
	}
	if d := (chart{}).drawLines(map[string][]point{"gosdk": {flat(0, 10)}}); d != nil {
		t.Errorf("a drawing without lines: %v", d)
	}
}

// TestScales: a decade is as long as any other, and 0 is a place of its own.
func TestScales(t *testing.T) {
	t.Parallel()
	across := acrossScale([]float64{0, 100, 10_000}, true)
	third := (linesRight - linesLeft) / 3
	if x := across.at(100); across.at(0) != linesLeft || x != linesLeft+third || across.at(10_000) != linesRight {
		t.Errorf("the places are %d, %d and %d", across.at(0), x, across.at(10_000))
	}
	if x := acrossScale([]float64{1, 2, 3}, false).at(2); x != (linesLeft+linesRight)/2 {
		t.Errorf("the middle is %d", x)
	}
	if x := acrossScale([]float64{5}, false).at(5); x != linesLeft {
		t.Errorf("the only place is %d", x)
	}
	up, ticks := upScale(10, 1000, true)
	if !slices.Equal(ticks, []float64{10, 100, 1000}) || up.at(10) != linesBottom || up.at(1000) != linesTop || up.at(10)-up.at(100) != up.at(100)-up.at(1000) {
		t.Errorf("the lines of the logarithmic scale are %v", ticks)
	}
	up, ticks = upScale(50, 1000, false)
	if last := ticks[len(ticks)-1]; ticks[0] != 0 || len(ticks) < 4 || last < 1000 || up.at(0) != linesBottom || up.at(last) != linesTop {
		t.Errorf("the lines of the linear scale are %v", ticks)
	}
}

// TestSpreadNames: no two names lie on each other, and all are in the field.
func TestSpreadNames(t *testing.T) {
	t.Parallel()
	at := []int{linesBottom, linesBottom - 2, 100, 101, linesBottom - 3}
	spreadNames(at)
	if at[2] > at[3] || at[4] > at[1] || at[1] > at[0] {
		t.Errorf("the names lie in another order: %v", at)
	}
	slices.Sort(at)
	for i := 1; i < len(at); i++ {
		if at[i]-at[i-1] < nameStep || at[i] > linesBottom {
			t.Errorf("the names lie at %v", at)
		}
	}
}

// TestRested: sessions rest before the second look, and no longer than there is somebody who waits.
func TestRested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		settle := afterRest(func(context.Context) error { looks++; return nil })
		began := time.Now()
		if err := settle(t.Context()); err != nil || time.Since(began) != 0 {
			t.Errorf("the first look is after %v: %v", time.Since(began), err)
		}
		if err := settle(t.Context()); err != nil || time.Since(began) != restFor {
			t.Errorf("the second look is after %v: %v", time.Since(began), err)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := settle(ctx); !errors.Is(err, context.Canceled) || looks != 2 {
			t.Errorf("%d looks, %v", looks, err)
		}
	})
}

// TestNamed: a group stands for its scenarios, and each is there once.
func TestNamed(t *testing.T) {
	t.Parallel()
	for names, want := range map[string]string{
		"":                  "echo-32 echo-256 stateless-32 echo-10k",
		"memory":            "sessions-0 sessions-1k sessions-10k sessions-50k streams-0 streams-1k streams-5k streams-9500",
		"beside,echo-32":    "echo-32 slow noisy",
		"size-1k,sizes":     "size-100 size-1k size-10k size-100k size-1m",
		"nodes":             "nodes-1 nodes-2 nodes-3",
		"sessions,sessions": "sessions-0 sessions-1k sessions-10k sessions-50k",
	} {
		chosen, err := scenariosNamed(names)
		var got []string
		for _, s := range chosen {
			got = append(got, s.name)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("named(%q): %v, %v", names, got, err)
		}
	}
}

// TestFlags: a server has only the flags that its scenario needs, and stores what it holds.
func TestFlags(t *testing.T) {
	t.Parallel()
	b := binaries{troupe: "troupe", peers: "peers", repaired: "repaired"}
	for _, v := range servers {
		for _, s := range scenarios {
			if !v.speaks(s) {
				continue
			}
			flags := fmt.Sprint(v.args(b, s, "DIR"))
			stores := s.group != calls && s.group != sizes && s.group != waiting && !v.bare
			if got := strings.Contains(flags, "--data DIR"); got != stores {
				t.Errorf("%s at %s: %s", v.name, s.name, flags)
			}
			if limited := s.name == "noisy"; limited == strings.Contains(flags, ".yaml") && v.name == "troupe-serve" {
				t.Errorf("%s at %s: %s", v.name, s.name, flags)
			}
			if strings.Contains(flags, "--streams ") || strings.HasSuffix(flags, "--streams]") != (s.name == "slow" && v.name != "troupe-serve") {
				t.Errorf("%s at %s: %s", v.name, s.name, flags)
			}
		}
	}
}

func TestOverlay(t *testing.T) {
	t.Parallel()
	file, err := writeOverlay(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var o struct{ Replace map[string]string }
	if err := json.Unmarshal(text, &o); err != nil || len(o.Replace) != 2 {
		t.Fatalf("the overlay is %s: %v", text, err)
	}
	for added, by := range o.Replace {
		if _, err := os.Stat(added); !filepath.IsAbs(added) || err == nil {
			t.Errorf("%s is there, or not absolute", added)
		}
		if _, err := os.Stat(by); err != nil {
			t.Error(err)
		}
	}
}
