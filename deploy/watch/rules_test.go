package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

const (
	rulesFile = "deploy/prometheus/troupe.rules.yaml"
	testsDir  = "deploy/prometheus/tests"
	runbook   = "docs/runbook.md"
)

// rules is a file of rules, as Prometheus reads it.
type rules struct {
	Groups []group `yaml:"groups"`
}

type group struct {
	Name  string `yaml:"name"`
	Rules []rule `yaml:"rules"`
}

// A rule is an alert, or records what its expression says under a name.
type rule struct {
	Alert       string            `yaml:"alert,omitempty"`
	Record      string            `yaml:"record,omitempty"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels,omitempty"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
}

// readYAML decodes a file of the repository, which may have no other members than to has.
func readYAML(t *testing.T, name string, to any) {
	t.Helper()
	if err := yaml.UnmarshalWithOptions([]byte(read(t, name)), to, yaml.Strict()); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// allRules are those of deploy/prometheus in their order.
func allRules(t *testing.T) (all []rule) {
	t.Helper()
	var file rules
	readYAML(t, rulesFile, &file)
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// alerts are the names of all alerts, in their order.
func alerts(t *testing.T) (names []string) {
	t.Helper()
	for _, r := range allRules(t) {
		if r.Alert != "" {
			names = append(names, r.Alert)
		}
	}
	return names
}

// TestAlertsHaveEntries compares the alerts with the headings of the runbook, in their order, and what an alert says with what it has to.
func TestAlertsHaveEntries(t *testing.T) {
	t.Parallel()
	text := read(t, runbook)
	var entries []string
	for _, m := range regexp.MustCompile(`(?m)^### (\w+)$`).FindAllStringSubmatch(text, -1) {
		entries = append(entries, m[1])
	}
	want := alerts(t)
	slices.Sort(want)
	slices.Sort(entries)
	if !slices.Equal(want, entries) {
		t.Errorf("the alerts are\n%v\nand the runbook has entries for\n%v", want, entries)
	}
	for _, entry := range strings.Split(text, "\n### ")[1:] {
		entry, _, _ = strings.Cut(entry, "\n## ")
		for _, part := range []string{"**See it**", "**why**", "**do**"} {
			if !strings.Contains(strings.ToLower(entry), strings.ToLower(part)) {
				t.Errorf("the entry of %s has no %s", entry[:strings.IndexByte(entry, '\n')], part)
			}
		}
	}
	const base = "https://github.com/troupe-run/troupe/blob/main/" + runbook + "#"
	for _, r := range allRules(t) {
		if r.Alert == "" {
			continue
		}
		if got := r.Annotations["runbook_url"]; got != base+strings.ToLower(r.Alert) {
			t.Errorf("%s leads to %s", r.Alert, got)
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) || r.Annotations["summary"] == "" || r.Annotations["description"] == "" || len(r.Annotations) != 3 {
			t.Errorf("%s lacks a severity, a summary or a description: %v, %v", r.Alert, r.Labels, r.Annotations)
		}
	}
}

// unitTests is a file of promtool test rules.
type unitTests struct {
	RuleFiles          []string   `yaml:"rule_files"`
	EvaluationInterval string     `yaml:"evaluation_interval"`
	Tests              []unitTest `yaml:"tests"`
}

type unitTest struct {
	Name        string              `yaml:"name"`
	Interval    string              `yaml:"interval"`
	InputSeries []map[string]string `yaml:"input_series"`
	Queries     []struct {
		Expr     string `yaml:"expr"`
		EvalTime string `yaml:"eval_time"`
		Expected []struct {
			Labels string  `yaml:"labels"`
			Value  float64 `yaml:"value"`
		} `yaml:"exp_samples"`
	} `yaml:"promql_expr_test"`
}

// fires reports whether an alert is expected to fire at a query of the test.
func (u *unitTest) fires(alert string, query int) bool {
	for _, sample := range u.Queries[query].Expected {
		if strings.Contains(sample.Labels, `"`+alert+`"`) {
			return true
		}
	}
	return false
}

func testFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repository, testsDir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests of rules: %v", err)
	}
	return files
}

// TestRulesHaveTests requires that each alert has a test in which it fires and resolves, and one in which it does not fire, whatever else does.
func TestRulesHaveTests(t *testing.T) {
	t.Parallel()
	fires, rests := map[string]bool{}, map[string]bool{}
	for _, file := range testFiles(t) {
		var tests unitTests
		readYAML(t, testsDir+"/"+filepath.Base(file), &tests)
		for _, u := range tests.Tests {
			alert, not := strings.CutSuffix(strings.SplitN(u.Name, ":", 2)[0], ", not")
			if len(u.Queries) == 0 {
				t.Errorf("%q asks nothing", u.Name)
				continue
			}
			ever := false
			for i, q := range u.Queries {
				ever = ever || u.fires(alert, i)
				if !strings.Contains(q.Expr, `ALERTS{alertstate="firing"}`) {
					t.Errorf("%q, %s: want all alerts that fire, and not %s", u.Name, q.EvalTime, q.Expr)
				}
			}
			switch last := u.fires(alert, len(u.Queries)-1); {
			case not && ever:
				t.Errorf("in %q the alert fires", u.Name)
			case !not && (!ever || last):
				t.Errorf("in %q the alert does not fire and resolve", u.Name)
			case not:
				rests[alert] = true
			default:
				fires[alert] = true
			}
		}
	}
	for _, alert := range alerts(t) {
		if !fires[alert] || !rests[alert] {
			t.Errorf("%s: a test has it fire and resolve: %v; one has it not fire: %v", alert, fires[alert], rests[alert])
		}
	}
}

// TestRules has promtool check what is shipped, and run the tests of the rules.
func TestRules(t *testing.T) {
	t.Parallel()
	promtool := program(t, "promtool")
	run := func(name string, args ...string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	run("rules", "check", "rules", filepath.Join(repository, rulesFile))
	run("config", "check", "config", filepath.Join(repository, "deploy/prometheus/prometheus.yml"))
	for _, file := range testFiles(t) {
		run(filepath.Base(file), "test", "rules", file)
	}
}
