package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-run/troupe/cluster/internal/embedded"
	"github.com/troupe-run/troupe/internal/bubble"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/test/kit/when"
)

// cut is a disk that keeps only flushed data when the power fails.
type cut struct {
	dir     string
	mu      sync.Mutex
	flushed map[string]int64 // by path: the size of a file when its last flush began
}

// sync flushes a file and keeps its size.
func (c *cut) sync(f *os.File) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushed[f.Name()] = st.Size()
	return nil
}

// copy makes another directory with the state after a power cut now: the flushed
// messages, and no others.
func (c *cut) copy(t *testing.T, to string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	err := filepath.WalkDir(c.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(c.dir, path)
		if err != nil {
			return err
		}
		if e.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		inMsgs := filepath.Base(filepath.Dir(path)) == "msgs" && !strings.Contains(rel, "nodes")
		size, was := c.flushed[path]
		if inMsgs && !was {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if inMsgs {
			data = data[:size]
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o600)
	})
	if err != nil {
		t.Error(err)
	}
}

// TestPowerCutAtEveryFlush sets a negative Sync, so that the store acknowledges nothing
// before it is on the disk. A power cut at any flush, which leaves the state before that
// flush, keeps every acknowledged append and record.
func TestPowerCutAtEveryFlush(t *testing.T) {
	when.Unraced(t, "one goroutine does all of it")
	when.Long(t, "many directories")
	t.Parallel()
	dir := t.TempDir()
	n := must[*Node](t)(Open(t.Context(), Options{Dir: dir, Sync: -1}))
	const streams, appends, images = 10, 60, 12
	type image struct {
		dir     string
		acked   [streams]uint64
		session uint64
	}
	var mu sync.Mutex // guards what follows
	var acked [streams]uint64
	var session uint64
	var taken []image
	flushes := 0
	c := &cut{dir: dir, flushed: map[string]int64{}}
	n.flusher.sync = func(f *os.File) error {
		mu.Lock()
		// An acknowledgement follows a flush, and comes from the goroutine that flushes.
		if flushes++; flushes%5 == 0 && len(taken) < images && acked[0] > 0 {
			im := image{filepath.Join(t.TempDir(), strconv.Itoa(len(taken))), acked, session}
			c.copy(t, im.dir)
			taken = append(taken, im)
		}
		mu.Unlock()
		return c.sync(f)
	}
	var wg sync.WaitGroup
	for i := range streams {
		wg.Go(func() {
			name := testStream + strconv.Itoa(i)
			rev, err := n.OpenStream(t.Context(), name, []byte("w"), nil, time.Hour)
			if err != nil {
				t.Error(err)
				return
			}
			for num := uint64(1); num <= appends; num++ {
				done := make(chan error, 1)
				n.Append(name, rev, num, make([]byte, 100), func(err error) {
					mu.Lock()
					acked[i] = num
					mu.Unlock()
					done <- err
				})
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		rev, err := n.Create(t.Context(), testKey, []byte("0"), time.Hour)
		for k := uint64(1); err == nil && k < 20; k++ {
			mu.Lock()
			session = rev
			mu.Unlock()
			rev, err = n.Update(t.Context(), testKey, []byte("x"), rev, time.Hour)
		}
		if err != nil {
			t.Error(err)
		}
	})
	wg.Wait()
	if err := n.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if len(taken) < images/2 {
		t.Errorf("%d power cuts in %d flushes, want more", len(taken), flushes)
	}
	t.Logf("%d writes, %d flushes", streams*(appends+1)+20, flushes)
	for _, im := range taken {
		after := must[*Node](t)(Open(t.Context(), Options{Dir: im.dir}))
		for i, want := range im.acked {
			name := testStream + strconv.Itoa(i)
			tail := must[uint64](t)(after.Tail(t.Context(), name, 0))
			if got := must[[]event](t)(readEvents(t.Context(), after, name, 1, tail)); tail < want || len(got) != int(tail) {
				t.Errorf("%s: tail %d and %d appends after the power cut, %d were acknowledged", name, tail, len(got), want)
			}
		}
		if _, rev, err := after.Get(t.Context(), testKey); im.session > 0 && (err != nil || rev < im.session) {
			t.Errorf("record of revision %d, %v after the power cut, %d was acknowledged", rev, err, im.session)
		}
		if err := after.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestFlushIsShared checks that one flush serves all writes that came before it began,
// that no write is acknowledged earlier, and that a disk that hangs costs 5 s.
func TestFlushIsShared(t *testing.T) {
	bubble.Test(t, flushIsShared)
}

func flushIsShared(t *testing.T) {
	n := must[*Node](t)(Open(t.Context(), Options{Dir: t.TempDir(), Sync: -1}))
	var names []string
	var revs []uint64
	for i := range 50 {
		names = append(names, testStream+strconv.Itoa(i))
		revs = append(revs, must[uint64](t)(n.OpenStream(t.Context(), names[i], []byte("w"), nil, time.Hour)))
	}
	began, goOn := make(chan struct{}, 1000), make(chan struct{})
	var flushes atomic.Int64
	n.flusher.sync = func(f *os.File) error {
		flushes.Add(1)
		began <- struct{}{}
		<-goOn
		return f.Sync()
	}
	told := make(chan error, 100)
	n.Append(names[0], revs[0], 1, nil, func(err error) { told <- err })
	<-began
	// The flush for the first append is under way: these come too late for it.
	for i, name := range names[1:] {
		n.Append(name, revs[i+1], 1, nil, func(err error) { told <- err })
	}
	eventually(t, "the server has written them all", func() bool { return n.flusher.countWaiting() >= len(names) })
	if len(told) != 0 {
		t.Fatalf("%d were told before any flush had ended", len(told))
	}
	if got := n.Stats().InFlight; got < len(names) {
		t.Errorf("in flight: got %d, want at least %d", got, len(names))
	}
	close(goOn)
	for range names {
		if err := <-told; err != nil {
			t.Error(err)
		}
	}
	// One for the first append, and in each shard one for the others, and one for appends acknowledged between them.
	if got := int(flushes.Load()); got > 1+2*len(n.shards) {
		t.Errorf("%d flushes for %d appends", got, len(names))
	}

	hang := make(chan struct{})
	n.flusher.sync = func(*os.File) error { <-hang; return nil }
	start := time.Now()
	wantErr(t, "append on a disk that hangs", appendWait(n, names[0], revs[0], 2, nil), store.ErrUnavailable)
	if d := time.Since(start); d < callTimeout-time.Second {
		t.Errorf("an append on a disk that hangs ended after %v, before it could be known", d)
	}
	close(hang)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := n.Close(ctx); err != nil {
		t.Error(err)
	}
}

// TestFlushOfManyBlocks checks that a flush covers the blocks that the server began since
// the last flush, with their directory, and the block that it left.
func TestFlushOfManyBlocks(t *testing.T) {
	t.Parallel()
	when.Long(t, "many files")
	dir := t.TempDir()
	n := open(t, Options{Dir: dir, Sync: -1})
	c := &cut{dir: dir, flushed: map[string]int64{}}
	n.flusher.sync = c.sync
	rev := must[uint64](t)(n.OpenStream(t.Context(), testStream, []byte("w"), nil, time.Hour))
	for num := uint64(1); num <= 80; num++ { // 20 MB: more than two blocks
		if err := appendWait(n, testStream, rev, num, make([]byte, MaxAppend)); err != nil {
			t.Fatal(err)
		}
	}
	blocks, err := filepath.Glob(filepath.Join(dir, embedded.StoreDir, "$G", "streams", logOf(4), "msgs", "*.blk"))
	if err != nil || len(blocks) < 3 {
		t.Fatalf("%d blocks, %v, want more", len(blocks), err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, path := range blocks {
		st := must[fs.FileInfo](t)(os.Stat(path))
		if c.flushed[path] != st.Size() {
			t.Errorf("%s: %d of %d bytes were flushed", path, c.flushed[path], st.Size())
		}
	}
	if _, ok := c.flushed[filepath.Dir(blocks[0])]; !ok {
		t.Error("their directory was not flushed")
	}
}

// TestFlushThatFails checks that a write whose flush fails does not count as on the disk,
// and that every block to which the server may have written is flushed.
func TestFlushThatFails(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	n := &Server{wire: &wire{log: log, outages: newOutages(log)}, dir: &directory{Files: embedded.Files{Path: t.TempDir()}}}
	blocks := filepath.Join(n.dir.StreamDir(n.streamName(events)), "msgs")
	if err := os.MkdirAll(blocks, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := os.WriteFile(filepath.Join(blocks, fmt.Sprint(i+1, ".blk")), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := newFlusher(n.messagesDir, n.outages.noteServerError)
	var synced []string // belongs to the flusher's goroutine until told
	broken := ""
	f.sync = func(file *os.File) error {
		name := filepath.Base(file.Name())
		if name == broken {
			return errors.New("broken")
		}
		synced = append(synced, name)
		return nil
	}
	go f.flushGroups()
	defer f.stopLoop()
	flush := func() error {
		told := make(chan error, 1)
		synced = nil
		f.afterFlush(events, func(err error) { told <- err })
		return <-told
	}
	for _, broken = range []string{"2.blk", "msgs"} {
		wantErr(t, "a flush without "+broken, flush(), store.ErrUnavailable)
	}
	broken = ""
	if err := flush(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(synced)
	if want := []string{"1.blk", "2.blk", "3.blk", "msgs"}; !slices.Equal(synced, want) {
		t.Errorf("flushed %q, want %q", synced, want)
	}
}
