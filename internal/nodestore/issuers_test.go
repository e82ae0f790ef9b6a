package nodestore_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/internal/nodestore"
	"github.com/troupe-run/troupe/test/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }

func issuersOf(t *testing.T, o cluster.Options) *nodestore.Issuers {
	t.Helper()
	o.Lease, o.Sync = time.Hour, time.Hour
	n, err := cluster.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil && o.Remote.URL == "" {
			t.Error(err)
		}
	})
	i := new(nodestore.Issuers)
	i.Use(n)
	return i
}

const issuer = "https://id.example.com"

// loads checks what is kept of the issuer; nil is nothing.
func loads(t *testing.T, what string, i *nodestore.Issuers, want []byte) {
	t.Helper()
	if got, err := i.Load(t.Context(), issuer); !bytes.Equal(got, want) || (got == nil) != (want == nil) || err != nil {
		t.Errorf("%s: %.20q of %d bytes, %v; want %.20q", what, got, len(got), err, want)
	}
}

func stores(t *testing.T, i *nodestore.Issuers, data []byte) {
	t.Helper()
	if err := i.Store(t.Context(), issuer, data); err != nil {
		t.Error(err)
	}
}

// keep has two processes keep the keys of an issuer: what one stores last the other finds, and no more than has its place beside the keys of the fleet.
func keep(t *testing.T, here, there *nodestore.Issuers) {
	t.Helper()
	loads(t, "before", here, nil)
	first, second := []byte("first"), []byte("second")
	stores(t, here, first)
	loads(t, "another process", there, first)
	stores(t, there, second)
	loads(t, "after another process", here, second)
	largest := bytes.Repeat([]byte("x"), 256<<10)
	stores(t, here, largest)
	loads(t, "as much as there may be", there, largest)
	if err := here.Store(t.Context(), issuer, append(largest, 'x')); err == nil || !strings.Contains(err.Error(), "262145 bytes") {
		t.Errorf("a byte more: %v", err)
	}
	loads(t, "after a byte more", there, largest)
	if got, err := here.Load(t.Context(), issuer+"/"); got != nil || err != nil {
		t.Errorf("of another issuer: %.20q, %v", got, err)
	}
	var at sync.WaitGroup
	for n := range 8 {
		at.Go(func() { stores(t, []*nodestore.Issuers{here, there}[n%2], first) })
	}
	at.Wait()
	loads(t, "after several at once", here, first)
}

// TestIssuers keeps keys in a store of this process, for two days after they were stored last.
func TestIssuers(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		i := issuersOf(t, cluster.Options{})
		keep(t, i, i)
		first, second := []byte("first"), []byte("second")
		time.Sleep(47 * time.Hour)
		loads(t, "after 47 hours", i, first)
		stores(t, i, second)
		time.Sleep(47 * time.Hour)
		loads(t, "47 hours after it was stored again", i, second)
		time.Sleep(2 * time.Hour)
		loads(t, "after 49 hours", i, nil)
		stores(t, i, first)
		loads(t, "after that", i, first)
	})
}

// TestIssuersOnNATS keeps them on a NATS server, for two processes.
func TestIssuersOnNATS(t *testing.T) {
	kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
		node := func(name string) *nodestore.Issuers {
			return issuersOf(t, cluster.Options{Node: name, Remote: cluster.Remote{URL: v.Line(name).URL()}})
		}
		keep(t, node("a"), node("b"))
	})
}
