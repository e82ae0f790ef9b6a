package cluster

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe/cluster/internal/embedded"
	"github.com/troupe-run/troupe/internal/bubble"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/test/kit/when"
)

// snapshot returns the content and mode of everything below dir.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := e.Info()
		if err != nil {
			return err
		}
		sum := ""
		if st.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum = fmt.Sprintf(" %x", sha256.Sum256(data))
		}
		files[path] = st.Mode().String() + sum
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestRefusedDirectories checks that the node refuses a directory that it cannot use,
// with a reason, the path and advice, and does not change it.
func TestRefusedDirectories(t *testing.T) {
	t.Parallel()
	write := func(name, data string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(name string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	both := func(first, second func(t *testing.T, dir string)) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) { first(t, dir); second(t, dir) }
	}
	for _, shards := range []int{1, 4} {
		stream := "jetstream/$G/streams/" + logOf(shards) + "/"
		for _, c := range []struct {
			what string
			used bool // an earlier run made it
			harm func(t *testing.T, dir string)
			want error
		}{
			{"foreign file", false, write("letter.txt", "dear"), ErrForeign},
			{"foreign store", true, remove(identityFile), ErrForeign},
			{"newer", false, write(identityFile, `{"format":3,"node":{"a":1},"shards":[]}`), store.ErrNewer},
			{"newer than used", true, write(identityFile, `{"format":99}`), store.ErrNewer},
			{"empty identity", true, write(identityFile, ""), store.ErrDamaged},
			{"garbage identity", true, write(identityFile, "\x00\x01garbage"), store.ErrDamaged},
			{"half identity", true, write(identityFile, `{"format":1,"node":"n`), store.ErrDamaged},
			{"format 0", true, write(identityFile, `{"node":"n"}`), store.ErrDamaged},
			{"unknown field", true, write(identityFile, `{"format":1,"node":"n","extra":1}`), store.ErrNewer},
			{"newer descriptions", true, write(embedded.DescriptionsFile, `{"format":2,"streams":[]}`), store.ErrNewer},
			{"bad number of shards", true, write(identityFile, `{"format":2,"node":"n","shards":33}`), store.ErrDamaged},
			{"bad node name", true, write(identityFile, `{"format":1,"node":"A.*"}`), store.ErrDamaged},
			{"store gone", true, remove("jetstream"), store.ErrDamaged},
			{"stream gone", true, remove(stream), store.ErrDamaged},
			{"stream description gone", true, both(remove(stream+"meta.inf"), remove(embedded.DescriptionsFile)), store.ErrDamaged},
			{"stream description garbage", true, both(write(stream+"meta.inf", "garbage"), remove(embedded.DescriptionsFile)), store.ErrDamaged},
			{"stream description of another", true, both(write(stream+"meta.inf", `{"name":"keys"}`), write(embedded.DescriptionsFile, "")), store.ErrDamaged},
			{"stream checksum gone", true, both(remove(stream+"meta.sum"), remove(embedded.DescriptionsFile)), store.ErrDamaged},
			{"stream messages gone", true, remove(stream + "msgs"), store.ErrDamaged},
			{"store and lock gone", true, both(remove("jetstream"), remove(lockFile)), store.ErrDamaged},
		} {
			t.Run(fmt.Sprintf("%s, shards=%d", c.what, shards), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				if c.used {
					n := must[*Node](t)(Open(t.Context(), Options{Dir: dir, Shards: shards}))
					must[uint64](t)(n.Create(t.Context(), testKey, []byte("x"), 0))
					if err := n.Close(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				c.harm(t, dir)
				before := snapshot(t, dir)
				for range 2 {
					n, err := Open(t.Context(), Options{Dir: dir})
					if err == nil {
						_ = n.Close(t.Context())
						t.Fatal("the directory was accepted")
					}
					wantErr(t, "open", err, c.want)
					if msg := err.Error(); !strings.Contains(msg, dir) || !strings.Contains(msg, "choose") {
						t.Errorf("error %q names no path or no advice", msg)
					} else if errors.Is(err, store.ErrDamaged) && strings.Contains(c.what, "stream") && !(strings.Contains(msg, "lost with it") && strings.Contains(msg, embedded.LostPrefix+"events")) {
						t.Errorf("error %q does not say what is lost and how to go on without it", msg)
					}
				}
				if d := cmp.Diff(snapshot(t, dir), before); d != "" {
					t.Errorf("the directory was changed (-got +want):\n%s", d)
				}
			})
		}
	}
}

// TestDamagedStreamIsNotReplaced checks that the server finds a description with a
// wrong checksum, and that no empty stream replaces the one that the server leaves out.
func TestDamagedStreamIsNotReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := must[*Node](t)(Open(t.Context(), Options{Dir: dir}))
	must[uint64](t)(n.Create(t.Context(), testKey, []byte("x"), 0))
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	sessions := filepath.Join(dir, embedded.StoreDir, "$G", "streams", "sessions")
	if err := os.Remove(filepath.Join(dir, embedded.DescriptionsFile)); err != nil {
		t.Fatal(err)
	}
	sum := filepath.Join(sessions, "meta.sum")
	good := must[[]byte](t)(os.ReadFile(sum))
	if err := os.WriteFile(sum, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, sessions)
	_, err := Open(t.Context(), Options{Dir: dir})
	wantErr(t, "open", err, store.ErrDamaged)
	if d := cmp.Diff(snapshot(t, sessions), before); d != "" {
		t.Errorf("the stream was changed (-got +want):\n%s", d)
	}
	if err := os.WriteFile(sum, good, 0o600); err != nil {
		t.Fatal(err)
	}
	n = open(t, Options{Dir: dir})
	if _, _, err := n.Get(t.Context(), testKey); err != nil {
		t.Errorf("get after the repair: %v", err)
	}
}

