package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/troupe-run/troupe/cluster/internal/embedded"
	"github.com/troupe-run/troupe/internal/bubble"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/test/kit/when"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{MaxStore: 1000}, {MaxStore: -1}, {Lease: -1}, {EventAge: -1}, {KeyRotate: -1}, {Node: "A"}, {Node: "a.b"},
		{Node: strings.Repeat("x", 33)}, {Prefix: "a.b"}, {Prefix: "a_"}, {Prefix: "*"}} {
		if n, err := Open(t.Context(), o); err == nil {
			t.Errorf("options %+v were accepted", o)
			_ = n.Close(t.Context())
		}
	}
	n := open(t, Options{Lease: 1500 * time.Millisecond, Node: "n-1"})
	if n.Name() != "n-1" || n.opts.Lease != 2*time.Second {
		t.Errorf("got name %q, lease %v, want n-1, 2s", n.Name(), n.opts.Lease)
	}
	if b := n.Boot(); len(b) != 8 || !validName(b) || strings.Contains(b, "-") {
		t.Errorf("boot nonce %q", b)
	}
}

// TestServerOptions checks that the embedded server gets our limits and opens no port.
func TestServerOptions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sync     time.Duration
		interval time.Duration
	}{{0, time.Second}, {time.Minute, time.Minute}, {-1, time.Second}} {
		o := serverOptions(&Options{Sync: c.sync}, "n")
		if o.SyncAlways || o.SyncInterval != c.interval {
			t.Errorf("sync %v: got always %v, every %v, want every %v", c.sync, o.SyncAlways, o.SyncInterval, c.interval)
		}
		if !o.DontListen || !o.NoSigs || o.MaxPayload != maxPayload {
			t.Errorf("options: %+v", o)
		}
	}
	n := open(t, Options{})
	if addr := n.server.Addr(); addr != nil {
		t.Errorf("the embedded server listens on %v", addr)
	}
}

func (n *Node) entry(t *testing.T, name string) (e entry, ok bool) {
	t.Helper()
	data, _, err := n.Get(t.Context(), "nodes."+name)
	if errors.Is(err, store.ErrNotFound) {
		return e, false
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatal(err)
	}
	return e, true
}

func TestLease(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	stores(t, func(t *testing.T, o Options) {
		bubble.Test(t, func(t *testing.T) {
			n := open(t, o)
			m := joined(t, n, "other")
			time.Sleep(10 * time.Minute)
			if n.Suspended() || m.Suspended() {
				t.Error("suspended though nothing happened")
			}
			if e, ok := n.entry(t, "other"); !ok || e.Boot != m.Boot() {
				t.Errorf("entry of the other node: got %+v, %v, want boot %s", e, ok, m.Boot())
			}

			// A node that stops renewing without an end: its entry is gone after the
			// lease, and not before.
			close(m.lease.stop)
			<-m.lease.done
			m.lease.stop = make(chan struct{})
			last := m.lease.renewalAge()
			time.Sleep(n.opts.Lease - last - 100*time.Millisecond)
			if _, ok := n.entry(t, "other"); !ok || m.Suspended() {
				t.Errorf("before the lease is over: entry there %v, suspended %v", ok, m.Suspended())
			}
			time.Sleep(200 * time.Millisecond)
			if !m.Suspended() {
				t.Error("not suspended when the lease was over")
			}
			time.Sleep(2 * time.Second)
			if _, ok := n.entry(t, "other"); ok {
				t.Error("the entry outlived its lease by 2 s")
			}

			// The node comes back, as after SIGCONT, under the same nonce.
			m.lease.done = make(chan struct{})
			go m.lease.renewRegularly()
			time.Sleep(2 * time.Second)
			if e, ok := n.entry(t, "other"); !ok || e.Boot != m.Boot() || m.Suspended() {
				t.Errorf("after it came back: entry %+v, %v, suspended %v", e, ok, m.Suspended())
			}
		})
	})
}

// TestLeaseCountsFromTheSending checks that a late answer does not make the lease longer,
// because the entry may have begun to live as soon as its renewal was sent.
func TestLeaseCountsFromTheSending(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := open(t, Options{Lease: time.Hour})
		for what, write := range map[string]func(context.Context) error{"register": n.lease.registerNode, "renew": n.lease.renewEntry} {
			n.acks.busy(t, 1, func() { time.Sleep(2 * time.Second) })
			sent := time.Now()
			if err := write(t.Context()); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if age, want := n.lease.renewalAge(), time.Since(sent); age != want || want != 2*time.Second {
				t.Errorf("%s: the lease is %v old, want %v: it was sent as long ago", what, age, want)
			}
		}
	})
}

