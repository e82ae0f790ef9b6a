package chart

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
)

var update = flag.Bool("update", false, "write the golden files, and the files of the chart that come from elsewhere in deploy")

// dir is the chart.
var dir = filepath.Join("..", "helm", "troupe")

// matrix are values that work, by the names of their golden files.
var matrix = map[string]string{
	"default": ``,
	"embedded": `
fullnameOverride: mcp
store:
  embedded: {size: 20Gi, storageClass: fast, keep: false}
config: {max-store: 16GiB, sync: 0s, max-values: 1000000, call-rate: 0.5, allow-host: [mcp.internal, "mcp.internal:8443"], metrics-detail: server, revisions: ["2025-11-25", "2026-07-28"]}
`,
	"existing-volume": `
store: {embedded: {existingClaim: restored}}
resources: {requests: {cpu: 1, memory: 2Gi}, limits: {cpu: 2, memory: 2Gi}}
`,
	"external": `
store: {kind: external, nats: {url: "nats://nats-0.nats:4222,nats://nats-1.nats:4222,nats://nats-2.nats:4222"}}
`,
	"external-secrets": `
nameOverride: tools-for-the-whole-company
image: {repository: registry.example.com/troupe, digest: "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}
imagePullSecrets: [{name: registry}]
store:
  kind: external
  nats:
    urlSecret: {name: nats, key: servers}
    credsSecret: {name: nats-user}
    caSecret: {name: nats-ca}
    certSecret: {name: nats-client}
    prefix: tools
    replicas: 3
replicas: 2
config:
  api-keys: false
  public-url: https://mcp.example.com
  auth:
    issuers:
      - url: https://id.example.com
        introspection: {url: https://id.example.com/introspect, client-id: troupe, client-secret-file: /etc/troupe/secrets/id/client-secret}
    scopes: [files:read]
    implies: {"files:write": ["files:read"]}
secretMounts: [{name: id, secretName: introspection}]
podDisruptionBudget: {maxUnavailable: "", minAvailable: 50%}
user: 0
`,
	"whole-file": `
configSecret: {name: settings, key: serve.yaml}
store: {kind: external, nats: {url: "tls://nats:4222", tokenSecret: {name: nats, key: token}, nkeySecret: {name: ""}}}
`,
	"everything": `
store: {kind: external, nats: {url: "nats://nats.nats:4222", nkeySecret: {name: nats-user}}}
config:
  allow-anonymous: true
  public-url: https://mcp.example.com
  trusted-proxy: [10.0.0.0/8, "fd00::/8"]
tls: {secretName: pods-tls}
drain: {delaySeconds: 20, waitSeconds: 300}
service: {type: LoadBalancer, port: 443, externalTrafficPolicy: Local, loadBalancerSourceRanges: [192.0.2.0/24], annotations: {example.com/tier: gold}}
httpRoute:
  enabled: true
  parentRefs: [{name: public, namespace: gateways, sectionName: https}]
  hostnames: [mcp.example.com]
  annotations: {example.com/a: b}
  labels: {team: tools}
  backendTLS: {hostname: mcp.example.com, caConfigMap: authority}
ingress:
  enabled: true
  className: traefik
  annotations: {example.com/backend-protocol: HTTPS}
  hosts: [mcp.example.com, mcp.example.org]
  tls: [{secretName: mcp-tls, hosts: [mcp.example.com, mcp.example.org]}]
minReadySeconds: 5
topologySpread: {zone: DoNotSchedule, node: ""}
autoscaling: {enabled: true, minReplicas: 3, maxReplicas: 20, callsInFlight: 200}
networkPolicy:
  from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: gateways}}}]
  metricsFrom: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]
  egress:
    enabled: true
    nats: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: nats}}}]
    extra: [{ports: [{port: 443}], to: [{ipBlock: {cidr: 0.0.0.0/0}}]}]
monitoring:
  serviceMonitor: {enabled: true, interval: 15s, labels: {release: prometheus}}
  rules: {enabled: true, labels: {release: prometheus}}
  dashboards: {enabled: true, annotations: {grafana_folder: MCP}}
serviceAccount: {name: tools, annotations: {example.com/role: none}}
podAnnotations: {example.com/note: "yes"}
podLabels: {team: tools}
nodeSelector: {kubernetes.io/os: linux}
tolerations: [{key: dedicated, operator: Equal, value: mcp, effect: NoSchedule}]
affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: disk, operator: In, values: [ssd]}]}}]}}
priorityClassName: important
extraEnv:
  - {name: OTEL_EXPORTER_OTLP_ENDPOINT, value: "http://collector.monitoring:4318"}
  - {name: OTEL_EXPORTER_OTLP_HEADERS, valueFrom: {secretKeyRef: {name: collector, key: headers}}}
extraEnvFrom: [{configMapRef: {name: more}}]
extraVolumes: [{name: more, configMap: {name: more}}]
extraVolumeMounts: [{name: more, mountPath: /etc/more, readOnly: true}]
`,
	"gateway-embedded": `
httpRoute: {enabled: true, parentRefs: [{name: public}], hostnames: ["*.example.com", mcp.example.org]}
config: {allow-host: [a.example.com]}
serviceAccount: {create: false}
networkPolicy: {enabled: false}
`,
	"no-budget": `
store: {kind: external, nats: {url: "nats://nats:4222"}}
replicas: 1
podDisruptionBudget: {enabled: false}
topologySpread: {zone: "", node: ""}
ingress: {enabled: true, hosts: [mcp.example.com]}
monitoring: {serviceMonitor: {enabled: true}}
`,
}

