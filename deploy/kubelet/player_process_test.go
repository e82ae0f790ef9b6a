//go:build linux

package kubelet

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"

	"github.com/troupe-run/troupe/deploy/chart"
)

// stood returns a cluster of one pod of the image stand in a mode, which its Deployment changes, and waits until the pods are as wanted.
func stood(t *testing.T, mode string, change func(*core.PodSpec), wanted func([]Status) bool) *Cluster {
	t.Helper()
	_, stand := programs(t)
	c := New(Options{Dir: directory(t), Addresses: addresses(2), Restart: 10 * time.Millisecond, Images: map[string]Image{"stand:1": {stand, []string{"MODE=" + mode}}}})
	t.Cleanup(c.Close)
	r := render(t, 1, `
image: {repository: stand, tag: "1"}
store: {kind: external, nats: {url: "nats://127.0.0.1:1"}}
replicas: 1
minReadySeconds: 0
probes:
  startup: {periodSeconds: 1, failureThreshold: 300, timeoutSeconds: 60}
  readiness: {periodSeconds: 1, failureThreshold: 3, timeoutSeconds: 60}
  liveness: {periodSeconds: 1, failureThreshold: 2, timeoutSeconds: 60}
`)
	change(&chart.All[*apps.Deployment](r)[0].Spec.Template.Spec)
	if err := c.Apply(r); err != nil {
		t.Fatal(err)
	}
	if err := c.Until(t.Context(), mode, wanted); err != nil {
		t.Fatal(err)
	}
	return c
}

func unchanged(*core.PodSpec) {}

// TestWhatDoesNotEndIsKilled has a process not heed SIGTERM: it is killed once its grace is over, and that is told.
func TestWhatDoesNotEndIsKilled(t *testing.T) {
	t.Parallel()
	c := stood(t, "stubborn", func(s *core.PodSpec) { *s.TerminationGracePeriodSeconds = 1 }, func(pods []Status) bool { return len(pods) == 1 && pods[0].Available })
	c.Close()
	if len(c.ended) != 1 || !c.ended[0].Killed || c.ended[0].Took < time.Second || c.ended[0].Code != -1 {
		t.Errorf("it has ended as %+v", c.ended)
	}
}

// TestWhatDoesNotLiveIsStartedAgain has the liveness probe of a process fail.
func TestWhatDoesNotLiveIsStartedAgain(t *testing.T) {
	t.Parallel()
	c := stood(t, "sick", unchanged, func(pods []Status) bool { return len(pods) == 1 && pods[0].Restarts > 1 })
	if all := c.Ended(); len(all) < 2 || all[0].Killed || all[0].Pod != all[1].Pod {
		t.Errorf("it has ended as %+v", all)
	}
}

// TestWhatFailsIsNeverReady has a container end at once, over and over.
func TestWhatFailsIsNeverReady(t *testing.T) {
	t.Parallel()
	var ready atomic.Bool
	c := stood(t, "fails", unchanged, func(pods []Status) bool {
		if slices.ContainsFunc(pods, func(p Status) bool { return p.Ready }) {
			ready.Store(true)
		}
		return len(pods) == 1 && pods[0].Restarts > 2
	})
	if all := c.Ended(); ready.Load() || len(all) > 0 {
		t.Errorf("it was ready, or was ended: %+v", all)
	}
}
