package cluster

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupe-run/troupe/internal/bubble"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/test/kit"
)

// TestCloseDeletesTheEntryLast checks that a node's lease entry exists, and is renewed,
// until the last write is decided: a node that sees the entry gone takes the streams
// over.
func TestCloseDeletesTheEntryLast(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := open(t, Options{Lease: time.Second})
		m := newNode(Options{Node: "leaving", Lease: time.Second, Log: n.log, MaxStore: n.opts.MaxStore})
		if err := m.joinTo(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		slow := must[*nats.Subscription](t)(n.conn.SubscribeSync("slow"))
		time.Sleep(time.Millisecond) // the server knows it by then
		ended := make(chan error, 1)
		if _, err := m.acks.sendCall(&nats.Msg{Subject: "slow"}, false, func(_ *nats.Msg, err error) bool { ended <- err; return false }); err != nil {
			t.Fatal(err)
		}
		closed := make(chan error, 1)
		go func() { closed <- m.Close(context.Background()) }()
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if e, ok := n.entry(t, "leaving"); !ok || e.Boot != m.Boot() {
			t.Errorf("with a write in flight: entry %+v, there %v, want it there", e, ok)
		}
		wantErr(t, "append while it closes", appendWait(m, testStream, 1, 1, nil), store.ErrClosed)
		_, err := m.Create(t.Context(), testKey, nil, time.Hour)
		wantErr(t, "create while it closes", err, store.ErrClosed)
		change(t, must[*nats.Msg](t)(slow.NextMsg(time.Second)).Respond([]byte("done")))
		if err := <-closed; err != nil {
			t.Errorf("close: %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("the write ended with %v", err)
		}
		if e, ok := n.entry(t, "leaving"); ok {
			t.Errorf("after the close: entry %+v", e)
		}
	})
}

// TestCloseLeavesTheEntryOfUndecidedWrites checks that Close leaves the lease entry to
// expire when a write is undecided at the end of its time, because the write may still
// be stored.
func TestCloseLeavesTheEntryOfUndecidedWrites(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := open(t, Options{})
		m := newNode(Options{Node: "leaving", Lease: 3 * time.Second, Log: n.log, MaxStore: n.opts.MaxStore})
		if err := m.joinTo(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		must[*nats.Subscription](t)(n.conn.SubscribeSync("slow"))
		time.Sleep(time.Millisecond) // the server knows it by then
		ended := make(chan error, 1)
		if _, err := m.acks.sendCall(&nats.Msg{Subject: "slow"}, false, func(_ *nats.Msg, err error) bool { ended <- err; return false }); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := m.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		wantErr(t, "the write", <-ended, store.ErrUnavailable)
		if _, ok := n.entry(t, "leaving"); !ok {
			t.Error("the entry was deleted")
		}
		time.Sleep(5 * time.Second)
		if _, ok := n.entry(t, "leaving"); ok {
			t.Error("the entry did not expire")
		}
	})
}

// TestFailedOpenIsUndone checks that no stream exists when its body could not be
// stored: no record of a refused call remains, and the stream can be opened again.
func TestFailedOpenIsUndone(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, o Options) {
		o.MaxStore = 2 << 20
		n := open(t, o)
		_, err := n.OpenStream(t.Context(), testStream, []byte("w"), make([]byte, 2<<20), time.Hour)
		wantErr(t, "open with a body that does not fit", err, store.ErrFull)
		_, _, err = n.Writer(t.Context(), testStream)
		wantErr(t, "writer after that", err, store.ErrNotFound)
		if rev, err := n.OpenStream(t.Context(), testStream, []byte("again"), nil, time.Hour); err != nil {
			t.Errorf("open again: %v", err)
		} else if err := appendWait(n, testStream, rev, 1, []byte("x")); err != nil {
			t.Errorf("append after that: %v", err)
		}
	})
}