func TestLeaseOverwrittenByNewBoot(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	when.Long(t, "virtual minutes of renewals")
	bubble.Test(t, func(t *testing.T) {
		n := open(t, Options{Lease: time.Minute})
		old := joined(t, n, "same")
		time.Sleep(time.Minute)
		newer := joined(t, n, "same")
		if e, _ := n.entry(t, "same"); e.Boot != newer.Boot() {
			t.Errorf("entry: got boot %s, want the newer %s", e.Boot, newer.Boot())
		}
		time.Sleep(old.opts.Lease/5 + 100*time.Millisecond)
		if !old.Suspended() || newer.Suspended() {
			t.Errorf("suspended: old %v, newer %v, want true, false", old.Suspended(), newer.Suspended())
		}
		time.Sleep(time.Hour)
		if e, _ := n.entry(t, "same"); e.Boot != newer.Boot() || !old.Suspended() || newer.Suspended() {
			t.Errorf("an hour later: entry %+v, suspended: old %v, newer %v", e, old.Suspended(), newer.Suspended())
		}
		if err := newer.Close(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * old.opts.Lease / 5)
		if e, ok := n.entry(t, "same"); !ok || e.Boot != old.Boot() || old.Suspended() {
			t.Errorf("after the newer one left: entry %+v, %v, old suspended %v", e, ok, old.Suspended())
		}
	})
}

// TestSuspension has the store of the leases go away for a while: the node is
// suspended, and then serves again.
func TestSuspension(t *testing.T) {
	stores(t, func(t *testing.T, o Options) {
		bubble.Test(t, func(t *testing.T) {
			n := open(t, o)
			boot := n.Boot()
			time.Sleep(time.Minute)
			if err := n.askAPI(t.Context(), "STREAM.DELETE.nodes", nil, nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
			if n.Suspended() {
				t.Error("suspended before the lease was over")
			}
			time.Sleep(3 * time.Second)
			if !n.Suspended() {
				t.Error("not suspended after the lease was over")
			}
			if err := n.ensureStreams(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			if e, ok := n.entry(t, n.Name()); n.Suspended() || !ok || e.Boot != boot {
				t.Errorf("after it came back: suspended %v, entry %+v, %v", n.Suspended(), e, ok)
			}
		})
	})
}

// TestServerGone checks that every operation ends in time without the server, with an
// error that says that the outcome is unknown.
func TestServerGone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := open(t, Options{})
		ctx := t.Context()
		rev := must[uint64](t)(n.OpenStream(ctx, testStream, nil, nil, time.Hour))
		sealed := must[[]byte](t)(n.Keys().Seal([]byte("x"), nil))
		stopServer(n.server)
		start := time.Now()
		calls := map[string]func() error{
			"get":     func() error { _, _, err := n.Get(ctx, testKey); return err },
			"create":  func() error { _, err := n.Create(ctx, testKey, nil, time.Hour); return err },
			"update":  func() error { _, err := n.Update(ctx, testKey, nil, 1, time.Hour); return err },
			"delete":  func() error { return n.Delete(ctx, testKey, 1) },
			"open":    func() error { _, err := n.OpenStream(ctx, testStream, nil, nil, time.Hour); return err },
			"writer":  func() error { _, _, err := n.Writer(ctx, testStream); return err },
			"rewrite": func() error { _, err := n.Rewrite(ctx, testStream, nil, rev, time.Hour); return err },
			"append":  func() error { return appendWait(n, testStream, rev, 1, nil) },
			"read":    func() error { _, err := readEvents(ctx, n, testStream, 1, 2); return err },
			"tail":    func() error { _, err := n.Tail(ctx, testStream, 0); return err },
			"end":     func() error { return n.EndStream(ctx, testStream) },
		}
		for what, call := range calls {
			start := time.Now()
			wantErr(t, what, call(), store.ErrUnavailable)
			if d := time.Since(start); d > callTimeout {
				t.Errorf("%s took %v", what, d)
			}
		}
		if plain, err := n.Keys().Open(sealed, nil); err != nil || string(plain) != "x" {
			t.Errorf("open with a known key: %q, %v", plain, err)
		}
		time.Sleep(n.opts.Lease - time.Since(start) + time.Second)
		if !n.Suspended() {
			t.Error("not suspended without a server")
		}
		if s := n.Stats(); s.Streams != nil || s.AppendUnavailable == 0 || !s.Suspended {
			t.Errorf("stats: %+v", s)
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := n.Close(short); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("close: got %v, want to hear that the entry was not deleted", err)
		}
		n.closeErr = nil
	})
}