// TestLockOfOneThatWasKilled waits for the lock of a process that was killed a moment ago, or that has left it to a program that
// it was about to start, and no longer than either may take.
func TestLockOfOneThatWasKilled(t *testing.T) {
	t.Parallel()
	nobody := 1 << 30 // more than there are
	for name, test := range map[string]struct {
		holder     int
		free, most time.Duration
	}{
		"gone, until it is free": {holder: nobody, free: 2 * time.Second, most: launchTime},
		"gone, in vain":          {holder: nobody, most: launchTime},
		"there, until it ends":   {holder: os.Getpid(), free: time.Second, most: deathTime},
		"there, in vain":         {holder: os.Getpid(), most: deathTime},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			was := must[*directory](t)(openDirectory(dir, "", 1, nil))
			if err := was.writePid(strconv.Itoa(test.holder) + "\n"); err != nil {
				t.Fatal(err)
			}
			bubble.Test(t, func(t *testing.T) {
				if began := time.Now(); test.free > 0 {
					time.AfterFunc(test.free, func() { unlockFile(was.lock) })
					d := must[*directory](t)(openDirectory(dir, "", 1, nil))
					if waited := time.Since(began); waited < test.free || waited >= test.most || d.id.Node != was.id.Node {
						t.Errorf("it has the lock of %s after %v", d.id.Node, waited)
					}
					_ = d.close()
				} else if _, err := openDirectory(dir, "", 1, nil); !errors.Is(err, ErrLocked) || time.Since(began) != test.most {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
			})
			_ = was.lock.Close()
		})
	}
}

func TestLock(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "data")
	n := must[*Node](t)(Open(t.Context(), Options{Dir: dir}))
	_, err := Open(t.Context(), Options{Dir: dir})
	wantErr(t, "second open in this process", err, ErrLocked)
	pid := fmt.Sprintf("process %d", os.Getpid())
	if !strings.Contains(err.Error(), pid) || !strings.Contains(err.Error(), dir) {
		t.Errorf("error %q does not name %s and %s", err, pid, dir)
	}
	out, err := child(t, "lock", dir).Output()
	if err != nil || !strings.Contains(string(out), pid) {
		t.Errorf("second open in another process: %q, %v", out, err)
	}
	if _, ok := n.entry(t, n.Name()); !ok {
		t.Error("a refused process voided the lease of the one that runs")
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("mode of the directory: %v, %v, want 0700", st.Mode(), err)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	open(t, Options{Dir: dir})
}

