package cluster

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// TestStreamsTakeNoIDs checks that no stream looks for ids of messages at a start, also not one of an earlier release.
func TestStreamsTakeNoIDs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := must[*Node](t)(Open(t.Context(), Options{Dir: dir}))
	js := must[jetstream.JetStream](t)(jetstream.New(n.conn))
	window := func(name string) time.Duration {
		return must[jetstream.Stream](t)(js.Stream(t.Context(), name)).CachedInfo().Config.Duplicates
	}
	for i := range n.kinds {
		c := n.streamConfig(&n.kinds[i])
		if got := window(c.Name); got != dedupe {
			t.Errorf("stream %s looks %v back for ids, want %v", c.Name, got, dedupe)
		}
		c.Duplicates = 2 * time.Minute // as nats-server sets it by itself
		must[jetstream.Stream](t)(js.UpdateStream(t.Context(), c))
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	n = open(t, Options{Dir: dir})
	js = must[jetstream.JetStream](t)(jetstream.New(n.conn))
	for _, name := range n.streamNames(len(n.shards)) {
		if got := window(name); got != dedupe {
			t.Errorf("stream %s of an earlier release looks %v back for ids, want %v", name, got, dedupe)
		}
	}
}
