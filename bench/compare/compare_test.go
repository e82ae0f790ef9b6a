package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSpreadOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		figures []float64
		want    spread
	}{
		{nil, spread{}},
		{[]float64{0}, spread{}},
		{[]float64{3, 1, 2}, spread{2, 1, 3}},
		{[]float64{4, 0, 2}, spread{3, 2, 4}}, // 0 is no figure
	} {
		if got := spreadOf(tt.figures); got != tt.want {
			t.Errorf("spread of %v is %v, want %v", tt.figures, got, tt.want)
		}
	}
}

// twoRounds has bare cost twice as much in the second round, as if the machine were slower then.
func twoRounds() []result {
	first := []result{{Scenario: "echo-32", Server: "mcp-go", Round: 1, CPU: 40, P99: 2}, {Scenario: "echo-32", Server: base, Round: 1, CPU: 10, P99: 1}}
	second := []result{{Scenario: "echo-32", Server: base, Round: 2, CPU: 20, P99: 3}, {Scenario: "echo-32", Server: "mcp-go", Round: 2, CPU: 100, P99: 4, Failed: 7}}
	setRatios(first)
	setRatios(second)
	other := []result{{Scenario: "echo-256", Server: "mcp-go", Round: 1, CPU: 1}}
	setRatios(other) // without bare
	return append(append(first, second...), other...)
}

func TestSummarize(t *testing.T) {
	t.Parallel()
	rows := rowsOf(twoRounds(), "echo-32")
	if len(rows) != 2 || rows[0].server != base || rows[1].server != "mcp-go" {
		t.Fatalf("rows are %+v, want bare and mcp-go", rows)
	}
	if got, want := rows[1].spread(ratio), (spread{4.5, 4, 5}); got != want {
		t.Errorf("mcp-go costs %v times bare, want %v", got, want)
	}
	if n := rows[1].failures(); n != 7 {
		t.Errorf("%d failed, want 7", n)
	}
	if rows := rowsOf(twoRounds(), "echo-256"); len(rows) != 1 || rows[0].spread(ratio) != (spread{}) {
		t.Errorf("rows without bare are %+v, want one without a ratio", rows)
	}
	var b bytes.Buffer
	if err := writeTable(&b, scenarios[0], rows); err != nil || !strings.Contains(b.String(), "4.50 (4.00..5.00)") {
		t.Errorf("the table lacks the ratio: %v\n%s", err, b.String())
	}
}

func TestDrawBars(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := drawBars(dir, scenarios[0], rowsOf(twoRounds(), "echo-32")); err != nil {
		t.Fatal(err)
	}
	has(t, filepath.Join(dir, "peers-echo-32-cpu.svg"), "70.0 µs, 4.50 × bare")
}

// has checks that a file is XML, and has texts.
func has(t *testing.T, file string, texts ...string) {
	t.Helper()
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range texts {
		if !bytes.Contains(got, []byte(want)) {
			t.Errorf("%s lacks %q", file, want)
		}
	}
	for d := xml.NewDecoder(bytes.NewReader(got)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
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
