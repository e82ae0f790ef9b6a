package cluster

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe/cluster/internal/embedded"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/test/kit/when"
)

// used makes a directory that holds a session, a key and a stream of 20 appends.
func used(t *testing.T, o Options) (sealed []byte) {
	t.Helper()
	n := must[*Node](t)(Open(t.Context(), o))
	must[uint64](t)(n.Create(t.Context(), testKey, []byte("x"), time.Hour))
	rev := must[uint64](t)(n.OpenStream(t.Context(), testStream, []byte("w"), nil, time.Hour))
	fill(t, n, testStream, rev, 1, 20)
	sealed = must[[]byte](t)(n.Keys().Seal([]byte("secret"), nil))
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return sealed
}

// holds reports which of these are there.
func holds(t *testing.T, n *Node, sealed []byte) (sessions, events, keys bool) {
	t.Helper()
	_, _, err := n.Get(t.Context(), testKey)
	if sessions = err == nil; !sessions && !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
	events = len(must[[]event](t)(readEvents(t.Context(), n, testStream, 1, 20))) == 20
	plain, err := n.Keys().Open(sealed, nil)
	if keys = err == nil && string(plain) == "secret"; !keys && !errors.Is(err, store.ErrSealed) {
		t.Error(err)
	}
	return sessions, events, keys
}

func change(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestCutShortDirectories checks that a directory comes up with everything in it,
// twice, whatever a killed start or a power cut before a flush left there.
func TestCutShortDirectories(t *testing.T) {
	when.Long(t, "many directories")
	t.Parallel()
	for what, harm := range map[string]func(t *testing.T, stream func(name string) string, dir string){
		"a purge before its second exchange": func(t *testing.T, stream func(string) string, _ string) {
			nodes := stream("nodes")
			change(t, os.Rename(filepath.Join(nodes, "msgs"), filepath.Join(nodes, "__msgs__")))
			change(t, os.Mkdir(filepath.Join(nodes, "__new_msgs__"), 0o700))
			change(t, os.WriteFile(filepath.Join(nodes, "__new_msgs__", "2.blk"), nil, 0o600))
		},
		"a purge between its exchanges, without the new": func(t *testing.T, stream func(string) string, _ string) {
			change(t, os.Rename(filepath.Join(stream("nodes"), "msgs"), filepath.Join(stream("nodes"), "__msgs__")))
		},
		"leases gone": func(t *testing.T, stream func(string) string, _ string) {
			change(t, os.RemoveAll(stream("nodes")))
		},
		"leases damaged": func(t *testing.T, stream func(string) string, dir string) {
			change(t, os.WriteFile(filepath.Join(stream("nodes"), "meta.inf"), []byte("garbage"), 0o600))
			change(t, os.Remove(filepath.Join(dir, embedded.DescriptionsFile)))
		},
		"a description that is empty": func(t *testing.T, stream func(string) string, _ string) {
			for _, name := range []string{"nodes", "keys", "sessions", logOf(4)} {
				change(t, os.Truncate(filepath.Join(stream(name), "meta.inf"), 0))
			}
		},
		"a checksum that is missing": func(t *testing.T, stream func(string) string, _ string) {
			for _, name := range []string{"nodes", "keys", "sessions", logOf(4)} {
				change(t, os.Remove(filepath.Join(stream(name), "meta.sum")))
			}
		},
		"a description without its new checksum": func(t *testing.T, stream func(string) string, _ string) {
			inf := filepath.Join(stream(logOf(4)), "meta.inf")
			data := must[[]byte](t)(os.ReadFile(inf))
			changed := strings.Replace(string(data), `"max_bytes":`, `"max_bytes":1`, 1)
			if changed == string(data) {
				t.Fatalf("no limit in %s", data)
			}
			change(t, os.WriteFile(inf, []byte(changed), 0o600))
		},
		"an index that is empty": func(t *testing.T, stream func(string) string, _ string) {
			for _, name := range []string{"keys", "sessions", logOf(4)} {
				change(t, os.Truncate(filepath.Join(stream(name), "msgs", "index.db"), 0))
			}
		},
		"no copy of the descriptions": func(t *testing.T, _ func(string) string, dir string) {
			change(t, os.Remove(filepath.Join(dir, embedded.DescriptionsFile)))
		},
		"an empty copy of the descriptions": func(t *testing.T, _ func(string) string, dir string) {
			change(t, os.Truncate(filepath.Join(dir, embedded.DescriptionsFile), 0))
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			sealed := used(t, Options{Dir: dir})
			harm(t, func(name string) string { return filepath.Join(dir, embedded.StoreDir, "$G", "streams", name) }, dir)
			for round := range 2 {
				n, err := Open(t.Context(), Options{Dir: dir})
				if err != nil {
					t.Fatalf("start %d: %v", round, err)
				}
				if s, e, k := holds(t, n, sealed); !s || !e || !k {
					t.Errorf("start %d: sessions there %v, events %v, keys %v", round, s, e, k)
				}
				change(t, n.Close(t.Context()))
			}
		})
	}
}