// release is the installation that the golden files have.
var release = Release{Name: "prod", Namespace: "mcp"}

// standIns are files of the chart for the golden files, which do not change whenever a rule or a dashboard does.
var standIns = []*common.File{
	{Name: "files/prometheus/alerts.yaml", Data: []byte("# A comment.\ngroups:\n  - name: troupe\n    rules:\n      - alert: TroupeAway\n        expr: up{job=\"troupe\"} == 0\n" +
		"        for: 1m\n        labels: {severity: page}\n        annotations:\n          summary: '{{ $labels.instance }} is away'\n")},
	{Name: "files/grafana/over_view.json", Data: []byte("{\n  \"title\": \"Overview\",\n  \"templating\": \"{{instance}}\"\n}\n")},
}

// shipped is the chart as it lies there; golden the same with the stand-ins.
var (
	shipped = sync.OnceValues(func() (*Chart, error) { return Load(dir) })
	golden  = sync.OnceValues(func() (*Chart, error) {
		c, err := Load(dir)
		if err == nil {
			c.chart.Files = standIns
		}
		return c, err
	})
)

// rendered renders a chart, or fails the test.
func rendered(t *testing.T, load func() (*Chart, error), r Release, text string) *Rendered {
	t.Helper()
	c, err := load()
	if err != nil {
		t.Fatal(err)
	}
	out, err := render(t, c, r, text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func render(t *testing.T, c *Chart, r Release, text string) (*Rendered, error) {
	t.Helper()
	values, err := Values(text)
	if err != nil {
		t.Fatal(err)
	}
	return c.Render(t.Context(), r, values)
}

// TestGoldenFiles renders the matrix, decodes it strictly, and holds it to testdata. go test ./chart -run TestGoldenFiles -update writes the files.
func TestGoldenFiles(t *testing.T) {
	t.Parallel()
	for _, name := range slices.Sorted(maps.Keys(matrix)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := rendered(t, golden, release, matrix[name])
			for kind, got := range map[string]string{".yaml": out.Text, ".txt": out.Notes} {
				file := filepath.Join("testdata", name+kind)
				if *update {
					if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
					continue
				}
				want, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
					t.Errorf("%s (-want +got); -update writes it anew:\n%s", file, diff)
				}
			}
		})
	}
	known, err := filepath.Glob(filepath.Join("testdata", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range known {
		if _, has := matrix[strings.TrimSuffix(filepath.Base(file), ".yaml")]; !has {
			t.Errorf("%s is of no values of the matrix", file)
		}
	}
}

// TestLint has Helm's own linter find nothing: a chart may do without an icon.
func TestLint(t *testing.T) {
	t.Parallel()
	version, err := common.ParseKubeVersion(KubernetesVersion)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range matrix {
		values, err := Values(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range lint.RunAll(dir, values, release.Namespace, lint.WithKubeVersion(version)).Messages {
			if m.Severity > support.InfoSev || !strings.Contains(m.Error(), "icon is recommended") {
				t.Errorf("%s: %v", name, m)
			}
		}
	}
}

// TestSameValuesSamePods renders twice: nothing is made up, so that an upgrade without a change restarts nothing. Other settings are another pod.
func TestSameValuesSamePods(t *testing.T) {
	t.Parallel()
	for name, text := range matrix {
		first := rendered(t, shipped, release, text)
		second := rendered(t, shipped, Release{release.Name, release.Namespace, 2}, text)
		if diff := cmp.Diff(first.Text, second.Text); diff != "" {
			t.Errorf("%s: an upgrade without a change has other objects:\n%s", name, diff)
		}
	}
	before, after := podOf(t, rendered(t, shipped, release, ``)), podOf(t, rendered(t, shipped, release, `config: {page-size: 7}`))
	if cmp.Equal(before.Annotations, after.Annotations) {
		t.Error("other settings do not restart the pod")
	}
}
