package cluster

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/bubble"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/test/kit/when"
)

const testKey = "session.anon.demo.s1"

func TestRecordCompareAndSet(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, o Options) {
		o.Prefix = "p-1"
		n := open(t, o)
		ctx := t.Context()

		_, _, err := n.Get(ctx, testKey)
		wantErr(t, "get before create", err, store.ErrNotFound)
		_, err = n.Update(ctx, testKey, []byte("x"), 7, time.Hour)
		wantErr(t, "update before create", err, store.ErrConflict)
		rev := must[uint64](t)(n.Create(ctx, testKey, []byte("one"), time.Hour))
		_, err = n.Create(ctx, testKey, []byte("again"), time.Hour)
		wantErr(t, "create twice", err, store.ErrConflict)
		data, got, err := n.Get(ctx, testKey)
		if err != nil || string(data) != "one" || got != rev {
			t.Errorf("get: got %q, %d, %v, want one, %d", data, got, err, rev)
		}
		rev2 := must[uint64](t)(n.Update(ctx, testKey, nil, rev, time.Hour))
		if rev2 <= rev {
			t.Errorf("revision after update: got %d, want more than %d", rev2, rev)
		}
		if data, _, err = n.Get(ctx, testKey); err != nil || len(data) != 0 {
			t.Errorf("get of an empty record: got %q, %v, want it to be there", data, err)
		}
		_, err = n.Update(ctx, testKey, []byte("late"), rev, time.Hour)
		wantErr(t, "update with an old revision", err, store.ErrConflict)
		_, err = n.Update(ctx, testKey, []byte("none"), 0, time.Hour)
		wantErr(t, "update without a revision", err, store.ErrConflict)
		wantErr(t, "delete with an old revision", n.Delete(ctx, testKey, rev), store.ErrConflict)
		if err := n.Delete(ctx, testKey, rev2); err != nil {
			t.Error(err)
		}
		_, _, err = n.Get(ctx, testKey)
		wantErr(t, "get after delete", err, store.ErrNotFound)
		_, err = n.Update(ctx, testKey, []byte("ghost"), rev2, time.Hour)
		wantErr(t, "update after delete", err, store.ErrConflict)
		must[uint64](t)(n.Create(ctx, testKey, []byte("anew"), time.Hour))
		for range 2 {
			if err := n.Delete(ctx, testKey, 0); err != nil {
				t.Errorf("delete of any revision: %v", err)
			}
		}
	})
}

// TestRecordRace has many goroutines create or update the same record at once: exactly
// one wins.
func TestRecordRace(t *testing.T) {
	t.Parallel()
	n := open(t, Options{})
	m := joined(t, n, "other")
	var rev uint64
	for round := range 20 {
		wins := make(chan uint64, 8)
		for i := range 8 {
			go func() {
				node := []*Node{n, m}[i%2]
				var r uint64
				var err error
				if rev == 0 {
					r, err = node.Create(t.Context(), testKey, []byte{byte(i)}, time.Hour)
				} else {
					r, err = node.Update(t.Context(), testKey, []byte{byte(i)}, rev, time.Hour)
				}
				if err != nil {
					wantErr(t, "loser", err, store.ErrConflict)
					r = 0
				}
				wins <- r
			}()
		}
		won, next := 0, uint64(0)
		for range 8 {
			if r := <-wins; r != 0 {
				won, next = won+1, r
			}
		}
		if won != 1 {
			t.Fatalf("round %d: %d winners, want 1", round, won)
		}
		rev = next
	}
}