// TestHalfMadeStreams kills the first start while it makes a stream.
func TestHalfMadeStreams(t *testing.T) {
	t.Parallel()
	for what, files := range map[string]map[string]string{
		"no description":       {"msgs/1.blk": ""},
		"an empty description": {"meta.inf": "", "meta.sum": "", "msgs/1.blk": ""},
		"no checksum":          {"meta.inf": `{"name":"events"}`, "msgs/1.blk": ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			change(t, os.WriteFile(filepath.Join(dir, identityFile), []byte(`{"format":1,"node":"n1","created":"2026-01-01T00:00:00Z"}`), 0o600))
			for name, data := range files {
				path := filepath.Join(dir, embedded.StoreDir, "$G", "streams", "events", name)
				change(t, os.MkdirAll(filepath.Dir(path), 0o700))
				change(t, os.WriteFile(path, []byte(data), 0o600))
			}
			sealed := used(t, Options{Dir: dir})
			if s, e, k := holds(t, open(t, Options{Dir: dir}), sealed); !s || !e || !k {
				t.Errorf("sessions there %v, events %v, keys %v", s, e, k)
			}
		})
	}
}

// TestGoOnWithoutWhatIsLost follows the advice that the refusal of a damaged directory
// gives: the store goes on without the stream, and refuses the next damage again.
func TestGoOnWithoutWhatIsLost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what             string
		harm             func(t *testing.T, dir, events string)
		sessions, events bool
	}{
		{"the events' messages", func(t *testing.T, dir, events string) { change(t, os.RemoveAll(filepath.Join(events, "msgs"))) }, true, false},
		{"the events' directory", func(t *testing.T, dir, events string) { change(t, os.RemoveAll(events)) }, true, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for range 2 {
				sealed := used(t, Options{Dir: dir})
				c.harm(t, dir, filepath.Join(dir, embedded.StoreDir, "$G", "streams", logOf(4)))
				_, err := Open(t.Context(), Options{Dir: dir})
				wantErr(t, "open", err, store.ErrDamaged)
				follow(t, err)
				n := must[*Node](t)(Open(t.Context(), Options{Dir: dir}))
				if s, e, k := holds(t, n, sealed); s != c.sessions || e != c.events || !k {
					t.Errorf("sessions there %v, want %v; events %v, want %v; keys %v", s, c.sessions, e, c.events, k)
				}
				change(t, n.Delete(t.Context(), testKey, 0))
				change(t, n.Close(t.Context()))
			}
		})
	}
}

// follow does what the error advises: mv 'A' 'B' or mkdir 'A'.
func follow(t *testing.T, err error) {
	t.Helper()
	_, advice, _ := strings.Cut(err.Error(), "go on without what is lost: ")
	command, _, ok := strings.Cut(advice, ", and start again")
	words := strings.Split(command, "'")
	switch {
	case ok && words[0] == "mv " && len(words) == 5:
		change(t, os.Rename(words[1], words[3]))
	case ok && words[0] == "mkdir " && len(words) == 3:
		change(t, os.Mkdir(words[1], 0o700))
	default:
		t.Fatalf("no command in %q", err)
	}
}

