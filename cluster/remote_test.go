package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/troupe-run/troupe/cluster/internal/embedded"
	leases "github.com/troupe-run/troupe/internal/lease"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
)

// remote opens a node on servers.
func remote(t testing.TB, c *kit.NATS, name string) *Node {
	t.Helper()
	return open(t, Options{Node: name, Remote: Remote{URL: c.URL()}})
}

func TestRemoteCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		r    Remote
		want string
	}{
		{"access without servers", Remote{Token: "t"}, "without a URL"},
		{"replicas without servers", Remote{Replicas: 3}, "without a URL"},
		{"no scheme", Remote{URL: "127.0.0.1:4222"}, "nats URL"},
		{"other scheme", Remote{URL: "http://127.0.0.1:4222"}, "want nats://"},
		{"no host", Remote{URL: "nats://"}, "want nats://"},
		{"path", Remote{URL: "nats://127.0.0.1/x"}, "want nats://"},
		{"one of two", Remote{URL: "nats://a,ftp://b"}, `"ftp://b"`},
		{"two tokens", Remote{URL: "nats://secret@a", Token: "t"}, "more than one"},
		{"nkey and credentials", Remote{URL: "nats://a", NKey: "a", Creds: "b"}, "more than one"},
		{"certificate without key", Remote{URL: "nats://a", Cert: "a"}, "belong together"},
		{"replicas", Remote{URL: "nats://a", Replicas: 2}, "want 1, 3 or 5"},
		{"control character", Remote{URL: "nats://secret@a\x00"}, "nats URL"},
	} {
		_, err := Open(t.Context(), Options{Remote: c.r})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got error %v, want one with %q", c.name, err, c.want)
		}
	}
}

// TestRemoteAccess connects in each way that a server may ask for, and with the wrong one.
func TestRemoteAccess(t *testing.T) {
	t.Parallel()
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	public, err := user.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good.nk", string(seed))
	stranger, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := stranger.Seed()
	if err != nil {
		t.Fatal(err)
	}
	bad := file("bad.nk", string(foreign))
	at := func(c *kit.NATS, user string) string { return strings.Replace(c.URL(), "://", "://"+user+"@", 1) }
	for _, c := range []struct {
		name   string
		server func(o *server.Options)
		good   func(c *kit.NATS) Remote
		bad    func(c *kit.NATS) Remote
	}{
		{"password", func(o *server.Options) { o.Username, o.Password = "u", "secret" },
			func(c *kit.NATS) Remote { return Remote{URL: at(c, "u:secret")} },
			func(c *kit.NATS) Remote { return Remote{URL: at(c, "u:secrets")} }},
		{"token", func(o *server.Options) { o.Authorization = "secret" },
			func(c *kit.NATS) Remote { return Remote{URL: c.URL(), Token: "secret"} },
			func(c *kit.NATS) Remote { return Remote{URL: at(c, "secrets")} }},
		{"nkey", func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public}} },
			func(c *kit.NATS) Remote { return Remote{URL: c.URL(), NKey: good} },
			func(c *kit.NATS) Remote { return Remote{URL: c.URL(), NKey: bad} }},
		{"nobody", func(o *server.Options) { o.Authorization = "secret" }, nil,
			func(c *kit.NATS) Remote { return Remote{URL: c.URL()} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := kit.StartNATS(t, 1, c.server)
			if c.good != nil {
				n := open(t, Options{Remote: c.good(s)})
				if _, err := n.Create(t.Context(), "session.anon.demo.a", []byte("x"), time.Hour); err != nil {
					t.Error(err)
				}
			}
			began := time.Now()
			_, err := Open(t.Context(), Options{Remote: c.bad(s)})
			wantErr(t, "wrong access", err, ErrRemote)
			when.Within(t, "the refusal", time.Since(began), remoteStart/2)
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Error(err)
			}
		})
	}
	t.Run("files", func(t *testing.T) {
		for what, r := range map[string]Remote{
			"no seed": {NKey: filepath.Join(dir, "none")}, "bad seed": {NKey: file("seed", "hello")}, "no credentials": {Creds: filepath.Join(dir, "none")},
			"no authorities": {CA: file("ca", "hello")}, "no certificate": {Cert: filepath.Join(dir, "none"), Key: filepath.Join(dir, "none")},
		} {
			r.URL = "nats://127.0.0.1:1"
			_, err := Open(t.Context(), Options{Remote: r})
			wantErr(t, what, err, ErrRemote)
		}
	})
}

