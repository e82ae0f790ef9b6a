package chart

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
)

// podOf returns the pod template of the one workload.
func podOf(t *testing.T, r *Rendered) *core.PodTemplateSpec {
	t.Helper()
	deployments, sets := All[*apps.Deployment](r), All[*apps.StatefulSet](r)
	switch {
	case len(deployments) == 1 && len(sets) == 0:
		return &deployments[0].Spec.Template
	case len(deployments) == 0 && len(sets) == 1:
		return &sets[0].Spec.Template
	}
	t.Fatalf("there are %d Deployments and %d StatefulSets, want one workload", len(deployments), len(sets))
	return nil
}

// environment are the plain variables of a container.
func environment(c *core.Container) map[string]string {
	all := make(map[string]string)
	for _, v := range c.Env {
		all[v.Name] = v.Value
	}
	return all
}

// eachOf runs a test for each of the matrix.
func eachOf(t *testing.T, test func(t *testing.T, r *Rendered)) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(matrix)) {
		t.Run(name, func(t *testing.T) { test(t, rendered(t, golden, release, matrix[name])) })
	}
}

// TestPodsAreRestricted is the profile restricted of the Pod Security Standards, and what goes beyond it: a root that cannot be written, no token of the API.
func TestPodsAreRestricted(t *testing.T) {
	t.Parallel()
	eachOf(t, func(t *testing.T, r *Rendered) {
		s := &podOf(t, r).Spec
		if s.HostNetwork || s.HostPID || s.HostIPC || s.ShareProcessNamespace != nil {
			t.Error("the pod shares what is the node's")
		}
		if s.AutomountServiceAccountToken == nil || *s.AutomountServiceAccountToken || s.EnableServiceLinks == nil || *s.EnableServiceLinks {
			t.Error("the pod has a token, or the variables of Services")
		}
		p := s.SecurityContext
		if p == nil || p.RunAsNonRoot == nil || !*p.RunAsNonRoot || p.SeccompProfile == nil || p.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault || len(p.Sysctls) > 0 {
			t.Errorf("the pod runs as %+v", p)
		}
		if p.RunAsUser != nil {
			// A data directory in a volume that the group may write is its user's own only if both have one number.
			if *p.RunAsUser != 65532 || p.RunAsGroup == nil || p.FSGroup == nil || *p.RunAsGroup != *p.RunAsUser || *p.FSGroup != *p.RunAsUser {
				t.Errorf("user, group and the volume's group are %v, %v, %v", *p.RunAsUser, p.RunAsGroup, p.FSGroup)
			}
		}
		if len(s.InitContainers)+len(s.EphemeralContainers) > 0 || len(s.Containers) != 1 {
			t.Fatal("there is more than one container")
		}
		c := s.Containers[0].SecurityContext
		no := func(b *bool) bool { return b != nil && !*b }
		if !no(c.AllowPrivilegeEscalation) || !no(c.Privileged) || c.ReadOnlyRootFilesystem == nil || !*c.ReadOnlyRootFilesystem || c.RunAsNonRoot == nil || !*c.RunAsNonRoot ||
			c.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault || c.ProcMount != nil || c.RunAsUser != nil {
			t.Errorf("the container runs as %+v", c)
		}
		if !reflect.DeepEqual(c.Capabilities.Drop, []core.Capability{"ALL"}) || len(c.Capabilities.Add) > 0 {
			t.Errorf("the container has the capabilities %+v", c.Capabilities)
		}
		for _, v := range s.Volumes {
			source := v.VolumeSource
			source.ConfigMap, source.Secret, source.EmptyDir, source.PersistentVolumeClaim = nil, nil, nil, nil
			if !reflect.DeepEqual(source, core.VolumeSource{}) {
				t.Errorf("the volume %s is of a kind that restricted does not have, or that nothing here needs", v.Name)
			}
			if v.EmptyDir != nil && v.EmptyDir.SizeLimit == nil {
				t.Errorf("the volume %s has no bound", v.Name)
			}
		}
		for _, p := range s.Containers[0].Ports {
			if p.HostPort != 0 || p.ContainerPort < 1024 {
				t.Errorf("the port %+v is the host's, or only root's", p)
			}
		}
	})
}