func TestRecordLifetime(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	stores(t, func(t *testing.T, o Options) {
		o.Lease = time.Minute // renewals are not the subject
		bubble.Test(t, func(t *testing.T) {
			n := open(t, o)
			ctx := t.Context()
			rev := must[uint64](t)(n.Create(ctx, testKey, []byte("x"), 3*time.Second))
			for range 5 {
				time.Sleep(2 * time.Second)
				rev = must[uint64](t)(n.Update(ctx, testKey, []byte("x"), rev, 3*time.Second))
			}
			time.Sleep(2 * time.Second)
			if _, _, err := n.Get(ctx, testKey); err != nil {
				t.Errorf("get 2 s after a refresh for 3 s: %v", err)
			}
			time.Sleep(3 * time.Second)
			_, _, err := n.Get(ctx, testKey)
			wantErr(t, "get 5 s after a refresh for 3 s", err, store.ErrNotFound)
			_, err = n.Update(ctx, testKey, []byte("x"), rev, 3*time.Second)
			wantErr(t, "update after expiry", err, store.ErrConflict)
			must[uint64](t)(n.Create(ctx, testKey, []byte("x"), 3*time.Second))
			must[uint64](t)(n.Create(ctx, "session.anon.demo.s2", []byte("x"), 0))
			time.Sleep(time.Hour)
			if _, _, err := n.Get(ctx, "session.anon.demo.s2"); err != nil {
				t.Errorf("get of a record without a lifetime: %v", err)
			}
			if got := countMessages(t, n, "sessions"); got != 1 {
				t.Errorf("messages: got %d, want 1", got)
			}
		})
	})
}

func TestDeleteLeavesNothing(t *testing.T) {
	stores(t, func(t *testing.T, o Options) {
		bubble.Test(t, func(t *testing.T) {
			n := open(t, o)
			ctx := t.Context()
			for _, key := range []string{testKey, "session.anon.demo.s2", "keys.7", "nodes.gone"} {
				rev := must[uint64](t)(n.Create(ctx, key, []byte("x"), time.Hour))
				if err := n.Delete(ctx, key, rev); err != nil {
					t.Error(err)
				}
			}
			if err := n.Delete(ctx, "session.anon.demo.never", 0); err != nil {
				t.Error(err)
			}
			time.Sleep(20 * time.Second)
			for stream, want := range map[string]uint64{"sessions": 0, "keys": 1, "nodes": 1} {
				if got := countMessages(t, n, stream); got != want {
					t.Errorf("messages in %s after the markers expired: got %d, want %d", stream, got, want)
				}
			}
		})
	})
}