// silentLater says that nobody serves JetStream, and then nothing until it is given up.
type silentLater struct {
	jetstream.JetStream
	asked int
}

func (s *silentLater) Stream(ctx context.Context, _ string) (jetstream.Stream, error) {
	if s.asked++; s.asked == 1 {
		return nil, nats.ErrNoResponders
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestNobodyServesJetStream has the last try of a start end without an answer: what a server has said before is the reason.
func TestNobodyServesJetStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &Server{wire: &wire{log: slog.New(slog.DiscardHandler)}}
		for what, start := range map[string]func(context.Context) error{
			"a stream is looked up": func(ctx context.Context) error {
				_, err := n.lookUp(ctx, new(silentLater), "s")
				return err
			},
			"a stream is agreed on": func(ctx context.Context) error {
				return (&agreement{Server: n}).agreeOn(ctx, new(silentLater), &kinds[0], new(time.Time))
			},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := start(ctx)
			cancel()
			if !errors.Is(err, ErrRemote) || !strings.Contains(err.Error(), "nobody serves JetStream") {
				t.Errorf("%s: got %v", what, err)
			}
		}
	})
}

// TestRemoteServers refuses servers that cannot keep the store, with a word on what to do.
func TestRemoteServers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		server func(o *server.Options)
		o      Options
		want   string
	}{
		{"small messages", func(o *server.Options) { o.MaxPayload = 1 << 19 }, Options{}, "max_payload is 524288"},
		{"no cluster", nil, Options{Remote: Remote{Replicas: 3}}, "not in a cluster"},
		{"no room", func(o *server.Options) { o.JetStreamMaxStore = 1 << 30 }, Options{MaxStore: 4 << 30}, "less room"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.o.Remote.URL = kit.StartNATS(t, 1, c.server).URL()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := Open(ctx, c.o)
			if !errors.Is(err, ErrRemote) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
		})
	}
	t.Run("nobody there", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := Open(ctx, Options{Remote: Remote{URL: "nats://127.0.0.1:1"}})
		if !errors.Is(err, ErrRemote) || !strings.Contains(err.Error(), "no server answers") {
			t.Errorf("got error %v", err)
		}
	})
	if !isOlder("2.11.9", "2.12.0") || isOlder("v2.12.0-RC.1", "2.12.0") || isOlder("2.15.2", "2.12.0") || !isOlder("1.4.1", "2.12.0") {
		t.Error("releases are not told apart")
	}
}