// TestLeasesAreVoidedOneByOne checks that voiding the leases exchanges no directory,
// whatever is in the stream: that would be the server's purge, which a kill can cut
// short.
func TestLeasesAreVoidedOneByOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := must[*Node](t)(Open(t.Context(), Options{Dir: dir}))
	for _, name := range []string{"a", "b", "c"} {
		must[uint64](t)(n.Create(t.Context(), "nodes."+name, []byte(`{"boot":"x"}`), time.Hour))
	}
	// The node leaves its own entry behind too, like a process that is killed.
	close(n.lease.stop)
	<-n.lease.done
	n.lease.stop, n.lease.m.Rev = make(chan struct{}), 0
	change(t, n.Close(t.Context()))
	msgs := filepath.Join(dir, embedded.StoreDir, "$G", "streams", "nodes", "msgs")
	before := must[fs.FileInfo](t)(os.Stat(msgs))
	n = open(t, Options{Dir: dir})
	if got := countMessages(t, n, "nodes"); got != 1 {
		t.Errorf("entries after the start: got %d, want its own", got)
	}
	if after := must[fs.FileInfo](t)(os.Stat(msgs)); !os.SameFile(before, after) {
		t.Error("the directory of the messages was exchanged")
	}
}

// TestNewerServer checks that the error of a stream that a newer server described says
// so.
func TestNewerServer(t *testing.T) {
	t.Parallel()
	when.Long(t, "opens the same directory four times")
	dir := t.TempDir()
	sealed := used(t, Options{Dir: dir})
	events := filepath.Join(dir, embedded.StoreDir, "$G", "streams", logOf(4))
	inf, sum := filepath.Join(events, "meta.inf"), filepath.Join(events, "meta.sum")
	oldInf, oldSum := must[[]byte](t)(os.ReadFile(inf)), must[[]byte](t)(os.ReadFile(sum))
	change(t, os.WriteFile(inf, []byte(strings.Replace(string(oldInf), "{", `{"shards":7,`, 1)), 0o600))
	change(t, os.Remove(filepath.Join(dir, embedded.DescriptionsFile)))
	// The server logs which checksum the description would need.
	var said bytes.Buffer
	_, err := Open(t.Context(), Options{Dir: dir, Log: slog.New(slog.NewTextHandler(&said, nil))})
	wantErr(t, "open with a wrong checksum", err, store.ErrDamaged)
	m := regexp.MustCompile(`do not match \\"[0-9a-f]{16}\\" vs \\"([0-9a-f]{16})\\"`).FindSubmatch(said.Bytes())
	if m == nil {
		t.Fatalf("no checksum in the log: %s", said.Bytes())
	}
	change(t, os.WriteFile(sum, m[1], 0o600))
	before := snapshot(t, events)
	_, err = Open(t.Context(), Options{Dir: dir})
	wantErr(t, "open", err, store.ErrNewer)
	if d := cmp.Diff(snapshot(t, events), before); d != "" {
		t.Errorf("the stream was changed (-got +want):\n%s", d)
	}
	change(t, os.WriteFile(inf, oldInf, 0o600))
	change(t, os.WriteFile(sum, oldSum, 0o600))
	if s, e, k := holds(t, open(t, Options{Dir: dir}), sealed); !s || !e || !k {
		t.Errorf("after that: sessions there %v, events %v, keys %v", s, e, k)
	}
}

// TestDeletingWhatIsGone checks that deleting an entry that has just expired succeeds.
func TestDeletingWhatIsGone(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, o Options) {
		n := open(t, o)
		must[uint64](t)(n.Create(t.Context(), testKey, []byte("x"), time.Hour))
		for _, want := range []error{nil, store.ErrNotFound} {
			err := n.askAPI(t.Context(), "STREAM.MSG.DELETE.sessions", map[string]any{"seq": 1, "no_erase": true}, nil)
			wantErr(t, "delete", err, want)
		}
	})
}
