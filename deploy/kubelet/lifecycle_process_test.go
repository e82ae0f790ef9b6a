//go:build linux && full

package kubelet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/bench/client"
	"github.com/troupe-run/troupe/test/kit"
)

// timings are values for a test: probes that look often, and bear with a busy machine.
const timings = `
fullnameOverride: mcp
drain: {delaySeconds: 3, waitSeconds: 20}
minReadySeconds: 1
probes:
  startup: {periodSeconds: 1, failureThreshold: 300, timeoutSeconds: 60}
  readiness: {periodSeconds: 1, failureThreshold: 3, timeoutSeconds: 60}
  liveness: {periodSeconds: 1, failureThreshold: 60, timeoutSeconds: 60}
`

// settings are those of a release in a test, with more behind them. A busy machine renews such a lease in time.
const settings = `config: {api-keys: false, allow-anonymous: true, lease: 30s%s}
`

// release is a cluster with a chart, behind HAProxy.
type release struct {
	*Cluster
	t       *testing.T
	proxy   *haproxy
	applied int
}

func newRelease(t *testing.T) *release {
	t.Helper()
	works, stand := programs(t)
	dir, at := directory(t), addresses(12)
	r := &release{t: t, proxy: startHAProxy(t, dir, at)}
	r.Cluster = New(Options{
		Dir: dir, Addresses: at, Endpoints: r.proxy.route, Lag: time.Second, Restart: 500 * time.Millisecond,
		Images: map[string]Image{"troupe:one": image(works), "troupe:two": image(works), "troupe:broken": {stand, []string{"MODE=fails"}}},
		Log:    func(what string) { t.Log(time.Now().Format("05.000"), what) },
	})
	t.Cleanup(r.Close)
	return r
}

// upgrade applies the chart with an image and more values, and does not wait.
func (r *release) upgrade(image, values string) {
	r.t.Helper()
	r.applied++
	if err := r.Apply(render(r.t, r.applied, timings+"image: {repository: troupe, tag: "+image+"}\n"+values)); err != nil {
		r.t.Fatal(err)
	}
}

// settle waits until all that was applied is there.
func (r *release) settle(what string) {
	r.t.Helper()
	if err := r.UntilSettled(r.t.Context()); err != nil {
		r.t.Fatal(what, ": ", err)
	}
	r.t.Log(time.Now().Format("05.000"), what)
}

func (r *release) scale(n int) {
	r.t.Helper()
	if err := r.Scale(n); err != nil {
		r.t.Fatal(err)
	}
	r.settle(fmt.Sprint("scaled to ", n))
}

// names are those of the pods that are ready.
func (r *release) names() (all []string) {
	for _, p := range r.Pods() {
		if p.Ready {
			all = append(all, p.Name)
		}
	}
	slices.Sort(all)
	return all
}

// failing waits until a container of the broken image was started several times.
func (r *release) failing() {
	r.t.Helper()
	err := r.Until(r.t.Context(), "failing", func(pods []Status) bool {
		return slices.ContainsFunc(pods, func(p Status) bool { return p.Image == "troupe:broken" && p.Restarts >= 3 })
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// judge ends the release: each container has ended by itself, within its grace and in order.
func (r *release) judge(atLeast int) {
	r.t.Helper()
	r.Close()
	all := r.ended // the cluster's goroutine has ended
	if len(all) < atLeast {
		r.t.Errorf("%d containers were ended, want %d at least", len(all), atLeast)
	}
	for _, e := range all {
		r.t.Logf("%s ended after %v of %v with %d", e.Pod, e.Took.Round(time.Millisecond), e.Grace, e.Code)
		if e.Killed || e.Code != 0 && e.Image != "troupe:broken" {
			r.t.Errorf("%s was killed: %v, its code is %d after %v of %v:\n%s", e.Pod, e.Killed, e.Code, e.Took, e.Grace, e.Log)
		}
	}
}

// TestDeploymentLosesNoCall has a release on a NATS server installed, scaled from 1 to 5 and to 2, upgraded, upgraded to an image that fails, rolled back, and given
// other settings, while clients call: each accepted call is answered, each stream is whole, and each pod ends within its grace.
func TestDeploymentLosesNoCall(t *testing.T) {
	r := newRelease(t)
	nats := kit.StartNATS(t, 1, nil)
	values := "store: {kind: external, nats: {url: " + nats.URL() + "}}\nreplicas: %d\n" + settings
	r.upgrade("one", fmt.Sprintf(values, 1, ""))
	r.settle("installed")
	l := startLoad(t, r.proxy.url)

	r.scale(5)
	r.scale(2)
	r.upgrade("two", fmt.Sprintf(values, 2, ""))
	r.settle("upgraded")
	before := r.names()
	r.upgrade("broken", fmt.Sprintf(values, 2, ""))
	r.failing()
	if now := r.names(); !slices.Equal(now, before) {
		t.Errorf("an image that fails has the pods %v replaced by %v", before, now)
	}
	r.upgrade("two", fmt.Sprintf(values, 2, ""))
	r.settle("rolled back")
	if now := r.names(); !slices.Equal(now, before) {
		t.Errorf("a rollback has the pods %v replaced by %v", before, now)
	}
	r.upgrade("two", fmt.Sprintf(values, 2, ", page-size: 7"))
	r.settle("other settings")
	if now := r.names(); slices.ContainsFunc(now, func(name string) bool { return slices.Contains(before, name) }) {
		t.Errorf("other settings leave the pods %v of %v", now, before)
	}
	for _, name := range r.names() {
		if !strings.HasPrefix(name, "mcp-") || len(name) > 32 {
			t.Errorf("a node cannot have the name of the pod %s", name)
		}
	}
	l.stop(t)
	r.judge(3 + 2 + 2 + 2)
}

// TestStatefulSetGoesOn has a release with its store on a volume installed, upgraded, upgraded to an image that fails, and rolled back, while clients call. While there is no
// pod calls are refused; sessions, and streams that had begun, go on afterwards.
func TestStatefulSetGoesOn(t *testing.T) {
	r := newRelease(t)
	values := fmt.Sprintf(settings, "")
	r.upgrade("one", values)
	r.settle("installed")
	witness := client.New(r.proxy.url, nil)
	if err := witness.BeginSession(t.Context(), `{}`); err != nil {
		t.Fatal(err)
	}
	l := startLoad(t, r.proxy.url)
	r.upgrade("two", values)
	r.settle("upgraded")
	r.upgrade("broken", values)
	r.failing()
	r.upgrade("two", values)
	r.settle("rolled back")
	l.stop(t)
	echo, err := witness.SendRequest(t.Context(), "1", "tools/call", `{"name":"sleep","arguments":{"ms":1}}`)
	if err != nil {
		t.Fatal(err)
	}
	if err := judge(echo.Status, echo.Body, "slept 1 ms"); err != nil {
		t.Errorf("a session of before: %v", err)
	}
	r.judge(3)
}
