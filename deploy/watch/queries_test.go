package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// targetLabels are those that Prometheus gives what it reads from a process, or that its configuration does.
var targetLabels = []string{"job", "instance", "namespace"}

// generated are the metrics that no process has: those of Prometheus, and what the rules record.
func generated(t *testing.T) map[string][]string {
	all := map[string][]string{"up": nil, "ALERTS": {"alertname", "alertstate", "severity"}}
	for _, r := range allRules(t) {
		if r.Record != "" {
			all[r.Record] = nil
		}
	}
	return all
}

// parse parses an expression of a rule or of a panel, in which Grafana's variables stand.
func parse(t *testing.T, expr string) parser.Expr {
	t.Helper()
	e, err := parser.NewParser(parser.Options{}).ParseExpr(strings.ReplaceAll(expr, "$__rate_interval", "5m"))
	if err != nil {
		t.Errorf("%s: %v", expr, err)
		return nil
	}
	return e
}

// faults are the names in an expression that no metric has: those of metrics, and those of labels where it selects, groups or matches.
func faults(e parser.Expr, known map[string][]string) (all []string) {
	labelsBelow := func(n parser.Node) []string {
		labels := slices.Clone(targetLabels)
		parser.Inspect(n, func(n parser.Node, _ []parser.Node) error {
			if s, ok := n.(*parser.VectorSelector); ok {
				labels = append(labels, known[s.Name]...)
			}
			return nil
		})
		return labels
	}
	require := func(n parser.Node, labels []string) {
		has := labelsBelow(n)
		for _, label := range labels {
			if !slices.Contains(has, label) {
				all = append(all, n.String()+" has no label "+label)
			}
		}
	}
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			if _, ok := known[n.Name]; !ok {
				all = append(all, "there is no metric "+n.Name)
			}
			var labels []string
			for _, m := range n.LabelMatchers {
				if m.Name != "__name__" {
					labels = append(labels, m.Name)
				}
			}
			require(n, labels)
		case *parser.AggregateExpr:
			if !n.Without {
				require(n.Expr, n.Grouping)
			}
		case *parser.BinaryExpr:
			if n.VectorMatching != nil && n.VectorMatching.On {
				require(n, n.VectorMatching.MatchingLabels)
			}
		}
		return nil
	})
	return all
}

// TestQueriesNameMetrics holds the queries of all rules and panels to docs/metrics.md.
func TestQueriesNameMetrics(t *testing.T) {
	t.Parallel()
	known := documented(t)
	maps.Copy(known, generated(t))
	check := func(where, expr string) {
		if e := parse(t, expr); e != nil {
			for _, fault := range faults(e, known) {
				t.Errorf("%s: %s", where, fault)
			}
		}
	}
	for _, r := range allRules(t) {
		check(r.Alert+r.Record, r.Expr)
		if r.Alert != "" { // what an alert says has the labels that its expression leaves
			checkTemplates(t, r, parse(t, r.Expr))
		}
	}
	for name, d := range dashboards() {
		for _, p := range d.Panels {
			for _, q := range p.Targets {
				check(name+", "+p.Title, q.Expr)
			}
		}
	}
}

// checkTemplates requires of the labels in the texts of an alert that its expression keeps them.
func checkTemplates(t *testing.T, r rule, e parser.Expr) {
	t.Helper()
	var kept []string // by the outermost aggregations; all if there is none
	grouped := false
	parser.Inspect(e, func(n parser.Node, path []parser.Node) error {
		if a, ok := n.(*parser.AggregateExpr); ok && !slices.ContainsFunc(path, func(n parser.Node) bool { _, inner := n.(*parser.AggregateExpr); return inner }) {
			grouped = true
			kept = append(kept, a.Grouping...)
		}
		return nil
	})
	if !grouped {
		kept = targetLabels
	}
	for where, text := range r.Annotations {
		for _, part := range strings.Split(text, "$labels.")[1:] {
			name := part[:strings.IndexFunc(part+" ", func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') })]
			if !slices.Contains(kept, name) {
				t.Errorf("%s of %s has the label %s, which its expression leaves out", where, r.Alert, name)
			}
		}
	}
}

// TestFaultsAreFound breaks what TestQueriesNameMetrics looks for.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	known := map[string][]string{"a_total": {"reason"}, "b": nil}
	for expr, want := range map[string]int{
		`rate(a_total{reason="x", job="y"}[5m])`: 0, `sum by (job, reason) (rate(a_total[$__rate_interval]))`: 0, `a_total + on (job, instance) b`: 0,
		`c`: 1, `a_total{kind="x"}`: 1, `sum by (kind) (a_total)`: 1, `b / on (reason) b`: 1, `rate(c_total{x="1"}[5m])`: 2,
	} {
		if got := faults(parse(t, expr), known); len(got) != want {
			t.Errorf("%s: %q, want %d faults", expr, got, want)
		}
	}
}
