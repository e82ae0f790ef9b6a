//go:build linux

package kubelet

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/troupe-run/troupe/deploy/chart"
	"github.com/troupe-run/troupe/test/kit/certificate"
)

// TestProgramTakesTheSettings has the program check its settings in each pod of the chart's golden files, in the root that the pod has: what the chart renders, it
// serves with. Addresses are as they are there, so that nobody is let in whom the values do not let in.
func TestProgramTakesTheSettings(t *testing.T) {
	t.Parallel()
	works, _ := programs(t)
	files, err := filepath.Glob(filepath.Join("..", "chart", "testdata", "*.yaml"))
	if err != nil || len(files) < 5 {
		t.Fatalf("the golden files are %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			r, err := chart.Decode(string(text))
			if err != nil {
				t.Fatal(err)
			}
			w, err := workloadOf(r)
			if err != nil {
				t.Fatal(err)
			}
			w.configMaps["more"] = map[string]string{"MORE": "less"}
			c := New(Options{Dir: directory(t), Images: map[string]Image{w.template.Spec.Containers[0].Image: image(works)}, Secrets: secretsOf(t, w)})
			t.Cleanup(c.Close)
			name := w.name + "-0"
			if w.kind == "Deployment" {
				name = w.name + "-" + w.hash + "-" + letters(5)
			}
			p := &pod{cluster: c, name: name, workload: w}
			b, err := p.makeRoot()
			if err != nil {
				t.Fatal(err)
			}
			defer b.remove()
			if out, err := b.command("config", "check").CombinedOutput(); err != nil || string(out) != "ok\n" {
				t.Errorf("config check: %v, %s", err, out)
			}
			shown, err := b.command("config", "show", "--json").Output()
			if err != nil {
				t.Fatalf("config show: %v", err)
			}
			settings := map[string]setting{}
			for _, s := range readSettings(t, shown) {
				settings[s.Name] = s
			}
			for name, want := range map[string]string{"listen": ":8080", "health-listen": ":9090", "data": "/data/troupe"} {
				if settings[name].Value != want {
					t.Errorf("%s is %v, want %v", name, settings[name], want)
				}
			}
			var config map[string]any
			if err := yaml.Unmarshal([]byte(w.configMaps[w.name]["troupe.yaml"]), &config); err != nil {
				t.Fatal(err)
			}
			for name := range config { // nothing that the image sets wins
				if !strings.HasPrefix(settings[name].Source, "/etc/troupe/config/troupe.yaml:") {
					t.Errorf("%s is in the ConfigMap, and comes from %q", name, settings[name].Source)
				}
			}
		})
	}
}

// setting is one as troupe config show has it.
type setting struct {
	Name   string
	Value  any
	Source string
}

func readSettings(t *testing.T, shown []byte) (all []setting) {
	t.Helper()
	if err := json.Unmarshal(shown, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// secretsOf returns the Secrets that a pod names, each with something for every key.
func secretsOf(t *testing.T, w *workload) map[string]map[string][]byte {
	t.Helper()
	certFile, keyFile, _ := certificate.Files(t)
	cert, err := os.ReadFile(certFile)
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string][]byte{}
	add := func(name string) {
		all[name] = map[string][]byte{
			"tls.crt": cert, "tls.key": key, "ca.crt": cert, "client-secret": []byte("s3cret"), "user.creds": []byte("creds"), "seed": []byte("seed"),
			"servers": []byte("nats://nats.nats:4222"), "token": []byte("t0ken"), "headers": []byte("a=b"), "serve.yaml": []byte("api-keys: true\n"),
		}
	}
	spec := &w.template.Spec
	for _, v := range spec.Volumes {
		if v.Secret != nil {
			add(v.Secret.SecretName)
		}
	}
	for _, v := range spec.Containers[0].Env {
		if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil {
			add(v.ValueFrom.SecretKeyRef.Name)
		}
	}
	return all
}

// TestChartKnowsEachSetting holds the settings that the chart takes in config to those of the program, and has the chart take the default of each.
func TestChartKnowsEachSetting(t *testing.T) {
	t.Parallel()
	works, _ := programs(t)
	cmd := exec.Command(works, "config", "show", "--json")
	cmd.Env = []string{"HOME=" + t.TempDir()}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("..", "helm", "troupe", "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties struct {
			Config struct {
				Properties map[string]struct{ Description string }
			}
		}
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	known := schema.Properties.Config.Properties
	delete(known, "auth")
	delete(known, "backends")
	defaults := map[string]any{"api-keys": true, "backends": map[string]any{"everything": map[string]any{"command": "mcp-server-everything"}}}
	for _, s := range readSettings(t, out) {
		property, has := known[s.Name]
		if !has {
			t.Errorf("values.schema.json does not know the setting %s", s.Name)
		}
		delete(known, s.Name)
		if s.Value != nil && s.Name != "api-keys" && !strings.HasPrefix(property.Description, "The chart sets it") {
			defaults[s.Name] = s.Value
		}
	}
	for name := range known {
		t.Errorf("values.schema.json has %s, which is no setting", name)
	}
	c, err := shipped()
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Render(t.Context(), chart.Release{Name: "prod", Namespace: "mcp"}, map[string]any{"config": defaults})
	if err != nil {
		t.Fatalf("the chart does not take the defaults of the program: %v", err)
	}
	maps := chart.All[*core.ConfigMap](r)
	if i := slices.IndexFunc(maps, func(m *core.ConfigMap) bool {
		return strings.Contains(m.Data["troupe.yaml"], "max-body: 4MiB\n") && strings.Contains(m.Data["troupe.yaml"], "command: mcp-server-everything\n")
	}); i < 0 {
		t.Errorf("the defaults are not in the ConfigMap: %v", maps)
	}
}