// TestPodsHaveBounds is limits, requests and probes.
func TestPodsHaveBounds(t *testing.T) {
	t.Parallel()
	eachOf(t, func(t *testing.T, r *Rendered) {
		c := &podOf(t, r).Spec.Containers[0]
		memory := c.Resources.Limits.Memory()
		if memory.IsZero() || c.Resources.Requests.Memory().Cmp(*memory) != 0 || c.Resources.Requests.Cpu().IsZero() {
			t.Errorf("the container has %+v: want a limit of memory, as much requested, and a request of CPU", c.Resources)
		}
		for name, p := range map[string]*core.Probe{"startup": c.StartupProbe, "readiness": c.ReadinessProbe, "liveness": c.LivenessProbe} {
			want := map[bool]string{true: "/readyz", false: "/healthz"}[name == "readiness"]
			if p == nil || p.HTTPGet == nil || p.HTTPGet.Path != want || p.HTTPGet.Port != intstr.FromString("health") || p.HTTPGet.Scheme != "" || p.TimeoutSeconds < 2 {
				t.Errorf("the %s probe is %+v, want one of %s at the port health", name, p, want)
			}
		}
		// A store that a crash left takes its time; a process waits 30 s for NATS servers.
		if p := c.StartupProbe; p.PeriodSeconds*p.FailureThreshold < 60 {
			t.Errorf("a start may take %d s", p.PeriodSeconds*p.FailureThreshold)
		}
		// A store whose disk is full fails /healthz after a minute, and a start does not mend it.
		if p := c.LivenessProbe; p.PeriodSeconds*p.FailureThreshold < 30 {
			t.Errorf("a process has %d s", p.PeriodSeconds*p.FailureThreshold)
		}
		if c.Lifecycle != nil {
			t.Error("there is a hook, in place of which the process drains by itself")
		}
	})
}