// TestRemoteStreams checks what is made on the servers, what is changed, and what is refused.
func TestRemoteStreams(t *testing.T) {
	t.Parallel()
	c := kit.StartNATS(t, 1, nil)
	n := remote(t, c, "a")
	js, err := jetstream.New(n.conn)
	if err != nil {
		t.Fatal(err)
	}
	config := func(name string) jetstream.StreamConfig {
		t.Helper()
		s, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return s.CachedInfo().Config
	}
	if got := config("troupe_tasks"); got.Replicas != 1 || got.Storage != jetstream.FileStorage || got.Subjects[0] != "troupe.task.>" || got.MaxBytes != 8<<30/16 {
		t.Errorf("stream of tasks: %+v", got)
	}

	// A node with a size of its own changes that of the store, and another one takes what is there.
	open(t, Options{Node: "b", MaxStore: 1 << 30, Remote: Remote{URL: c.URL()}})
	if got := config("troupe_tasks").MaxBytes; got != 1<<30/16 {
		t.Errorf("a node with a store of 1 GiB left %d bytes", got)
	}
	remote(t, c, "c")
	if got := config("troupe_tasks").MaxBytes; got != 1<<30/16 {
		t.Errorf("a node without a size of its own left %d bytes", got)
	}
	open(t, Options{Prefix: "other", Remote: Remote{URL: c.URL()}})
	if got := config("other_work"); got.Retention != jetstream.WorkQueuePolicy || got.Subjects[0] != "other.work.>" {
		t.Errorf("stream of work with a prefix: %+v", got)
	}

	refused := func(what, want string, change func(c *jetstream.StreamConfig)) {
		t.Helper()
		prefix := strings.ReplaceAll(what, " ", "-")
		bad := jetstream.StreamConfig{Name: prefix + "_keys", Subjects: []string{prefix + ".keys.>"}, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew,
			AllowMsgTTL: true, Metadata: map[string]string{formatKey: "1"}}
		change(&bad)
		if _, err := js.CreateStream(t.Context(), bad); err != nil {
			t.Fatal(err)
		}
		_, err := Open(t.Context(), Options{Prefix: prefix, Remote: Remote{URL: c.URL()}})
		if !errors.Is(err, ErrRemote) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one with %q", what, err, want)
		}
	}
	refused("retention", "retention is", func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy })
	refused("memory", "storage is", func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage })
	refused("no lifetimes", "lifetimes of messages", func(c *jetstream.StreamConfig) { c.AllowMsgTTL = false })
	refused("age", "greatest age", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour })
	refused("foreign", "format", func(c *jetstream.StreamConfig) { c.Metadata = nil })
	refused("newer", "format", func(c *jetstream.StreamConfig) { c.Metadata[formatKey] = "2" })
	refused("subjects", "subjects", func(c *jetstream.StreamConfig) { c.Subjects = append(c.Subjects, "subjects.more.>") })
	refused("overlap", "another prefix", func(c *jetstream.StreamConfig) { c.Name, c.Subjects = "others", []string{"overlap.>"} })
}

// TestRemoteLeases checks that a node leaves the entries of others alone, and that its newer boot has its name.
func TestRemoteLeases(t *testing.T) {
	t.Parallel()
	c := kit.StartNATS(t, 1, nil)
	begin := func(name string) *Node { // nothing but the test renews a lease
		return open(t, Options{Node: name, Lease: time.Hour, Remote: Remote{URL: c.URL()}})
	}
	a, b := begin("a"), begin("b")
	if _, ok := b.entry(t, "a"); !ok {
		t.Error("the second node removed the entry of the first")
	}
	again := begin("a")
	if e, ok := b.entry(t, "a"); !ok || e.Boot != again.Boot() {
		t.Errorf("after a newer boot the entry is %+v", e)
	}
	for _, tt := range []struct {
		node, boot string
		want       string
	}{{"a", again.Boot(), "false false"}, {"a", a.Boot(), "true false"}, {"b", b.Boot(), "false false"}, {"c", b.Boot(), "false true"}} { // b has just begun
		gone, err := b.Gone(t.Context(), store.Address{Node: tt.node, Boot: tt.boot})
		if got := fmt.Sprint(gone, err != nil); got != tt.want {
			t.Errorf("boot %s of %s is gone: %v, %v, want %s", tt.boot, tt.node, gone, err, tt.want)
		}
	}
	// The older boot finds that out with its next renewal.
	if err := a.lease.renewEntry(t.Context()); !errors.Is(err, leases.ErrTaken) && !errors.Is(err, store.ErrConflict) {
		t.Errorf("the older boot renews its lease: %v", err)
	}
	if !a.Suspended() {
		t.Error("the older boot goes on")
	}
}

