package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/test/kit"
)

// TestShardOf holds where streams are stored: a release that looks elsewhere would not find them.
func TestShardOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stream             string
		of2, of3, of4, of7 int
		of32               int
	}{
		{testStream, 1, 2, 1, 3, 9},
		{"anon.demo.abcdefghijklmnopqrstuvwxyz.aaaaaaaaaaaaaaaaaaaaaaaaaa", 1, 1, 3, 6, 15},
		{"other.main.zyxwvutsrqponmlkjihgfedcba.aaaaaaaaaaaaaaaaaaaaaaaaaa", 1, 1, 3, 6, 15},
		{"anon.demo.abcdefghijklmnopqrstuvwxyz.abcdefghijklmnopqrstuvwx23", 0, 0, 2, 3, 10},
		{"anon.demo.abcdefghijklmnopqrstuvwxyz.mzxw6ytboi2345672abcdefgh7", 0, 2, 0, 5, 28},
	} {
		for _, s := range [][2]int{{1, 0}, {2, c.of2}, {3, c.of3}, {4, c.of4}, {7, c.of7}, {32, c.of32}} {
			if got := shardOf(c.stream, s[0]); got != s[1] {
				t.Errorf("%s of %d shards: got %d, want %d", c.stream, s[0], got, s[1])
			}
		}
	}
}

// TestKindsOf: shards have the budget of the whole, to the byte, and no two streams share a subject.
func TestKindsOf(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 2, 3, 4, maxShards} {
		for _, total := range []int64{minStore, 1<<30 + 12345, 8 << 30} {
			var sum, log int64
			names, subjects := map[string]bool{}, map[string]bool{}
			for _, k := range kindsOf(shards) {
				sum += k.budget(total)
				if k.wholeName() == events {
					log += k.budget(total)
				}
				names[k.name], subjects[k.subject] = true, true
			}
			want := int64(0)
			for _, k := range kinds {
				want += k.budget(total)
			}
			if sum != want || log != eventBudget(total) {
				t.Errorf("%d shards of %d bytes: %d in all and %d for events, want %d and %d", shards, total, sum, log, want, eventBudget(total))
			}
			if n := len(kinds) - 1 + shards; len(names) != n || len(subjects) != n || names[events] != (shards == 1) {
				t.Errorf("%d shards: %d names and %d subjects", shards, len(names), len(subjects))
			}
		}
	}
}

// TestNewShards: a new store has four shards, unless it is small, in memory, or was given a number.
func TestNewShards(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		o    Options
		want int
	}{
		{Options{Dir: "d"}, 4},
		{Options{Remote: Remote{URL: "nats://a"}}, 4},
		{Options{}, 1},
		{Options{Shards: 2}, 2},
		{Options{Dir: "d", MaxStore: 16 << 20}, 1},
		{Options{Dir: "d", MaxStore: 512 << 20}, 1},
		{Options{Dir: "d", MaxStore: 1 << 30}, 2},
		{Options{Dir: "d", MaxStore: 2 << 30}, 4},
		{Options{Dir: "d", MaxStore: 1 << 40}, 4},
		{Options{Dir: "d", MaxStore: 16 << 20, Shards: maxShards}, maxShards},
	} {
		change(t, c.o.fillDefaults())
		if got := c.o.newShards(); got != c.want {
			t.Errorf("%+v: %d shards, want %d", c.o, got, c.want)
		}
	}
	for _, shards := range []int{-1, maxShards + 1} {
		if _, err := Open(t.Context(), Options{Shards: shards}); err == nil {
			t.Errorf("%d shards are accepted", shards)
		}
	}
}

// manySession has many streams, which lie in all shards.
const manySession, manyStreams = "anon.demo.many", 40

func manyStream(i int) string { return manySession + ".s" + strconv.Itoa(i) }

// fillShards makes the streams of manySession, each with an append.
func fillShards(t *testing.T, n *Node) {
	t.Helper()
	for i := range manyStreams {
		rev := must[uint64](t)(n.OpenStream(t.Context(), manyStream(i), []byte(`"w"`), []byte("body"), time.Hour))
		change(t, appendWait(n, manyStream(i), rev, 1, []byte("x")))
	}
}