// TestSilentServer checks that a server that takes requests and never answers costs 5 s
// or the context.
func TestSilentServer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := open(t, Options{})
		silent := must[*nats.Subscription](t)(n.conn.SubscribeSync("silent"))
		// The node's own inbox has operations of its lease at the same instants.
		b := must[*inbox](t)(newInbox(n.conn, nil))
		start := time.Now()
		_, err := b.askAndWait(t.Context(), &nats.Msg{Subject: "silent"})
		wantErr(t, "ask", err, store.ErrUnavailable)
		if d := time.Since(start); d != callTimeout {
			t.Errorf("an unanswered call took %v, want %v", d, callTimeout)
		}
		start = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = b.askAndWait(ctx, &nats.Msg{Subject: "silent"})
		wantErr(t, "ask", err, store.ErrUnavailable)
		wantErr(t, "ask", err, context.DeadlineExceeded)
		if d := time.Since(start); d != time.Second {
			t.Errorf("an unanswered call took %v, want its context's second", d)
		}
		if got := b.inFlight(); got != 0 {
			t.Errorf("calls in flight: got %d, want 0", got)
		}
		// Close ends the operations in flight.
		failed := make(chan error, 1)
		if _, err := n.acks.sendCall(&nats.Msg{Subject: "silent"}, false, func(_ *nats.Msg, err error) bool { failed <- err; return false }); err != nil {
			t.Fatal(err)
		}
		if err := silent.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := n.Close(ctx); err != nil {
			t.Error(err)
		}
		wantErr(t, "call in flight at close", <-failed, store.ErrUnavailable)
		_, _, err = n.Get(t.Context(), testKey)
		wantErr(t, "get after close", err, store.ErrClosed)
		wantErr(t, "get after close", err, store.ErrUnavailable)
		wantErr(t, "append after close", appendWait(n, testStream, 1, 1, nil), store.ErrClosed)
	})
}

func TestInboxIsBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) { // where no operation expires while the test makes the others
		n := open(t, Options{})
		must[*nats.Subscription](t)(n.conn.SubscribeSync("silent"))
		b := must[*inbox](t)(newInbox(n.conn, nil)) // the node uses its own meanwhile
		ended := make(chan error, maxCalls)
		for range maxCalls {
			if _, err := b.sendCall(&nats.Msg{Subject: "silent"}, false, func(_ *nats.Msg, err error) bool { ended <- err; return false }); err != nil {
				t.Fatal(err)
			}
		}
		_, err := b.askAndWait(t.Context(), &nats.Msg{Subject: "silent"})
		wantErr(t, "one call too many", err, store.ErrRetry)
		b.close()
		for range maxCalls {
			wantErr(t, "call", <-ended, store.ErrUnavailable)
		}
	})
}

// TestReopen checks that Close deletes the entry, and that a clean restart finds
// everything else.
func TestReopen(t *testing.T) {
	t.Parallel()
	o := Options{Dir: t.TempDir()}
	n := must[*Node](t)(Open(t.Context(), o))
	name, boot := n.Name(), n.Boot()
	rev := must[uint64](t)(n.OpenStream(t.Context(), testStream, []byte("w"), []byte("b"), time.Hour))
	fill(t, n, testStream, rev, 1, 50)
	must[uint64](t)(n.Create(t.Context(), testKey, []byte("x"), time.Hour))
	sealed := must[[]byte](t)(n.Keys().Seal([]byte("secret"), []byte("aad")))
	for range 2 {
		if err := n.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	o.MaxStore = 1 << 30
	n = open(t, o)
	if n.Name() != name || n.Boot() == boot {
		t.Errorf("got name %s, boot %s, want name %s and another boot than %s", n.Name(), n.Boot(), name, boot)
	}
	if got := n.collectStats(t.Context()).MaxBytes; got == 0 || got > 1<<30 {
		t.Errorf("limits after a change: got %d", got)
	}
	if got := must[[]event](t)(readEvents(t.Context(), n, testStream, 1, 50)); len(got) != 50 {
		t.Errorf("read: got %d appends, want 50", len(got))
	}
	if _, got, err := n.Writer(t.Context(), testStream); err != nil || got != rev {
		t.Errorf("writer: got revision %d, %v, want %d", got, err, rev)
	}
	if _, _, err := n.Get(t.Context(), testKey); err != nil {
		t.Error(err)
	}
	if plain, err := n.Keys().Open(sealed, []byte("aad")); err != nil || string(plain) != "secret" {
		t.Errorf("open: %q, %v", plain, err)
	}
	// Other users cannot read these files.
	for _, name := range []string{lockFile, identityFile} {
		st, err := os.Stat(n.dir.PathOf(name))
		if err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v, want 0600", name, st.Mode(), err)
		}
	}
	if st, err := os.Stat(n.dir.PathOf(embedded.StoreDir)); err != nil || st.Mode() != 0o700|fs.ModeDir {
		t.Errorf("%s: mode %v, %v, want 0700", embedded.StoreDir, st.Mode(), err)
	}
}

// TestMemoryDir: a store in memory starts wherever any directory can be written, and otherwise says which ones it tried.
func TestMemoryDir(t *testing.T) {
	t.Parallel()
	none := filepath.Join(t.TempDir(), "none")
	dir, err := memoryDir([]string{none, t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	change(t, os.Remove(dir))
	_, err = memoryDir([]string{none, "/dev/null"})
	for _, want := range []string{none + ": no such file or directory", "/dev/null: not a directory", "set TMPDIR"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	if _, path := errors.AsType[*fs.PathError](err); path {
		t.Error("the error is taken for one of the data directory")
	}
}