// TestRemoteDirectory keeps the node's name in a data directory, and leaves a store in it alone.
func TestRemoteDirectory(t *testing.T) {
	t.Parallel()
	c := kit.StartNATS(t, 1, nil)
	dir := t.TempDir()
	o := Options{Dir: dir, Remote: Remote{URL: c.URL()}}
	n, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), o)
	wantErr(t, "a second process on the directory", err, ErrLocked)
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m := open(t, o); m.Name() != n.Name() {
		t.Errorf("the next process is %s, and was %s", m.Name(), n.Name())
	}
	if _, err := os.Stat(filepath.Join(dir, embedded.StoreDir)); !os.IsNotExist(err) {
		t.Errorf("the directory has a store: %v", err)
	}
}

// TestRemoteGuards has many writers change one record and its parts at once, on one server and on three. Each change that was
// acknowledged is there, and none was refused for want of a decision.
func TestRemoteGuards(t *testing.T) {
	t.Parallel()
	for _, servers := range []int{1, 3} {
		t.Run(fmt.Sprint(servers), func(t *testing.T) {
			t.Parallel()
			if servers > 1 {
				when.Long(t, "three servers")
			}
			c := kit.StartNATS(t, servers, nil)
			nodes := []*Node{remote(t, c, "a"), remote(t, c, "b")}
			if got := nodes[0].replicas; got != servers {
				t.Errorf("%d replicas on %d servers", got, servers)
			}
			if want := map[int]time.Duration{1: 5 * time.Second, 3: replicatedLease}[servers]; nodes[0].opts.Lease != want {
				t.Errorf("lease of %v, want %v", nodes[0].opts.Lease, want)
			}
			ctx := t.Context()
			const task, writers, changes = "anon.demo.t", 4, 25
			if _, err := nodes[0].Create(ctx, "task."+task, []byte("0"), time.Hour); err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			for w := range writers {
				n := nodes[w%2]
				all.Go(func() {
					for i := 0; i < changes; {
						data, rev, err := n.Get(ctx, "task."+task)
						if err != nil {
							t.Error(err)
							return
						}
						// Two parts on their way do not disturb one another, and a record that changes meanwhile fences both.
						var parts sync.WaitGroup
						for p := range 2 {
							parts.Go(func() {
								if err := n.PutPart(ctx, task, fmt.Sprintf("s-%d-%d", w, p), []byte("x"), rev, time.Hour); err != nil && !errors.Is(err, store.ErrFenced) {
									t.Errorf("part: %v", err)
								}
							})
						}
						parts.Wait()
						var have int
						_, _ = fmt.Sscan(string(data), &have)
						_, err = n.Update(ctx, "task."+task, fmt.Append(nil, have+1), rev, time.Hour)
						if err == nil {
							i++
						} else if !errors.Is(err, store.ErrConflict) {
							t.Errorf("update: %v", err)
							return
						}
					}
				})
			}
			all.Wait()
			if data, _, err := nodes[1].Get(ctx, "task."+task); err != nil || string(data) != fmt.Sprint(writers*changes) {
				t.Errorf("after %d changes the record is %s, %v", writers*changes, data, err)
			}
		})
	}
}