// hasShards checks the number of shards, and that all that fillShards made is there.
func hasShards(t *testing.T, n *Node, shards int) {
	t.Helper()
	if len(n.shards) != shards {
		t.Fatalf("%d shards, want %d", len(n.shards), shards)
	}
	for i := range manyStreams {
		_, _, err := n.Writer(t.Context(), manyStream(i))
		body, bodyErr := n.Body(t.Context(), manyStream(i))
		got, readErr := readEvents(t.Context(), n, manyStream(i), 1, 1)
		tail, tailErr := n.Tail(t.Context(), manyStream(i), 0)
		if err := errors.Join(err, bodyErr, readErr, tailErr); err != nil || string(body) != "body" || len(got) != 1 || tail != 1 {
			t.Fatalf("stream %d: body %q, %d appends, tail %d, %v", i, body, len(got), tail, err)
		}
	}
	found, all, err := n.Streams(t.Context(), manySession, 2*manyStreams)
	if err != nil || len(found) != manyStreams || all != manyStreams {
		t.Errorf("the session has %d of %d streams, %v", len(found), all, err)
	}
	sum := n.collectStats(t.Context()).Streams[events]
	if sum.Messages != 3*manyStreams || sum.MaxBytes != uint64(eventBudget(n.opts.MaxStore)) {
		t.Errorf("events: %+v, want %d messages and the budget of all shards", sum, 3*manyStreams)
	}
	for _, k := range n.shards {
		if s := must[StreamStats](t)(n.fillOfStream(t.Context(), k.name)); s.Messages == 0 {
			t.Errorf("%s is empty", k.name)
		}
	}
}

// identityOf reads troupe.json.
func identityOf(t *testing.T, dir string) (id identity) {
	t.Helper()
	change(t, json.Unmarshal(must[[]byte](t)(os.ReadFile(filepath.Join(dir, identityFile))), &id))
	return id
}

// TestShardsAreKept: a directory keeps the number of shards that it was made with, whatever a later process is given, and
// one without shards the format that the release before this one reads.
func TestShardsAreKept(t *testing.T) {
	t.Parallel()
	for made, format := range map[int]int{1: plainFormat, 3: directoryFormat, 4: directoryFormat} {
		t.Run(strconv.Itoa(made), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var log syncBuffer
			o := Options{Dir: dir, Shards: made, Log: slog.New(slog.NewTextHandler(&log, nil))}
			for i, next := range []struct {
				shards int
				store  int64
			}{{made, 0}, {0, 0}, {2, 0}, {4, 3 << 30}, {made, 1 << 30}} {
				o.Shards, o.MaxStore = next.shards, next.store
				n := must[*Node](t)(Open(t.Context(), o))
				if i == 0 {
					fillShards(t, n)
				}
				hasShards(t, n, made)
				change(t, n.Close(t.Context()))
				if id := identityOf(t, dir); id.Format != format || id.shardCount() != made {
					t.Errorf("%+v", id)
				}
				if got, want := strings.Contains(log.String(), "keeps the number"), next.shards != 0 && next.shards != made; got != want {
					t.Errorf("given %d, it warned: %v, want %v", next.shards, got, want)
				}
				log.mu.Lock()
				log.buf.Reset()
				log.mu.Unlock()
			}
		})
	}
}

// TestShardsAreSettledOnce: a directory without a store, of a node on other servers or of a start that was cut short, gets shards when its store is made.
func TestShardsAreSettledOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := must[*directory](t)(openDirectory(dir, "", 4, nil))
	change(t, d.close())
	if id := identityOf(t, dir); id.Shards != 0 || id.Format != plainFormat {
		t.Errorf("without a store: %+v", id)
	}
	n := &wire{}
	d = must[*directory](t)(openDirectory(dir, "", 4, n.streamNames))
	change(t, d.close())
	if n := open(t, Options{Dir: dir, Shards: 2}); len(n.shards) != 4 {
		t.Errorf("%d shards, want those of the start that was cut short", len(n.shards))
	}
}

// TestIdentityByHand writes a troupe.json anew: one that would hide what is stored is refused, and with the one that the refusal
// advises everything is there.
func TestIdentityByHand(t *testing.T) {
	t.Parallel()
	for made, wrong := range map[int][]string{
		1: {`{"format":2,"node":"n","shards":4}`},
		4: {`{"format":1,"node":"n"}`, `{"format":2,"node":"n","shards":2}`, `{"format":1,"node":"n","shards":4}`, `garbage`},
	} {
		dir := t.TempDir()
		n := must[*Node](t)(Open(t.Context(), Options{Dir: dir, Shards: made}))
		fillShards(t, n)
		change(t, n.Close(t.Context()))
		var refusal error
		for _, text := range wrong {
			change(t, os.WriteFile(filepath.Join(dir, identityFile), []byte(text), 0o600))
			before := snapshot(t, dir)
			_, refusal = Open(t.Context(), Options{Dir: dir})
			wantErr(t, text, refusal, store.ErrDamaged)
			if after := snapshot(t, dir); len(before) != len(after) {
				t.Errorf("%s: the directory was changed", text)
			}
		}
		_, advice, _ := strings.Cut(refusal.Error(), "echo '")
		text, _, _ := strings.Cut(advice, "'")
		change(t, os.WriteFile(filepath.Join(dir, identityFile), []byte(strings.Replace(text, "NAME", "n", 1)), 0o600))
		hasShards(t, open(t, Options{Dir: dir}), made)
	}
}