// TestRefusedGuardIsToldApart checks that the record distinguishes the reasons why a
// guard refuses an append: another writer has the record, it is gone, or it is our own
// after a write whose acknowledgement was lost.
func TestRefusedGuardIsToldApart(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := open(t, Options{})
		m := joined(t, n, "other")
		ctx := t.Context()
		rev := must[uint64](t)(n.OpenStream(ctx, testStream, []byte("n"), nil, time.Minute))
		must[uint64](t)(m.Rewrite(ctx, testStream, []byte("m"), rev, time.Minute))
		wantErr(t, "append after a takeover", appendWait(n, testStream, rev, 1, nil), store.ErrFenced)
		if rec, _, err := n.Writer(ctx, testStream); err != nil || string(rec) != "m" {
			t.Errorf("writer after a takeover: %q, %v", rec, err)
		}

		own := testStream + "b"
		rev = must[uint64](t)(n.OpenStream(ctx, own, []byte("n"), nil, time.Minute))
		must[uint64](t)(n.Rewrite(ctx, own, []byte("n"), rev, time.Minute))
		wantErr(t, "append after a refresh", appendWait(n, own, rev, 1, nil), store.ErrFenced)
		rec, newRev, err := n.Writer(ctx, own)
		if err != nil || string(rec) != "n" {
			t.Errorf("writer after a refresh: %q, %v", rec, err)
		}
		if err := appendWait(n, own, newRev, 1, nil); err != nil {
			t.Errorf("append under the revision that was read: %v", err)
		}

		time.Sleep(2 * time.Minute)
		wantErr(t, "append after the record expired", appendWait(n, own, newRev, 2, nil), store.ErrFenced)
		_, _, err = n.Writer(ctx, own)
		wantErr(t, "writer after the record expired", err, store.ErrNotFound)

		// A store that is away says nothing about the writer of the stream.
		stopServer(n.server)
		err = appendWait(n, own, newRev, 2, nil)
		wantErr(t, "append without a server", err, store.ErrUnavailable)
		if errors.Is(err, store.ErrFenced) {
			t.Errorf("append without a server: %v", err)
		}
		n.closeErr = nil
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_ = m.Close(short)
		_ = n.Close(short)
		m.closeErr, n.closeErr = nil, nil
	})
}

// TestKeyring_newerKey checks that the ring reports a key of a newer release and does
// not change it, and goes on with the keys that it can use.
func TestKeyring_newerKey(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, o Options) {
		n := open(t, o)
		sealed := must[[]byte](t)(n.Keys().Seal([]byte("x"), nil))
		epoch := n.Keys().current
		subject := n.subjectOf("keys.") + "99999999999"
		must[uint64](t)(n.putMessage(t.Context(), subject, []byte{recordVersion + 1, 7, 7}, time.Hour, guard{}))

		m := joined(t, n, "other")
		if got, err := m.Keys().Open(sealed, nil); err != nil || string(got) != "x" {
			t.Errorf("open what a known key sealed: %q, %v", got, err)
		}
		theirs := append([]byte{sealVersion + 1, 0, 0, 0, 0x17, 0x48, 0x76, 0xe7, 0xff}, make([]byte, 40)...)
		_, err := m.Keys().Open(theirs, nil)
		wantErr(t, "open what the newer key sealed", err, store.ErrNewer)
		wantErr(t, "open what the newer key sealed", err, store.ErrUnavailable)
		if _, err := m.Keys().Seal([]byte("y"), nil); err != nil || m.Keys().current != epoch {
			t.Errorf("seal: %v with key %d, want %d", err, m.Keys().current, epoch)
		}
		// When its own keys are used up, the ring makes one after the newer release's.
		change(t, n.Delete(t.Context(), "keys."+strconv.FormatUint(epoch, 10), 0))
		later := joined(t, n, "later")
		if _, err := later.Keys().Seal([]byte("y"), nil); err != nil || later.Keys().current <= 99999999999 {
			t.Errorf("seal without a key of its own: %v with key %d", err, later.Keys().current)
		}
		s, err := n.lastMessage(t.Context(), n.streamName("keys"), subject)
		if err != nil || s.data[0] != recordVersion+1 {
			t.Errorf("the newer key: %v, %v, want it as it was", s.data, err)
		}
	})
}

// TestCloseDuringAnElection checks that Close tries again to delete the entry while the stream has no leader.
func TestCloseDuringAnElection(t *testing.T) {
	kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
		a := listening(t, v, "a")
		b := open(t, Options{Node: "b", Lease: replicatedLease, Remote: Remote{URL: v.Line("b").URL()}})
		js := must[jetstream.JetStream](t)(jetstream.New(a.conn))
		st := must[jetstream.Stream](t)(js.Stream(t.Context(), a.streamName("nodes")))
		config := st.CachedInfo().Config
		change(t, js.DeleteStream(t.Context(), config.Name)) // nobody takes what is published to it
		began := time.Now()
		closed := make(chan error, 1)
		go func() { closed <- b.Close(t.Context()) }()
		time.Sleep(9 * time.Second) // as long as an election may take
		must[jetstream.Stream](t)(js.CreateStream(t.Context(), config))
		if err := <-closed; err != nil || time.Since(began) > 10*time.Second {
			t.Errorf("close after %v: %v", time.Since(began), err)
		}
		if e, ok := a.entry(t, "b"); ok {
			t.Errorf("the entry is %+v", e)
		}
	})
}
