package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"

	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
)

// childEnv makes the test binary run as one of the child processes below.
const childEnv = "TROUPE_CLUSTER_CHILD"

func TestMain(m *testing.M) {
	if role := os.Getenv(childEnv); role != "" {
		runChild(role, os.Args[1:])
		return
	}
	// The file store's clock is one goroutine per process. If it started inside a bubble,
	// that bubble's time could not pass.
	ats.Register()
	kit.SpareCollections()
	os.Exit(m.Run())
}

// child starts the test binary in the given role.
func child(t *testing.T, role string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), exe, args...)
	c.Env = append(os.Environ(), childEnv+"="+role)
	c.Stderr = os.Stderr
	return c
}

func runChild(role string, args []string) {
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if role == "states" {
		if err := runStates(args[0]); err != nil {
			fail(err)
		}
		return
	}
	ctx := context.Background()
	n, err := Open(ctx, Options{Dir: args[0]})
	if role == "lock" {
		if errors.Is(err, ErrLocked) {
			fmt.Println(err)
			return
		}
		fail(fmt.Errorf("the lock was not refused: %w", err))
	}
	if err != nil {
		fail(err)
	}
	// Role "append": append to a new stream forever and print what was acknowledged.
	rev, err := n.OpenStream(ctx, args[1], []byte("writer"), nil, time.Hour)
	if err != nil {
		fail(err)
	}
	data := make([]byte, 300)
	for num := uint64(1); ; num++ {
		if err := appendWait(n, args[1], rev, num, data); err != nil {
			fail(err)
		}
		fmt.Println(num)
	}
}

// appendWait appends and waits for the outcome.
func appendWait(n *Node, stream string, rev, num uint64, data []byte) error {
	ch := make(chan error, 1)
	n.Append(stream, rev, num, data, func(err error) { ch <- err })
	return <-ch
}

// open opens a node that is closed at the end of the test.
func open(t testing.TB, o Options) *Node {
	t.Helper()
	n, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, n)
	return n
}

// joined opens another node on n's server, as another process would do.
func joined(t testing.TB, n *Node, name string) *Node {
	t.Helper()
	o := n.opts
	o.Node = name
	m := newNode(o)
	m.setShards(len(n.shards))
	if err := m.joinTo(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, m)
	return m
}

// joinTo joins the server that is in the process of n.
func (m *Node) joinTo(ctx context.Context, n *Node) error {
	m.link.set(n.server)
	return m.joinServer(ctx)
}

func closeAtEnd(t testing.TB, n *Node) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second) // an election may be under way
		defer cancel()
		if err := n.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// logOf names the stream of testStream's events in a store with that many shards.
func logOf(shards int) string {
	n := &wire{}
	n.setShards(shards)
	return n.eventShard(testStream).name
}

// stores runs f on a file store, which has shards, and on memory stores with and without. A flush takes real time on the
// disk even where virtual hours pass in no time; so there are few, and none with -short.
func stores(t *testing.T, f func(t *testing.T, o Options)) {
	t.Run("file", func(t *testing.T) {
		when.Long(t, "virtual hours on a disk")
		f(t, Options{Dir: t.TempDir(), Sync: time.Hour})
	})
	t.Run("memory", func(t *testing.T) { f(t, Options{}) })
	t.Run("shards", func(t *testing.T) { f(t, Options{Shards: 4}) })
}

func wantErr(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got error %v, want %v", what, got, want)
	}
}

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// countMessages counts the messages in a stream.
func countMessages(t *testing.T, n *Node, stream string) uint64 {
	t.Helper()
	st, err := n.fillOfKind(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	return st.Messages
}

// readEvents reads appends from..to of a stream.
func readEvents(ctx context.Context, n *Node, stream string, from, to uint64) (all []event, err error) {
	err = n.Read(ctx, stream, from, to, func(num uint64, data []byte) { all = append(all, event{num, data}) })
	return all, err
}
