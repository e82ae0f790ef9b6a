package chart

import (
	"os"
	"strings"
	"testing"
)

// refused are values that cannot work, by a part of the sentence that says so.
var refused = map[string]string{
	"replicas is 3 and the store is embedded":                     `replicas: 3`,
	"autoscaling needs a store that several processes share":      `autoscaling: {enabled: true}`,
	"store.nats has no effect with the embedded store":            `store: {nats: {url: "nats://nats:4222"}}`,
	"existingClaim names a volume that is there":                  `store: {embedded: {existingClaim: a, storageClass: b}}`,
	"there is no address of NATS servers":                         `store: {kind: external}`,
	"store.nats.url and store.nats.urlSecret exclude each other":  `store: {kind: external, nats: {url: "nats://nats:4222", urlSecret: {name: a}}}`,
	"store.nats.url has a password":                               `store: {kind: external, nats: {url: "nats://one:4222,nats://user:secret@nats:4222"}}`,
	"are three ways to log in":                                    `store: {kind: external, nats: {url: "nats://nats:4222", credsSecret: {name: a}, tokenSecret: {name: b}}}`,
	"config.sync has no effect":                                   external + `config: {sync: 0s}`,
	"config.listen is the chart's own affair":                     `config: {listen: "127.0.0.1:80"}`,
	"config.drain-wait is the chart's own affair: set drain.wait": `config: {drain-wait: 10m}`,
	"config.nats is the chart's own affair":                       `config: {nats: "nats://nats:4222"}`,
	"config.data is the chart's own affair":                       `config: {data: /elsewhere}`,
	"config.memory is the chart's own affair":                     `config: {memory: true}`,
	"config.nats-listen is the chart's own affair":                `config: {nats-listen: ":4222"}`,
	"extraEnv sets TROUPE_DRAIN_WAIT":                             `extraEnv: [{name: TROUPE_DRAIN_WAIT, value: 1h}]`,
	"extraEnv sets TROUPE_API_KEYS":                               `extraEnv: [{name: TROUPE_API_KEYS, value: "true"}]`,
	"could call without a token":                                  `config: {api-keys: false}`,
	"config.public-url is needed beside an issuer":                `config: {auth: {issuers: [{url: "https://id.example.com"}]}}`,
	"config.public-url is needed":                                 `config: {auth-issuer: ["https://id.example.com"]}`,
	"config.auth has a client-secret":                             `config: {public-url: "https://a", auth: {issuers: [{url: "https://id", introspection: {client-secret: s}}]}}`,
	"configSecret has the whole file":                             `{configSecret: {name: a}, config: {page-size: 7}}`,
	"httpRoute belongs to no Gateway":                             `httpRoute: {enabled: true, hostnames: [a.example.com]}`,
	"httpRoute has no hostnames":                                  `httpRoute: {enabled: true, parentRefs: [{name: a}]}`,
	"set httpRoute.backendTLS.hostname":                           `{tls: {secretName: a}, httpRoute: {enabled: true, parentRefs: [{name: a}], hostnames: [a.example.com]}}`,
	"httpRoute.backendTLS has no effect":                          `httpRoute: {backendTLS: {hostname: a.example.com}}`,
	"ingress has no hosts":                                        `ingress: {enabled: true}`,
	"set ingress.annotations as yours wants it":                   `{tls: {secretName: a}, ingress: {enabled: true, hosts: [a.example.com]}}`,
	"a name with * matches no name":                               `ingress: {enabled: true, hosts: ["*.example.com"]}`,
	"service.loadBalancerSourceRanges has no effect":              `service: {loadBalancerSourceRanges: [192.0.2.0/24]}`,
	"service.externalTrafficPolicy has no effect":                 `service: {externalTrafficPolicy: Local}`,
	"podDisruptionBudget.maxUnavailable and minAvailable exclude": external + `podDisruptionBudget: {minAvailable: 1}`,
	"podDisruptionBudget says nothing":                            external + `podDisruptionBudget: {maxUnavailable: ""}`,
	"maxUnavailable is 0: no node":                                external + `podDisruptionBudget: {maxUnavailable: 0}`,
	"maxUnavailable is 0":                                         external + `podDisruptionBudget: {maxUnavailable: 0%}`,
	"minAvailable is 3 of 3 pods":                                 external + `podDisruptionBudget: {maxUnavailable: "", minAvailable: 3}`,
	"minAvailable is 67% of 3 pods":                               external + `podDisruptionBudget: {maxUnavailable: "", minAvailable: 67%}`,
	"minAvailable is 2 of 2 pods":                                 external + `{podDisruptionBudget: {maxUnavailable: "", minAvailable: 2}, autoscaling: {enabled: true, minReplicas: 2}}`,
	"autoscaling.minReplicas is more than":                        external + `autoscaling: {enabled: true, minReplicas: 30}`,
	"replicas has no effect with autoscaling":                     external + `{replicas: 4, autoscaling: {enabled: true}}`,
	"autoscaling measures the use of the CPU":                     external + `{resources: {requests: {cpu: null}}, autoscaling: {enabled: true}}`,
	"resources.limits.memory is needed":                           `resources: {limits: {memory: null}}`,
	"secretMounts has the name a twice":                           `secretMounts: [{name: a, secretName: b}, {name: a, secretName: c}]`,
	"networkPolicy.egress has no effect":                          `networkPolicy: {enabled: false, egress: {enabled: true}}`,
}

