package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestLedgerIsJudged judges what tasks could have written down: who does not keep a promise is
// found.
func TestLedgerIsJudged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lines []string // what, task, step, attempt, node, milliseconds
		wrong string   // what the error says, "" for none
		again int
		late  int
		took  time.Duration // to the next step after n1 was lost at 1000 ms, 0 if none was under way there
	}{
		"whole":                      {[]string{"begin t 1 1 n1 900", "stored t 1 1 n1 950", "begin t 2 1 n1 960", "stored t 2 1 n1 990"}, "", 0, 0, 0},
		"goes on elsewhere":          {[]string{"begin t 1 1 n1 900", "stored t 1 1 n1 950", "begin t 2 1 n1 960", "begin t 2 2 n2 1500", "stored t 2 2 n2 1600"}, "", 1, 0, 500 * time.Millisecond},
		"a stored step again":        {[]string{"begin t 1 1 n1 900", "stored t 1 1 n1 950", "begin t 1 2 n2 1500", "stored t 2 2 n2 1600"}, "attempt 1 had stored it", 0, 0, 0},
		"a node that is late":        {[]string{"begin t 1 1 n1 900", "begin t 1 2 n2 1500", "stored t 1 2 n2 1600", "begin t 1 1 n1 1700", "begin t 2 2 n2 1700", "stored t 2 2 n2 1800"}, "", 1, 1, 500 * time.Millisecond},
		"what is late counts":        {[]string{"begin t 1 1 n1 900", "begin t 1 2 n2 1500", "stored t 1 1 n1 1600"}, "after attempt 2 had begun it", 0, 0, 0},
		"a step that never ran":      {[]string{"begin t 2 1 n1 900", "stored t 2 1 n1 950"}, "step 1 of task t never ran", 0, 0, 0},
		"half a line does not count": {[]string{"begin t 1 1 n1 900", "stored t 1 1 n1 950", "begin t 2 1 n1 960", "stored t 2 1 n1 990", "begin t 2"}, "", 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(t.Context(), options{data: filepath.Join(t.TempDir(), "data")}, "")
			l.steps = 2
			l.ended["t"] = "completed"
			l.losses = []loss{{byKill, "n1", time.UnixMilli(1000)}}
			if err := os.WriteFile(l.file, []byte(strings.Join(c.lines, "\n")), 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := l.judge()
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("got %v, want an error that says %q", err, c.wrong)
				}
				return
			}
			if err != nil || r.Again != c.again || r.Late != c.late || r.PickUps[byKill].Max != ms(c.took) {
				t.Errorf("got %+v and %v, want %d steps again, %d late, %v to the next step", r, err, c.again, c.late, c.took)
			}
		})
	}
}

// TestHarmsAreDrawn checks that each harm that fits comes before one comes again, an outage once,
// and that one that does not fit is refused.
func TestHarmsAreDrawn(t *testing.T) {
	t.Parallel()
	draw := func(o options) map[string]int {
		t.Helper()
		plan, err := o.planHarms(rand.New(rand.NewPCG(1, 3)))
		if err != nil {
			t.Fatal(err)
		}
		n := make(map[string]int)
		for _, harm := range plan {
			n[harm.name]++
		}
		return n
	}
	if n := draw(options{nodes: 1, rounds: 6}); n[byKill] != 2 || n[byPause] != 2 || n[byRestart] != 2 {
		t.Errorf("one node: %v", n)
	}
	n := draw(options{nodes: 3, nats: 3, away: 1, rounds: 17})
	for _, harm := range harmNames() {
		want := 2
		if harm == byOutage {
			want = 1
		}
		if harm != byRestart && n[harm] != want {
			t.Errorf("several nodes: %d of %s, want %d", n[harm], harm, want)
		}
	}
	for _, harm := range []string{"leader", byRestart, "fire"} {
		if _, err := (&options{nodes: 3, nats: 1, rounds: 1, harms: list{harm}}).planHarms(rand.New(rand.NewPCG(1, 3))); err == nil {
			t.Errorf("%s fits three nodes on one NATS server", harm)
		}
	}
}
