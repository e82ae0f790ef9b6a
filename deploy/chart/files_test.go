package chart

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestFilesOfTheChart holds the rules and dashboards in the chart to those of deploy/prometheus and deploy/grafana: Helm reads no file outside of a chart. -update copies
// them. They render, and none is left out.
func TestFilesOfTheChart(t *testing.T) {
	t.Parallel()
	counts := map[string]int{}
	for _, kind := range []struct{ from, to, pattern string }{
		{filepath.Join("..", "prometheus"), filepath.Join(dir, "files", "prometheus"), "*.yaml"},
		{filepath.Join("..", "grafana"), filepath.Join(dir, "files", "grafana"), "*.json"},
	} {
		want, got := read(t, kind.from, kind.pattern), read(t, kind.to, kind.pattern)
		for name, data := range want {
			if !bytes.Equal(got[name], data) && *update {
				if err := os.MkdirAll(kind.to, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(kind.to, name), data, 0o644); err != nil {
					t.Fatal(err)
				}
			} else if !bytes.Equal(got[name], data) {
				t.Errorf("%s is not what %s has: -update copies it", filepath.Join(kind.to, name), kind.from)
			}
		}
		for name := range got {
			if want[name] == nil {
				t.Errorf("%s is in the chart alone", name)
			}
		}
		counts[kind.pattern] = len(want)
	}
	c, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	r, err := render(t, c, release, `monitoring: {serviceMonitor: {enabled: true}, rules: {enabled: true}, dashboards: {enabled: true}}`)
	if err != nil {
		t.Fatal(err)
	}
	fitsTogether(t, r)
	rules := All[*monitoring.PrometheusRule](r)
	if len(rules) != counts["*.yaml"] || len(All[*core.ConfigMap](r)) != counts["*.json"]+1 {
		t.Errorf("the chart renders %d sets of rules and %d ConfigMaps, of %v files", len(rules), len(All[*core.ConfigMap](r)), counts)
	}
	for _, rule := range rules {
		if len(rule.Spec.Groups) == 0 || slices.ContainsFunc(rule.Spec.Groups, func(g monitoring.RuleGroup) bool { return len(g.Rules) == 0 }) {
			t.Errorf("%s has a group without rules", rule.Name)
		}
	}
}

// read reads the files of a directory that are rules, or dashboards: settings of Prometheus and tests of rules lie beside them. A directory that is not there has none.
func read(t *testing.T, from, pattern string) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(from, pattern))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var content map[string]any
		if err := yaml.Unmarshal(data, &content); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if pattern == "*.yaml" && content["groups"] == nil {
			continue
		}
		all[filepath.Base(path)] = data
	}
	return all
}
