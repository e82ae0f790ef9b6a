package nodes_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestServiceAfterTheStoreIsLost: nodes whose NATS server came back with an empty disk serve again without a new start. Sessions of before are unknown, so that
// their clients begin new ones.
func TestServiceAfterTheStoreIsLost(t *testing.T) {
	nodes(t, 2, nil, func(t *testing.T, v *kit.VirtualNATS, all ...*host.Host) {
		a, b := all[0], all[1]
		c := a.Session()
		v.Empty(t)
		time.Sleep(45 * time.Second) // Each serves sessions from memory for 30 s.
		for _, h := range all {
			if err := h.Runtime.Ready(); err != nil {
				t.Errorf("%s is not ready: %v", h.Runtime.Node(), err)
			}
			if r := by(h, c).Post(host.Method("1", "ping", "{}")); r.StatusCode != 404 {
				t.Errorf("%s answers the session of before with %d, %s", h.Runtime.Node(), r.StatusCode, r.Body)
			}
		}
		c = b.Session()
		for _, h := range all {
			if r := by(h, c).Post(host.Method("1", "ping", "{}")); r.StatusCode != 200 {
				t.Errorf("%s answers a new session with %d, %s", h.Runtime.Node(), r.StatusCode, r.Body)
			}
		}
	})
}

// TestReadyNeedsTheStreams: a node that renews its lease, and cannot write a part of its log, its sessions or its keys, is not ready after 5 s.
// Once it is certain that such a stream is gone, it is made again.
func TestReadyNeedsTheStreams(t *testing.T) {
	for stream, name := range map[string]string{"events-2": "events", "sessions": "sessions", "keys": "keys"} {
		nodes(t, 1, nil, func(t *testing.T, v *kit.VirtualNATS, all ...*host.Host) {
			rt := all[0].Runtime
			time.Sleep(20 * time.Second)
			synctest.Wait()
			if err := rt.Ready(); err != nil {
				t.Errorf("before %s is gone: %v", name, err)
			}
			v.DeleteStreams(t, stream)
			time.Sleep(8 * time.Second)
			synctest.Wait()
			if err := rt.Ready(); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("without %s: %v", name, err)
			}
			time.Sleep(12 * time.Second)
			synctest.Wait()
			if err := rt.Ready(); err != nil {
				t.Errorf("%s was not made again: %v", name, err)
			}
		})
	}
}