// TestHalfMadeDirectory checks that a crash while the directory was made leaves one
// that can be used.
func TestHalfMadeDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{lockFile, identityFile + ".tmp"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("12"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open(t, Options{Dir: dir})

	// The start makes the streams that were not finished at the crash.
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, identityFile), []byte(`{"format":1,"node":"n1","created":"2026-01-01T00:00:00Z"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := open(t, Options{Dir: dir}); n.Name() != "n1" {
		t.Errorf("name: got %s, want n1", n.Name())
	}
}

// TestKeepersFiles opens a new directory, and one with a store, while somebody serves a keeper's socket there: the files of a
// keeper are left alone, and what else is there is as foreign as it was.
func TestKeepersFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kept := map[string]string{"keeper.sock.lock": "boot\n", "keeper.log": "keeper ready\n"}
	for name, text := range kept {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("unix", filepath.Join(dir, "keeper.sock"))
	if err != nil {
		t.Skipf("no socket can be made here: %v", err)
	}
	defer func() { _ = l.Close() }()
	for range 2 {
		n := must[*Node](t)(Open(t.Context(), Options{Dir: dir}))
		if err := n.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range kept {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != text {
			t.Errorf("%s has %q, %v", name, got, err)
		}
	}
	if conn, err := net.Dial("unix", filepath.Join(dir, "keeper.sock")); err != nil {
		t.Error(err)
	} else {
		_ = conn.Close()
	}
	if err := os.Remove(filepath.Join(dir, identityFile)); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), Options{Dir: dir})
	wantErr(t, "open a store without its identity beside a keeper", err, ErrForeign)
}

// TestKill checks that everything acknowledged before kill -9 is there after a restart,
// and that the dead process's lease is not.
func TestKill(t *testing.T) {
	when.Long(t, "it kills processes")
	t.Parallel()
	dir := t.TempDir()
	for round := range 3 {
		stream := fmt.Sprintf("anon.demo.s1.k%d", round)
		c := child(t, "append", dir, stream)
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		acked := uint64(0)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			num, err := strconv.ParseUint(lines.Text(), 10, 64)
			if err != nil {
				break // The last line may be torn.
			}
			if acked = num; num == 1500 {
				_ = c.Process.Kill()
			}
		}
		_ = c.Wait()
		if acked < 1500 {
			t.Fatalf("round %d: the child ended after %d appends", round, acked)
		}
		start := time.Now()
		// The new name differs, so that the node does not just overwrite the dead one's
		// entry.
		n := must[*Node](t)(Open(t.Context(), Options{Dir: dir, Node: "again"}))
		took := time.Since(start)
		t.Logf("round %d: %d acknowledged, restart took %v", round, acked, took)
		when.Within(t, "a restart", took, 5*time.Second)
		tail, err := n.Tail(t.Context(), stream, 0)
		if err != nil || tail < acked {
			t.Errorf("tail: got %d, %v, want at least %d", tail, err, acked)
		}
		got := must[[]event](t)(readEvents(t.Context(), n, stream, 1, tail))
		if d := cmp.Diff(numbers(got), span(tail-RingSize+1, tail)); d != "" {
			t.Errorf("read (-got +want):\n%s", d)
		}
		for before := range round {
			if tail := must[uint64](t)(n.Tail(t.Context(), fmt.Sprintf("anon.demo.s1.k%d", before), 0)); tail < 1500 {
				t.Errorf("tail of round %d: got %d", before, tail)
			}
		}
		if e, _ := n.entry(t, n.Name()); e.Boot != n.Boot() {
			t.Errorf("entry: %+v, want boot %s", e, n.Boot())
		}
		if got := countMessages(t, n, "nodes"); got != 1 {
			t.Errorf("entries after a restart: got %d, want 1", got)
		}
		if err := n.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
