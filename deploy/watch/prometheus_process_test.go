//go:build full && linux

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// scrapeEvery is how often processes are read here: no sooner than a node gives up to ask a store that does not answer.
const scrapeEvery = 3 * time.Second

// shorter is what a time of the rules is in these tests, so that they take minutes and not days: 10 s for 5 min, and else the more the longer,
// by the cube root. So what is shorter than another one stays shorter, and the least windows have some readings in them.
func shorter(d time.Duration) time.Duration {
	return time.Duration(10 * float64(time.Second) * math.Cbrt(d.Minutes()/5)).Round(time.Millisecond)
}

// shortened is what shorter is not right for: the time without a lease within this window is compared with ten seconds.
var shortened = map[string]time.Duration{"TroupeLeaseSuspended": 30 * time.Second}

// shortRules are the rules that are shipped, with shorter times and nothing else changed.
func shortRules(t *testing.T) []byte {
	t.Helper()
	var file rules
	readYAML(t, rulesFile, &file)
	for g := range file.Groups {
		for i := range file.Groups[g].Rules {
			r := &file.Groups[g].Rules[i]
			short := func(d time.Duration) time.Duration {
				if own := shortened[r.Alert]; own > 0 {
					return own
				}
				return shorter(d)
			}
			if r.For != "" {
				d, err := model.ParseDuration(r.For)
				if err != nil {
					t.Fatal(err)
				}
				r.For = model.Duration(short(time.Duration(d))).String()
			}
			e := parse(t, r.Expr)
			parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
				switch n := n.(type) {
				case *parser.MatrixSelector:
					n.Range = short(n.Range)
				case *parser.SubqueryExpr:
					t.Errorf("%s has a subquery, whose times are not made shorter", r.Expr)
				}
				return nil
			})
			r.Expr = e.String()
		}
	}
	text, err := yaml.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// newPrometheus starts a Prometheus that reads the metrics of jobs, and returns its URL.
func newPrometheus(t *testing.T, jobs map[string][]*process) string {
	t.Helper()
	type static struct {
		Targets []string `yaml:"targets"`
	}
	type job struct {
		Name    string   `yaml:"job_name"`
		Configs []static `yaml:"static_configs"`
	}
	config := struct {
		Global map[string]string `yaml:"global"`
		Rules  []string          `yaml:"rule_files"`
		Jobs   []job             `yaml:"scrape_configs"`
	}{Global: map[string]string{"scrape_interval": scrapeEvery.String(), "scrape_timeout": scrapeEvery.String(), "evaluation_interval": "1s"}, Rules: []string{"rules.yaml"}}
	for name, nodes := range jobs {
		var targets []string
		for _, p := range nodes {
			u, err := url.Parse(p.ready)
			if err != nil {
				t.Fatal(err)
			}
			targets = append(targets, u.Host)
		}
		config.Jobs = append(config.Jobs, job{name, []static{{targets}}})
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string][]byte{"prometheus.yml": text, "rules.yaml": shortRules(t)} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at := addresses(t, 1)[0]
	p := &process{
		name: "prometheus", bin: program(t, "prometheus"), address: at, ready: "http://" + at + "/-/ready",
		args: []string{"--config.file=" + filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + at, "--log.level=warn"},
	}
	p.start(t)
	return "http://" + at
}

// get asks the API of Prometheus.
func get(base, path string, query url.Values, to any) error {
	resp, err := quick.Get(base + path + "?" + query.Encode())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: to}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %d %s, %v", path, query.Encode(), resp.StatusCode, answer.Error, err)
	}
	return nil
}

// firing are the alerts that fire, each as "NAME of JOB", and those that may soon, as "NAME of JOB, pending".
func firing(t *testing.T, base string) map[string]string {
	t.Helper()
	var answer struct {
		Alerts []struct {
			Labels, Annotations map[string]string
			State               string
		}
	}
	if err := get(base, "/api/v1/alerts", nil, &answer); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, a := range answer.Alerts {
		name := a.Labels["alertname"] + " of " + a.Labels["job"]
		if a.State != "firing" {
			name += ", " + a.State
		}
		all[name] = a.Annotations["summary"] + " " + a.Annotations["description"]
		for _, broken := range []string{"<no value>", "<error", "{{"} {
			if strings.Contains(all[name], broken) {
				t.Errorf("%s says %s", name, all[name])
			}
		}
	}
	return all
}

// values counts the numbers that a query has had since a time.
func values(t *testing.T, base, expr string, since time.Time) (n int) {
	t.Helper()
	var answer struct {
		Result []struct {
			Values [][2]any
		}
	}
	query := url.Values{"query": {expr}, "start": {fmt.Sprint(since.Unix())}, "end": {fmt.Sprint(time.Now().Unix())}, "step": {"1"}}
	if err := get(base, "/api/v1/query_range", query, &answer); err != nil {
		t.Error(err)
		return 0
	}
	for _, series := range answer.Result {
		for _, v := range series.Values {
			if v[1] != "NaN" {
				n++
			}
		}
	}
	return n
}