func TestRecordRefusals(t *testing.T) {
	t.Parallel()
	n := open(t, Options{})
	ctx := t.Context()
	for _, key := range []string{"", "session", "session.a.b", "session.a.b.c.d", "session.a.b.", "session..b.c", "session.a.b.*", "session.a.b.>",
		"session.a.b.c d", "session.a.b.c\r\n", "nodes.*", "nodes.a.b", "other.a.b.c", "ev.a.b.c.d.open", "session.a.b." + strings.Repeat("x", 300)} {
		_, _, err := n.Get(ctx, key)
		wantErr(t, "get "+key, err, store.ErrBadKey)
		_, err = n.Create(ctx, key, nil, time.Hour)
		wantErr(t, "create "+key, err, store.ErrBadKey)
		_, err = n.Update(ctx, key, nil, 1, time.Hour)
		wantErr(t, "update "+key, err, store.ErrBadKey)
		wantErr(t, "delete "+key, n.Delete(ctx, key, 0), store.ErrBadKey)
	}
	_, err := n.Create(ctx, testKey, make([]byte, MaxRecord+1), time.Hour)
	wantErr(t, "create too big", err, store.ErrTooBig)
	big := bytes.Repeat([]byte("x"), MaxRecord)
	rev := must[uint64](t)(n.Create(ctx, testKey, big, time.Hour))
	if data, _, err := n.Get(ctx, testKey); err != nil || !bytes.Equal(data, big) {
		t.Errorf("get of the biggest record: %d bytes, %v", len(data), err)
	}
	_, err = n.Update(ctx, testKey, make([]byte, MaxRecord+1), rev, time.Hour)
	wantErr(t, "update too big", err, store.ErrTooBig)

	// Records that a newer release wrote, or no release.
	for _, c := range []struct {
		payload string
		want    error
	}{{"\x02new", store.ErrNewer}, {"\x00", store.ErrDamaged}} {
		key := "session.anon.demo.x" + string('a'+c.payload[0])
		must[uint64](t)(n.putMessage(ctx, n.subjectOf(key), []byte(c.payload), 0, guard{}))
		_, _, err := n.Get(ctx, key)
		wantErr(t, "get", err, c.want)
		_, err = n.Create(ctx, key, nil, time.Hour)
		wantErr(t, "create over it", err, store.ErrConflict)
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	_, _, err = n.Get(done, testKey)
	wantErr(t, "get with an ended context", err, store.ErrUnavailable)
	wantErr(t, "get with an ended context", err, context.Canceled)
}

// TestFullStore checks that a full store refuses writes, keeps what it has, and still
// deletes and refreshes.
func TestFullStore(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, o Options) {
		o.MaxStore = minStore
		n := open(t, o)
		ctx := t.Context()
		key := func(i int) string { return "session.anon.demo.s" + string(rune('a'+i)) }
		var revs []uint64
		for {
			rev, err := n.Create(ctx, key(len(revs)), make([]byte, 20<<10), time.Hour)
			if err != nil {
				wantErr(t, "create in a full store", err, store.ErrFull)
				break
			}
			revs = append(revs, rev)
			if len(revs) > 20 {
				t.Fatal("the store never got full")
			}
		}
		rev, err := n.Update(ctx, key(0), make([]byte, 20<<10), revs[0], time.Hour)
		if err != nil {
			t.Errorf("refresh in a full store: %v", err)
		}
		_, err = n.Update(ctx, key(0), make([]byte, 100<<10), rev, time.Hour)
		wantErr(t, "growing a record in a full store", err, store.ErrFull)

		rev = must[uint64](t)(n.OpenStream(ctx, testStream, []byte("w"), nil, time.Hour))
		num := uint64(1)
		for ; num < 20; num++ {
			if err = appendWait(n, testStream, rev, num, make([]byte, 100<<10)); err != nil {
				break
			}
		}
		wantErr(t, "append in a full store", err, store.ErrFull)
		if got, err := readEvents(ctx, n, testStream, 1, num); err != nil || len(got) != int(num-1) {
			t.Errorf("read of a full store: got %d appends, %v, want %d", len(got), err, num-1)
		}
		if err := appendWait(n, testStream, rev, 1, nil); err != nil {
			t.Errorf("emptying a slot in a full store: %v", err)
		}
		if err := appendWait(n, testStream, rev, num, make([]byte, 50<<10)); err != nil {
			t.Errorf("append after a slot was emptied: %v", err)
		}
		// The lease and the keys have budgets of their own.
		if err := n.lease.confirmRenewal(ctx); err != nil {
			t.Errorf("renew in a full store: %v", err)
		}
		must[[]byte](t)(n.Keys().Seal([]byte("x"), nil))

		// Small records fill the rest first, so that a tombstone has no room.
		for i := 0; i < 3000; i++ {
			if _, err = n.Create(ctx, "session.t.s."+strings.Repeat("x", 20)+string(rune('a'+i%26))+string(rune('a'+i/26%26))+string(rune('a'+i/676)), nil, 0); err != nil {
				break
			}
		}
		wantErr(t, "tiny record in a full store", err, store.ErrFull)
		if err := n.Delete(ctx, "session.t.s."+strings.Repeat("x", 20)+"aaa", 0); err != nil {
			t.Errorf("delete in a full store: %v", err)
		}
		if err := n.EndStream(ctx, testStream); err != nil {
			t.Errorf("end of a stream in a full store: %v", err)
		}
		s := n.collectStats(t.Context())
		if s.AppendFull == 0 || s.MaxBytes > uint64(o.MaxStore) || s.Streams["sessions"].Bytes > s.Streams["sessions"].MaxBytes {
			t.Errorf("stats: %+v", s)
		}
	})
}