// TestFullestShard: events are as full as their fullest shard, as the next stream may lie there.
func TestFullestShard(t *testing.T) {
	t.Parallel()
	n := open(t, Options{MaxStore: 48 << 20, Shards: 4, Lease: time.Hour}) // 7.3 MB for each; nothing else measures it
	rev := must[uint64](t)(n.OpenStream(t.Context(), testStream, []byte("w"), make([]byte, 7<<20), time.Hour))
	change(t, appendWait(n, testStream, rev, 1, []byte("x")))
	n.measureBudgets(t.Context())
	used, limit := n.Use(store.EventBudget)
	sum := must[StreamStats](t)(n.fillOfKind(t.Context(), events))
	if limit != eventBudget(48<<20) || used < 28<<20 || sum.Bytes > 8<<20 || !n.fills[store.EventBudget].full {
		t.Errorf("%d of %d bytes in use, %d stored", used, limit, sum.Bytes)
	}
}

// TestRemoteShards: the servers say how many shards the store has, also when its first stream is lost, and an older release finds
// a format that it refuses.
func TestRemoteShards(t *testing.T) {
	t.Parallel()
	for made, format := range map[int]int{1: plainFormat, 4: directoryFormat} {
		t.Run(strconv.Itoa(made), func(t *testing.T) {
			t.Parallel()
			c := kit.StartNATS(t, 1, nil)
			var log syncBuffer
			at := func(name string, shards int) Options {
				return Options{Node: name, Shards: shards, Remote: Remote{URL: c.URL()}, Log: slog.New(slog.NewTextHandler(&log, nil))}
			}
			a := must[*Node](t)(Open(t.Context(), at("a", made)))
			fillShards(t, a)
			_, err := Open(t.Context(), at("b", 2))
			if !errors.Is(err, ErrRemote) || !strings.Contains(err.Error(), fmt.Sprintf("shards is %d there and 2 here", made)) {
				t.Errorf("a node with another number: %v", err)
			}
			hasShards(t, open(t, at("c", 0)), made)
			change(t, a.Close(t.Context()))
			b := open(t, at("b", 2)) // The others take what is there.
			hasShards(t, b, made)
			if !strings.Contains(log.String(), "keeps the number") {
				t.Errorf("no warning: %s", log.String())
			}
			js := must[jetstream.JetStream](t)(jetstream.New(b.conn))
			for _, name := range b.streamNames(made) {
				want := strconv.Itoa(format)
				if name == "troupe_nodes" {
					want = fleetFormat
				}
				if got := must[jetstream.Stream](t)(js.Stream(t.Context(), name)).CachedInfo().Config.Metadata[formatKey]; got != want {
					t.Errorf("%s has format %s, want %s", name, got, want)
				}
			}
			change(t, js.DeleteStream(t.Context(), "troupe_nodes"))
			hasShards(t, open(t, at("d", 0)), made)

			st := must[jetstream.Stream](t)(js.Stream(t.Context(), "troupe_nodes")).CachedInfo().Config
			st.Metadata[shardsKey] = "33"
			must[jetstream.Stream](t)(js.UpdateStream(t.Context(), st))
			_, err = Open(t.Context(), at("e", 0))
			wantErr(t, "a number that this release does not know", err, ErrRemote)
		})
	}
}

// TestShardsStartTogether: nodes that make a store at the same moment agree on its shards.
func TestShardsStartTogether(t *testing.T) {
	kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
		var all sync.WaitGroup
		up := make([]*Node, 6)
		for i := range up {
			all.Go(func() {
				n, err := tryOpen(t, v, fmt.Sprintf("n%d", i), func(o *Options) { o.Shards = 2 + i%2*2 })
				if err == nil {
					up[i] = n
				} else if !errors.Is(err, ErrRemote) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		started := 0
		for _, n := range up {
			if n == nil {
				continue
			}
			if started++; started == 1 {
				fillShards(t, n)
			}
			hasShards(t, n, len(n.shards))
			closeAtEnd(t, n)
		}
		if started == 0 || started > 3 {
			t.Errorf("%d of 6 nodes started, want some of those with one number", started)
		}
	})
}

// TestListenShards: a process that serves its own store tells others its shards.
func TestListenShards(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 4} {
		dir := t.TempDir()
		alone := must[*Node](t)(Open(t.Context(), Options{Dir: dir, Shards: shards}))
		fillShards(t, alone)
		change(t, alone.Close(t.Context()))
		n := open(t, Options{Dir: dir, Listen: Listen{Address: onAny, Token: "right"}})
		b := must[*Node](t)(Open(t.Context(), n.remoteOptions("b")))
		hasShards(t, b, shards)
		change(t, b.Close(t.Context()))
	}
}
