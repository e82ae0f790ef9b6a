//go:build linux

package backend

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/keeper"
)

// TestMain has the test's binary be a keeper, and a backend, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "keeper":
			os.Exit(keeper.Main(os.Args[2:]))
		case "backend":
			mk := &maker{handle: countsCalls()}
			_ = mk.serve(context.Background(), os.Stdin, os.Stdout)
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// countsCalls answers each call with the process, and how many it has had.
func countsCalls() func(*server, message) {
	var calls atomic.Int64
	return func(s *server, m message) {
		if m.Method == "tools/call" && m.ID != nil {
			s.result(m, fmt.Sprintf(`{"pid":%d,"calls":%d}`, os.Getpid(), calls.Add(1)))
		}
	}
}

// TestAdopted: the process of a session goes on as that session's when the process that used it has gone, and that of a session
// which nobody has any more ends.
func TestAdopted(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "b") // a short path, for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	processes := func(ctx context.Context, stderr func(string, []byte, int)) (*keeper.Client, error) {
		return keeper.Join(ctx, keeper.Options{Socket: filepath.Join(dir, "s"), Stderr: stderr}, keeper.Launch{Program: []string{self, "keeper"}, Boot: "adopted", Keep: time.Minute})
	}
	of := Backend{Name: "own", Digest: "1", Target: host.Command(self, "backend"), Options: host.Options{}.WithDefaults()}
	begin := func() *Backends {
		b := New(Config{Processes: processes})
		b.Configure(t.Context(), []Backend{of})
		return b
	}
	mine, others := Caller{Session: "mine", Capabilities: []byte(`{"sampling":{}}`)}, Caller{Session: "other"}
	b := begin()
	first := call(t, b, "own", mine, Request{})
	other := call(t, b, "own", others, Request{})
	if !strings.HasSuffix(first, `"calls":1}`) || !strings.HasSuffix(other, `"calls":1}`) || first == other {
		t.Fatalf("the first calls: %s and %s", first, other)
	}
	b.Close(t.Context(), time.Minute)

	b = begin()
	if got, want := call(t, b, "own", mine, Request{}), strings.Replace(first, `"calls":1`, `"calls":2`, 1); got != want {
		t.Errorf("after the first end: %s, want %s", got, want)
	}
	if err := b.keep.client.Close(); err != nil { // as a kill would end the connection
		t.Fatal(err)
	}
	b.Close(t.Context(), time.Minute)

	b = begin()
	if got, want := call(t, b, "own", others, Request{}), strings.Replace(other, `"calls":1`, `"calls":2`, 1); got != want {
		t.Errorf("after the second end: %s, want %s", got, want)
	}
	b.Close(t.Context(), 0)
	b = begin()
	if got := call(t, b, "own", mine, Request{}); !strings.HasSuffix(got, `"calls":1}`) {
		t.Errorf("after an end that keeps nothing: %s", got)
	}
	b.Close(t.Context(), 0)
}