// TestNotThereIsAWrite has a leader that was replaced answer reads, as one does for up to 20 s until it notices: nothing is missing because that one
// does not have it. On servers that agree, what is not there leaves a tombstone under the very key, and one only.
func TestNotThereIsAWrite(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	n, other := open(t, Options{}), open(t, Options{})
	by := func(writes, reads *Node) *Node { // what a node of replicated servers is that writes and reads by way of these
		return joinParts(&wire{opts: n.opts, prefix: n.prefix, kinds: n.kinds, shards: n.shards, log: n.log, outages: n.outages, replicas: 3, acks: writes.acks, reads: reads.reads, logReads: reads.logReads})
	}
	const there, none = "session.a.s.there", "session.a.s.none"
	rev := must[uint64](t)(n.Create(ctx, there, []byte("x"), time.Hour))
	writer := must[uint64](t)(n.OpenStream(ctx, testStream, []byte("{}"), nil, time.Hour))

	behind := by(n, other)
	_, _, err := behind.Get(ctx, there)
	wantErr(t, "get by way of a leader that was replaced", err, store.ErrUnavailable)
	if errors.Is(err, store.ErrConflict) {
		t.Errorf("it is a conflict, too: %v", err)
	}
	_, _, err = behind.Peek(ctx, there)
	wantErr(t, "peek there", err, store.ErrNotFound)
	_, _, err = behind.Writer(ctx, testStream)
	wantErr(t, "writer by way of a leader that was replaced", err, store.ErrUnavailable)
	wantErr(t, "whether the writer is the same", behind.Holds(ctx, testStream, writer), nil)
	wantErr(t, "whether an earlier writer is the same", behind.Holds(ctx, testStream, writer-1), store.ErrFenced)
	wantErr(t, "the same of a server alone", n.Holds(ctx, testStream, writer), nil)
	wantErr(t, "and of an earlier writer", n.Holds(ctx, testStream, writer-1), store.ErrFenced)
	if _, now, err := n.Get(ctx, there); err != nil || now != rev {
		t.Errorf("the record has revision %d after that, %v, want %d", now, err, rev)
	}

	agreed := by(n, n)
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if _, _, err := agreed.Get(ctx, none); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("a record that nobody has made: %v", err)
			}
		})
	}
	all.Wait()
	if s, err := n.lastMessage(ctx, n.streamName("sessions"), n.subjectOf(none)); err != nil || len(s.data) > 0 {
		t.Errorf("what is left of it: %q, %v, want a tombstone", s.data, err)
	}
	before := agreed.Concluded()
	for range 10 {
		_, _, err = agreed.Get(ctx, none)
		wantErr(t, "the same once more", err, store.ErrNotFound)
	}
	if writes := agreed.Concluded() - before; writes > 0 {
		t.Errorf("%d writes for a tombstone that is there", writes)
	}
	if _, err := agreed.Create(ctx, none, []byte("y"), time.Hour); err != nil {
		t.Errorf("create over what says that there is nothing: %v", err)
	}
	if data, _, err := agreed.Get(ctx, none); err != nil || string(data) != "y" {
		t.Errorf("what was created then: %q, %v", data, err)
	}

	// A writer may store its record again: a tombstone says only that nothing was there.
	const gone = "a.s.x.gone"
	for range 2 {
		before = agreed.Concluded()
		_, _, err = agreed.Writer(ctx, gone)
		wantErr(t, "writer of a stream that nobody has begun", err, store.ErrNotFound)
		if writes := agreed.Concluded() - before; writes != 1 {
			t.Errorf("that cost %d writes, want 1", writes)
		}
	}
	rev = must[uint64](t)(agreed.OpenStream(ctx, gone, []byte("{}"), nil, time.Hour))
	if _, now, err := agreed.Writer(ctx, gone); err != nil || now != rev {
		t.Errorf("the record of a stream that was begun since has revision %d, %v, want %d", now, err, rev)
	}

	// A store that takes no writes says nothing.
	full := by(n, n)
	full.acks = other.acks // which has no such stream
	full.prefix = "elsewhere."
	_, _, err = full.Get(ctx, none)
	wantErr(t, "get where nothing can be stored", err, store.ErrUnavailable)
}