// TestGraceIsLongEnough holds the time until Kubernetes kills a process to what that needs at most: both times of the drain, and afterDrain of cmd/troupe.
func TestGraceIsLongEnough(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile(filepath.Join("..", "..", "cmd", "troupe", "failure.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^const afterDrain = \((\d+) \+ (\d+)\) \* time\.Second$`).FindSubmatch(source)
	if found == nil {
		t.Fatal("cmd/troupe/failure.go does not say any more how long the end of a process takes")
	}
	end, _ := strconv.Atoi(string(found[1]))
	spare, _ := strconv.Atoi(string(found[2]))
	eachOf(t, func(t *testing.T, r *Rendered) {
		s := &podOf(t, r).Spec
		env := environment(&s.Containers[0])
		var drain time.Duration
		for _, name := range []string{"TROUPE_DRAIN_DELAY", "TROUPE_DRAIN_WAIT"} {
			d, err := time.ParseDuration(env[name])
			if err != nil {
				t.Fatalf("%s is %q", name, env[name])
			}
			drain += d
		}
		want := drain + time.Duration(end+spare)*time.Second
		if s.TerminationGracePeriodSeconds == nil || time.Duration(*s.TerminationGracePeriodSeconds)*time.Second != want {
			t.Errorf("the grace is %v s, want %v", s.TerminationGracePeriodSeconds, want)
		}
		if d, _ := time.ParseDuration(env["TROUPE_DRAIN_DELAY"]); d < 5*time.Second {
			t.Errorf("the delay is %v, which proxies may need to notice", d)
		}
	})
}

// TestUpdatesLoseNobody is how workloads are updated, and what may end their pods.
func TestUpdatesLoseNobody(t *testing.T) {
	t.Parallel()
	eachOf(t, func(t *testing.T, r *Rendered) {
		budgets, scalers := All[*policy.PodDisruptionBudget](r), All[*autoscaling.HorizontalPodAutoscaler](r)
		for _, s := range All[*apps.StatefulSet](r) {
			if *s.Spec.Replicas != 1 || len(budgets)+len(scalers) > 0 {
				t.Error("an embedded store has more than one process, or something that counts them")
			}
			if s.Spec.PodManagementPolicy != apps.ParallelPodManagement {
				t.Error("a failed update could not be rolled back")
			}
			claims := 0
			for _, v := range s.Spec.Template.Spec.Volumes {
				if v.PersistentVolumeClaim != nil {
					claims++
				}
			}
			if len(s.Spec.VolumeClaimTemplates)+claims != 1 {
				t.Error("an embedded store has no volume")
			}
		}
		for _, d := range All[*apps.Deployment](r) {
			u := d.Spec.Strategy.RollingUpdate
			if d.Spec.Strategy.Type != apps.RollingUpdateDeploymentStrategyType || *u.MaxUnavailable != intstr.FromInt32(0) || *u.MaxSurge != intstr.FromInt32(1) {
				t.Errorf("the Deployment is updated by %+v", d.Spec.Strategy)
			}
			if (d.Spec.Replicas == nil) != (len(scalers) == 1) {
				t.Error("a number of processes and a scaler that changes it exclude each other")
			}
			c := d.Spec.Template.Spec.Containers[0]
			if start := c.StartupProbe.PeriodSeconds * c.StartupProbe.FailureThreshold; *d.Spec.ProgressDeadlineSeconds <= start+d.Spec.MinReadySeconds {
				t.Errorf("the update is given up after %d s, and a start may take %d", *d.Spec.ProgressDeadlineSeconds, start)
			}
			for _, b := range budgets {
				if b.Spec.UnhealthyPodEvictionPolicy == nil || (b.Spec.MaxUnavailable == nil) == (b.Spec.MinAvailable == nil) {
					t.Errorf("the budget is %+v", b.Spec)
				}
			}
		}
		for _, s := range scalers {
			if s.Spec.ScaleTargetRef.Kind != "Deployment" || s.Spec.ScaleTargetRef.Name != All[*apps.Deployment](r)[0].Name {
				t.Errorf("the scaler is for %+v", s.Spec.ScaleTargetRef)
			}
			for _, m := range s.Spec.Metrics {
				if m.Type != autoscaling.ResourceMetricSourceType && m.Pods.Metric.Name != "troupe_calls_in_flight" {
					t.Errorf("processes are counted by %+v", m)
				}
			}
		}
	})
}

// TestObjectsFitTogether is what an API server, or a cluster, would find wrong beyond the types: names, selectors, ports, volumes.
func TestObjectsFitTogether(t *testing.T) {
	t.Parallel()
	long := Release{Name: "a-release-whose-name-has-all-the-fifty-three-characters"[:53], Namespace: "mcp"}
	eachOf(t, fitsTogether)
	t.Run("a long name", func(t *testing.T) { fitsTogether(t, rendered(t, golden, long, matrix["everything"])) })
	t.Run("a long name of a StatefulSet", func(t *testing.T) { fitsTogether(t, rendered(t, golden, long, ``)) })
	t.Run("a name that ends where it is cut", func(t *testing.T) {
		fitsTogether(t, rendered(t, golden, Release{Name: strings.Repeat("a", 49) + "-b", Namespace: "mcp"}, `nameOverride: a`))
	})
}

// TestNamesAreTexts gives objects names that YAML would take for something else.
func TestNamesAreTexts(t *testing.T) {
	t.Parallel()
	r := rendered(t, shipped, Release{Name: "1e3", Namespace: "12"}, `
fullnameOverride: "on"
nameOverride: "no"
imagePullSecrets: [{name: "7"}]
image: {repository: "5", tag: "1.0"}
store: {kind: external, nats: {urlSecret: {name: "true", key: "1"}, tokenSecret: {name: "null", key: "2"}, caSecret: {name: "0x1f"}}}
tls: {secretName: "5e5"}
secretMounts: [{name: "1", secretName: "2"}]
priorityClassName: "off"
ingress: {enabled: true, className: "1", hosts: ["1.5"], annotations: {a: "1"}}
serviceAccount: {name: "yes"}
podLabels: {a: "1"}
nodeSelector: {a: "true"}
`)
	s := &podOf(t, r).Spec
	for got, want := range map[string]string{
		All[*apps.Deployment](r)[0].Name: "on", All[*apps.Deployment](r)[0].Namespace: "12", s.ServiceAccountName: "yes", s.PriorityClassName: "off", s.Containers[0].Image: "5:1.0", s.NodeSelector["a"]: "true",
	} {
		if got != want {
			t.Errorf("%q is rendered, want %q", got, want)
		}
	}
	for _, v := range s.Volumes {
		if v.Name == "tls" && v.Secret.SecretName != "5e5" || v.Name == "nats-ca" && v.Secret.SecretName != "0x1f" || v.Name == "secret-1" && v.Secret.SecretName != "2" {
			t.Errorf("a volume is rendered as %+v", v)
		}
	}
}

func fitsTogether(t *testing.T, r *Rendered) {
	pod := podOf(t, r)
	container := &pod.Spec.Containers[0]
	own := labels.Set(pod.Labels)
	seen := map[string]bool{}
	for _, o := range r.Objects {
		m, err := meta.Accessor(o)
		if err != nil {
			t.Fatal(err)
		}
		kind := o.GetObjectKind().GroupVersionKind()
		id := kind.String() + " " + m.GetName()
		if seen[id] {
			t.Errorf("%s is there twice", id)
		}
		seen[id] = true
		faults := validation.IsDNS1123Subdomain(m.GetName())
		if kind.Kind == "Service" {
			faults = validation.IsDNS1035Label(m.GetName())
		}
		if len(faults) > 0 || m.GetNamespace() != "mcp" || len(m.GetName()) > 253 {
			t.Errorf("%s: %v, in %s", id, faults, m.GetNamespace())
		}
		for _, all := range []map[string]string{m.GetLabels(), own} {
			for name, value := range all {
				if faults := append(validation.IsQualifiedName(name), validation.IsValidLabelValue(value)...); len(faults) > 0 {
					t.Errorf("%s has the label %s=%s: %v", id, name, value, faults)
				}
			}
		}
		if m.GetLabels()["app.kubernetes.io/instance"] == "" {
			t.Errorf("%s has no labels", id)
		}
		if selector := selectorOf(o); selector != nil && !labels.SelectorFromSet(selector).Matches(own) {
			t.Errorf("%s is for pods with %v, and ours have %v", id, selector, own)
		}
	}
	// The pods of a StatefulSet have a label with its name and a hash of 10 characters.
	for _, s := range All[*apps.StatefulSet](r) {
		if len(s.Name) > 52 || len(All[*core.Service](r)) != 2 || s.Spec.ServiceName != s.Name+"-pods" {
			t.Errorf("the StatefulSet %s has the Service %s", s.Name, s.Spec.ServiceName)
		}
	}

	ports := map[string]int32{}
	for _, p := range container.Ports {
		if faults := validation.IsValidPortName(p.Name); len(faults) > 0 || ports[p.Name] != 0 {
			t.Errorf("the port %s: %v", p.Name, faults)
		}
		ports[p.Name] = p.ContainerPort
	}
	for _, s := range All[*core.Service](r) {
		for _, p := range s.Spec.Ports {
			if ports[p.TargetPort.StrVal] == 0 {
				t.Errorf("the Service %s is for a port %v, which no container has", s.Name, p.TargetPort)
			}
			if p.TargetPort.StrVal == "health" && s.Spec.ClusterIP != core.ClusterIPNone {
				t.Errorf("the Service %s gives away metrics", s.Name)
			}
		}
	}
	for _, n := range All[*networking.NetworkPolicy](r) {
		open := map[int32]bool{}
		for _, rule := range n.Spec.Ingress {
			for _, p := range rule.Ports {
				open[p.Port.IntVal] = true
			}
		}
		for name, port := range ports {
			if !open[port] {
				t.Errorf("the NetworkPolicy lets nobody in at the port %s", name)
			}
		}
	}

	names, paths := map[string]bool{}, map[string]bool{}
	for _, e := range container.Env {
		if names[e.Name] {
			t.Errorf("the variable %s is there twice", e.Name)
		}
		names[e.Name] = true
	}
	volumes := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		if faults := validation.IsDNS1123Label(v.Name); len(faults) > 0 || volumes[v.Name] {
			t.Errorf("the volume %s: %v", v.Name, faults)
		}
		volumes[v.Name] = true
	}
	for _, s := range All[*apps.StatefulSet](r) {
		for _, claim := range s.Spec.VolumeClaimTemplates {
			volumes[claim.Name] = true
		}
	}
	for _, m := range container.VolumeMounts {
		if !volumes[m.Name] || paths[m.MountPath] || m.SubPath != "" { // a subPath is not written anew when its Secret changes
			t.Errorf("the mount %+v", m)
		}
		if m.Name != "data" && !m.ReadOnly {
			t.Errorf("the mount %+v can be written", m)
		}
		paths[m.MountPath] = true
	}
	if len(paths) != len(volumes) {
		t.Error("a volume is mounted nowhere")
	}
	for _, v := range environment(container) { // files that variables name lie in volumes
		if strings.HasPrefix(v, "/") && !paths[v[:strings.LastIndexByte(v, '/')]] {
			t.Errorf("%s is in no volume", v)
		}
	}
}

// selectorOf are the labels by which an object finds pods, nil if it does not.
func selectorOf(o runtime.Object) map[string]string {
	switch o := o.(type) {
	case *core.Service:
		return o.Spec.Selector
	case *apps.Deployment:
		return o.Spec.Selector.MatchLabels
	case *apps.StatefulSet:
		return o.Spec.Selector.MatchLabels
	case *policy.PodDisruptionBudget:
		return o.Spec.Selector.MatchLabels
	case *networking.NetworkPolicy:
		return o.Spec.PodSelector.MatchLabels
	}
	return nil
}

// TestWaysIn is that routes lead to the Service, without an end to streams, and that what monitors finds a Service with metrics.
func TestWaysIn(t *testing.T) {
	t.Parallel()
	eachOf(t, func(t *testing.T, r *Rendered) {
		services := map[string]*core.Service{}
		for _, s := range All[*core.Service](r) {
			services[s.Name] = s
		}
		for _, route := range All[*gateway.HTTPRoute](r) {
			for _, rule := range route.Spec.Rules {
				if rule.Timeouts == nil || *rule.Timeouts.Request != "0s" || *rule.Timeouts.BackendRequest != "0s" {
					t.Errorf("the route ends streams: %+v", rule.Timeouts)
				}
				for _, to := range rule.BackendRefs {
					if s := services[string(to.Name)]; s == nil || s.Spec.Ports[0].Port != *to.Port {
						t.Errorf("the route leads to %s:%d", to.Name, *to.Port)
					}
				}
			}
		}
		for _, p := range All[*gateway.BackendTLSPolicy](r) {
			for _, to := range p.Spec.TargetRefs {
				if services[string(to.Name)] == nil || to.Kind != "Service" {
					t.Errorf("the policy is for %+v", to)
				}
			}
		}
		for _, in := range All[*networking.Ingress](r) {
			for name := range in.Annotations {
				if strings.Contains(name, "nginx") {
					t.Errorf("the annotation %s", name)
				}
			}
			for _, rule := range in.Spec.Rules {
				to := rule.HTTP.Paths[0].Backend.Service
				if s := services[to.Name]; s == nil || s.Spec.Ports[0].Name != to.Port.Name {
					t.Errorf("%s leads to %+v", rule.Host, to)
				}
			}
		}
		for _, m := range All[*monitoring.ServiceMonitor](r) {
			found := 0
			for _, s := range services {
				if labels.SelectorFromSet(m.Spec.Selector.MatchLabels).Matches(labels.Set(s.Labels)) {
					found++
					if !slices.ContainsFunc(s.Spec.Ports, func(p core.ServicePort) bool { return p.Name == m.Spec.Endpoints[0].Port }) {
						t.Errorf("the monitored Service %s has no port %s", s.Name, m.Spec.Endpoints[0].Port)
					}
				}
			}
			if found != 1 || podOf(t, r).Labels[m.Spec.JobLabel] == "" {
				t.Errorf("%d Services are monitored, as the job of %s", found, m.Spec.JobLabel)
			}
		}
	})
	r := rendered(t, golden, release, matrix["everything"])
	if n := len(All[*monitoring.PrometheusRule](r)); n != 1 {
		t.Errorf("there are %d sets of rules", n)
	} else if rule := All[*monitoring.PrometheusRule](r)[0].Spec.Groups[0].Rules[0]; rule.Annotations["summary"] != "{{ $labels.instance }} is away" {
		t.Errorf("a rule says %q", rule.Annotations["summary"])
	}
	config := All[*core.ConfigMap](r)
	if i := slices.IndexFunc(config, func(c *core.ConfigMap) bool { return c.Data["over_view.json"] != "" }); i < 0 || config[i].Data["over_view.json"] != strings.TrimSpace(string(standIns[1].Data)) {
		t.Error(fmt.Sprint("the dashboard is not as it was: ", config))
	}
}
