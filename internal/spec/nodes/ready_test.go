package nodes_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/spec/host"
	"github.com/troupe-run/troupe/internal/testkit"
)

// TestReadyNeedsTheStreams: a node that renews its lease, and cannot write a part of its log, its sessions or its keys, is not ready after 5 s.
func TestReadyNeedsTheStreams(t *testing.T) {
	for stream, name := range map[string]string{"events-2": "events", "sessions": "sessions", "keys": "keys"} {
		nodes(t, 1, nil, func(t *testing.T, v *testkit.VirtualNATS, all ...*host.Host) {
			rt := all[0].Runtime
			time.Sleep(20 * time.Second)
			synctest.Wait()
			if err := rt.Ready(); err != nil {
				t.Errorf("before %s is gone: %v", name, err)
			}
			v.DeleteStreams(t, stream)
			time.Sleep(20 * time.Second)
			synctest.Wait()
			if err := rt.Ready(); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("without %s: %v", name, err)
			}
		})
	}
}
