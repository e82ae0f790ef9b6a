package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/test/kit/when"
)

// repository is the root of it, as the tests of this package see it.
const repository = "../.."

// read reads a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// program is the path of a program of Debian's package prometheus.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		when.Lacking(t, fmt.Sprintf("%v: apt-get install prometheus", err))
	}
	return path
}

var (
	metricRow = regexp.MustCompile("(?m)^\\| `([a-z._]+)` \\| (gauge|counter|histogram)(?:, (\\w+))? \\| ([^|]*) \\|")
	servedRow = regexp.MustCompile("(?m)^\\| ((?:`[a-z_]+`(?:, )?)+) \\| ([^|]*) \\| [^|]*\\|$")
	quoted    = regexp.MustCompile("`([^`]+)`")
)

// documented are the metrics of docs/metrics.md by the names that they have at /metrics, with their labels.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	text := read(t, "docs/metrics.md")
	all := map[string][]string{}
	for _, m := range metricRow.FindAllStringSubmatch(text, -1) {
		name := served(m[1], m[2], m[3])
		labels := namesIn(m[4])
		all[name] = labels
		if m[2] == "histogram" {
			all[name+"_count"], all[name+"_sum"], all[name+"_bucket"] = labels, labels, append(labels, "le")
		}
	}
	if len(all) < 60 {
		t.Fatalf("%d metrics found: the test looks at the wrong place", len(all))
	}
	_, command, found := strings.Cut(text, "\n## What the command adds\n")
	if !found {
		t.Fatal("docs/metrics.md does not say what the command adds")
	}
	for _, m := range servedRow.FindAllStringSubmatch(command, -1) {
		for _, name := range namesIn(m[1]) {
			all[name] = namesIn(m[2])
		}
	}
	return all
}

// namesIn are the names in a cell of a table, with _ for the dots that labels have not at /metrics.
func namesIn(cell string) (names []string) {
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		names = append(names, strings.ReplaceAll(m[1], ".", "_"))
	}
	return names
}

// served is the name at /metrics, as docs/metrics.md says.
func served(name, kind, unit string) string {
	name = strings.ReplaceAll(name, ".", "_")
	if suffix := map[string]string{"s": "_seconds", "By": "_bytes", "1": "_ratio", "ms": "_milliseconds"}[unit]; !strings.HasSuffix(name, suffix) {
		name += suffix
	}
	if kind == "counter" {
		name += "_total"
	}
	return name
}

// TestRunbookNamesMetrics keeps the runbook from naming metrics that are not documented.
func TestRunbookNamesMetrics(t *testing.T) {
	t.Parallel()
	known := documented(t)
	names := regexp.MustCompile(`\b(?:troupe|mcp|go)_\w+`).FindAllString(read(t, "docs/runbook.md"), -1)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if _, ok := known[name]; !ok {
			t.Errorf("docs/runbook.md names %s, which docs/metrics.md has not", name)
		}
	}
	if len(names) < 30 {
		t.Errorf("%d metrics found: the test looks at the wrong place", len(names))
	}
}