// external are values with NATS servers, before others.
const external = "store: {kind: external, nats: {url: \"nats://nats:4222\"}}\n"

// TestRefusals has each combination that cannot work end the render with its sentence, and with no other.
func TestRefusals(t *testing.T) {
	t.Parallel()
	c, err := shipped()
	if err != nil {
		t.Fatal(err)
	}
	for sentence, text := range refused {
		_, err := render(t, c, release, unfold(text))
		if err == nil || !strings.Contains(err.Error(), sentence) || strings.Count(err.Error(), "\n- ") != 1 {
			t.Errorf("%s\nrenders with the error %v, want one sentence with %q", text, err, sentence)
		}
	}
	if _, err := render(t, c, Release{Name: "7", Namespace: "mcp"}, ``); err == nil || !strings.Contains(err.Error(), `the name "7-troupe" cannot be that of a Service`) {
		t.Errorf("a release named 7: %v", err)
	}
	_, err = render(t, c, release, "replicas: 3\nautoscaling: {enabled: true}\nconfig: {api-keys: false}\n")
	if err == nil || strings.Count(err.Error(), "\n- ") != 4 {
		t.Errorf("four faults are told as %v", err)
	}
}

// unfold makes one mapping of external and a mapping in braces.
func unfold(text string) string {
	if rest, folded := strings.CutPrefix(text, external+"{"); folded {
		return "{" + strings.TrimSpace(external) + ", " + rest
	}
	return text
}

// TestBudgetsThatLetDrain are budgets near those that are refused.
func TestBudgetsThatLetDrain(t *testing.T) {
	t.Parallel()
	for _, budget := range []string{`{maxUnavailable: "", minAvailable: 2}`, `{maxUnavailable: "", minAvailable: 66%}`, `{maxUnavailable: "", minAvailable: "1"}`, `{maxUnavailable: 50%}`, `{enabled: false, maxUnavailable: 0}`} {
		rendered(t, shipped, release, external+"podDisruptionBudget: "+budget)
	}
}

// TestMadeUpValues has the schema refuse what is no value, or no value of its kind.
func TestMadeUpValues(t *testing.T) {
	t.Parallel()
	c, err := shipped()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		`replica: 3`, `replicas: -1`, `replicas: three`, `image: {tags: a}`, `image: {digest: "sha256:short"}`, `image: {pullPolicy: Sometimes}`, `store: {kind: redis}`, `store: {url: a}`,
		`store: {kind: external, nats: {url: "http://nats:4222"}}`, `store: {kind: external, nats: {urls: a}}`, `config: {pagesize: 7}`, `config: {page-size: seven}`, `config: {max-call: 90}`, `config: {max-body: lots}`,
		`config: {revisions: ["2024-01-01"]}`, `config: {auth: {issuer: a}}`, `config: {auth: {issuers: [{URL: a}]}}`, `config: {allow-host: a.example.com}`, `config: {api-keys: "true"}`, `config: {log-level: loud}`,
		`drain: {delaySeconds: 3s}`, `drain: {waitSeconds: 0}`, `drain: {delay: 3}`, `service: {type: ExternalName}`, `service: {port: 70000}`, `httpRoute: {hosts: [a]}`, `httpRoute: {hostnames: ["https://a"]}`,
		`ingress: {hosts: [{host: a}]}`, `ingress: {hosts: ["a/b"]}`, `probes: {readiness: {httpGet: {}}}`, `topologySpread: {zone: Maybe}`, `podDisruptionBudget: {minAvailable: most}`, `autoscaling: {sessions: 100}`,
		`networkPolicy: {ingress: []}`, `monitoring: {serviceMonitor: true}`, `serviceAccount: {token: true}`, `user: root`, `extraEnv: [{value: a}]`, `secretMounts: [{name: A, secretName: a}]`, `securityContext: {}`,
		`fullnameOverride: Prod`, `resources: {limits: {memory: lots}}`, `podAnnotations: {a: 1}`,
	} {
		if out, err := render(t, c, release, text); err == nil || !strings.Contains(err.Error(), "values don't meet the specifications of the schema") {
			t.Errorf("%s renders: %v\n%v", text, err, out != nil)
		}
	}
}

// TestExampleOfHosting renders the values with which README.md hosts a command.
func TestExampleOfHosting(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../helm/troupe/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(text), "```yaml\nimage: ")
	example, _, found := strings.Cut(example, "```")
	if !found {
		t.Fatal("README.md has no such example")
	}
	rendered(t, shipped, release, "image: "+example)
}
