package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDashboardsAreWritten compares the files of deploy/grafana with what this program writes.
func TestDashboardsAreWritten(t *testing.T) {
	t.Parallel()
	const dir = repository + "/deploy/grafana"
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) != len(dashboards()) {
		t.Errorf("%d dashboards are there (%v), want %d", len(files), err, len(dashboards()))
	}
	for name, d := range dashboards() {
		want, err := d.encode()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, name+".json")); err != nil || string(got) != string(want) {
			t.Errorf("%s.json is not what is written (%v): go -C deploy run ./watch", name, err)
		}
	}
}

// TestPanelsAreWhole requires of each panel what a reader needs, and that panels do not cover each other.
func TestPanelsAreWhole(t *testing.T) {
	t.Parallel()
	uids := map[string]bool{}
	for name, d := range dashboards() {
		if uids[d.UID] || d.Title == "" {
			t.Errorf("%s: the uid %q is taken, or there is no title", name, d.UID)
		}
		uids[d.UID] = true
		taken := map[[2]int]string{}
		titles := map[string]bool{}
		for _, p := range d.Panels {
			if titles[p.Title] && p.Type != "row" {
				t.Errorf("%s: two panels are called %s", name, p.Title)
			}
			titles[p.Title] = p.Type != "row"
			for x := range p.GridPos.W {
				for y := range p.GridPos.H {
					at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
					if taken[at] != "" || at[0] >= columns {
						t.Fatalf("%s: %q is where %q is, or beyond the edge", name, p.Title, taken[at])
					}
					taken[at] = p.Title
				}
			}
			if p.Type == "row" {
				continue
			}
			if p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 || *p.Datasource != from {
				t.Errorf("%s: %q lacks a description, a unit, a query or the data source that was chosen", name, p.Title)
			}
			for _, q := range p.Targets {
				if !strings.Contains(q.Expr, "$job") && !strings.Contains(q.Expr, "ALERTS") {
					t.Errorf("%s: %q has a query of all jobs: %s", name, p.Title, q.Expr)
				}
			}
		}
	}
}

// TestDashboardsAskNobody keeps addresses out of what is shipped for Grafana: it asks the data source alone.
func TestDashboardsAskNobody(t *testing.T) {
	t.Parallel()
	for name, d := range dashboards() {
		text, err := d.encode()
		if err != nil {
			t.Fatal(err)
		}
		for _, scheme := range []string{"http:", "https:", "//"} {
			if strings.Contains(string(text), scheme) {
				t.Errorf("%s names an address: %s", name, scheme)
			}
		}
	}
}

// TestProvisioning reads the files that tell Grafana of the data source and of the dashboards.
func TestProvisioning(t *testing.T) {
	t.Parallel()
	var sources struct {
		APIVersion  int `yaml:"apiVersion"`
		Datasources []struct {
			Name, UID, Type, Access, URL string
			IsDefault                    bool           `yaml:"isDefault"`
			JSONData                     map[string]any `yaml:"jsonData"`
		}
	}
	readYAML(t, "deploy/grafana/provisioning/datasources/prometheus.yaml", &sources)
	if len(sources.Datasources) != 1 || sources.Datasources[0].Type != "prometheus" || !sources.Datasources[0].IsDefault {
		t.Errorf("the data sources are %+v", sources)
	}
	var providers struct {
		APIVersion int `yaml:"apiVersion"`
		Providers  []struct {
			Name, Folder, Type string
			DisableDeletion    bool              `yaml:"disableDeletion"`
			AllowUIUpdates     bool              `yaml:"allowUiUpdates"`
			Options            map[string]string `yaml:"options"`
		}
	}
	readYAML(t, "deploy/grafana/provisioning/dashboards/troupe.yaml", &providers)
	if len(providers.Providers) != 1 || providers.Providers[0].Type != "file" || providers.Providers[0].Options["path"] == "" {
		t.Errorf("the providers are %+v", providers)
	}
	for _, file := range []string{"deploy/grafana/provisioning/datasources/prometheus.yaml", "deploy/grafana/provisioning/dashboards/troupe.yaml"} {
		if !slices.Contains(strings.Split(read(t, file), " "), "not") || !strings.HasPrefix(read(t, file), "# not run by us") {
			t.Errorf("%s does not say that it is not run", file)
		}
	}
}