// TestReclaim has a node offer again what the process before it had, and nothing else.
func TestReclaim(t *testing.T) {
	when.Full(t, "what a worker is silent about is given out again after 5 s")
	t.Parallel()
	c := kit.StartNATS(t, 1, nil)
	ctx := t.Context()
	a := remote(t, c, "a")
	for i := range 5 {
		if _, err := a.Offer(ctx, "anon", "demo", fmt.Sprintf("t%d", i), "client", time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	dead := must[store.Queue](t)(a.Work(ctx, "demo")).(*workQueue)
	for range 5 {
		must[store.Work](t)(dead.Next(ctx))
	}
	dead.Close()

	asked := 0
	had := func(_, task string) time.Duration {
		asked++
		return map[string]time.Duration{"t1": time.Hour, "t3": time.Hour}[task]
	}
	other := remote(t, c, "b")
	if err := other.Reclaim(ctx, "demo", had); err != nil || asked != 0 {
		t.Errorf("a node of another name asked for %d works, %v", asked, err)
	}
	again := remote(t, c, "a")
	if err := again.Reclaim(ctx, "demo", had); err != nil || asked != 5 {
		t.Errorf("the next process asked for %d works, %v", asked, err)
	}
	q := must[store.Queue](t)(again.Work(ctx, "demo")).(*workQueue)
	defer q.Close()
	soon, cancel := context.WithTimeout(ctx, workWait/2)
	defer cancel()
	var got []string
	for range 2 {
		w, err := q.Next(soon)
		if err != nil {
			t.Fatal(err)
		}
		_, task, from := w.Of()
		got = append(got, task+" of "+from)
		if err := w.Done(); err != nil {
			t.Error(err)
		}
	}
	if strings.Join(got, ", ") != "t1 of client, t3 of client" {
		t.Errorf("the next process got %v", got)
	}
	wait(t, "removal of what was done", func() bool { return countMessages(t, again, work) == 3 })
}

// TestUndecided sends a write again that replicas cannot decide, until they can; and no other write.
func TestUndecided(t *testing.T) {
	t.Parallel()
	n := open(t, Options{})
	var asked atomic.Int64
	answers := []string{
		`{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"},"stream":"x","seq":0}`,
		`{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"},"stream":"x","seq":0}`,
		`{"stream":"x","seq":7}`,
		`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 9"},"stream":"x","seq":0}`,
	}
	sub, err := n.conn.Subscribe("undecided", func(m *nats.Msg) { _ = m.Respond([]byte(answers[asked.Add(1)-1])) })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if seq, err := n.putMessage(t.Context(), "undecided", []byte("x"), 0, guard{seq: 6}); seq != 7 || err != nil || asked.Load() != 3 {
		t.Errorf("got sequence %d, %v after %d tries, want 7 after 3", seq, err, asked.Load())
	}
	_, err = n.putMessage(t.Context(), "undecided", []byte("x"), 0, guard{seq: 6})
	wantErr(t, "a guard that is lost", err, store.ErrConflict)
	if got := n.Undecided(); got != 2 || asked.Load() != 4 {
		t.Errorf("%d undecided writes and %d tries, want 2 and 4", got, asked.Load())
	}
}

// TestMissingStreams says that a stream is gone, to a node that runs and to one that starts.
func TestMissingStreams(t *testing.T) {
	defer func(d time.Duration) { streamAgeDoubt = d }(streamAgeDoubt)
	streamAgeDoubt = 50 * time.Millisecond
	c := kit.StartNATS(t, 1, nil)
	var log syncBuffer
	o := Options{Node: "a", Lease: time.Hour, Remote: Remote{URL: c.URL()}, Log: slog.New(slog.NewTextHandler(&log, nil))}
	n := open(t, o)
	js := must[jetstream.JetStream](t)(jetstream.New(n.conn))
	made := time.Now()
	if err := js.DeleteStream(t.Context(), "troupe_sessions"); err != nil {
		t.Fatal(err)
	}
	n.fills[store.TaskBudget].limit.Store(0)
	for range 2 {
		n.measureBudgets(t.Context())
	}
	if got := strings.Count(log.String(), "a stream of the store is missing"); got != 1 {
		t.Errorf("it said so %d times:\n%s", got, log.String())
	}
	if _, limit := n.Use(store.TaskBudget); limit == 0 {
		t.Error("the streams that are there are not measured")
	}
	wait(t, "time since the streams were made", func() bool { return time.Since(made) > 3*streamAgeDoubt })
	o.Node = "b"
	open(t, o)
	if !strings.Contains(log.String(), "what they held is lost") || !strings.Contains(log.String(), "[troupe_sessions]") {
		t.Errorf("the log of the next start:\n%s", log.String())
	}
}

// syncBuffer is a buffer that goroutines share.
type syncBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
