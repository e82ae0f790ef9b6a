package cluster

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupe-run/troupe/internal/bubble"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/test/kit/when"
)

const testStream = "anon.demo.s1.st1"

func numbers(stored []event) (nums []uint64) {
	for _, s := range stored {
		nums = append(nums, s.Num)
	}
	return nums
}

func span(from, to uint64) (nums []uint64) {
	for ; from <= to; from++ {
		nums = append(nums, from)
	}
	return nums
}

// fill appends from..to; the data of each append is its number.
func fill(t *testing.T, n *Node, stream string, rev, from, to uint64) {
	t.Helper()
	for num := from; num <= to; num++ {
		if err := appendWait(n, stream, rev, num, strconv.AppendUint(nil, num, 10)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRing(t *testing.T) {
	when.Unraced(t, "one goroutine does all of it")
	t.Parallel()
	stores(t, func(t *testing.T, o Options) {
		n := open(t, o)
		ctx := t.Context()
		tail := func(hint, want uint64) {
			t.Helper()
			if got, err := n.Tail(ctx, testStream, hint); err != nil || got != want {
				t.Errorf("tail from %d: got %d, %v, want %d", hint, got, err, want)
			}
			// Without reading the appends between it is the last one less than a round away, or a later one.
			if got, err := (tailFinder{n.logReader}).lastInRing(ctx, testStream, hint); err != nil || got > want || got < min(want, hint+RingSize-1) {
				t.Errorf("last append in the ring from %d: got %d, %v, want %d", hint, got, err, want)
			}
		}
		read := func(from, to uint64, want []uint64) {
			t.Helper()
			got, err := readEvents(ctx, n, testStream, from, to)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(numbers(got), want); d != "" {
				t.Errorf("read %d..%d (-got +want):\n%s", from, to, d)
			}
			for _, s := range got {
				if string(s.Data) != strconv.FormatUint(s.Num, 10) {
					t.Errorf("data of append %d: got %q", s.Num, s.Data)
				}
			}
		}
		rev := must[uint64](t)(n.OpenStream(ctx, testStream, []byte("w"), nil, time.Hour))
		tail(0, 0)
		read(1, 10, nil)
		fill(t, n, testStream, rev, 1, 1)
		tail(0, 1)
		fill(t, n, testStream, rev, 2, 700)
		tail(0, 700)
		tail(650, 700)
		tail(700, 700)
		read(1, 700, span(1, 700))
		read(0, 3, span(1, 3))
		read(5, 4, nil)
		fill(t, n, testStream, rev, 701, 1300)
		tail(0, 1300)
		tail(299, 1300)
		tail(1299, 1300)
		tail(1300, 1300)
		tail(1100, 1300)
		tail(301, 1300)
		read(1, 1300, span(301, 1300))
		read(250, 310, span(301, 310))
		read(1290, 1300, span(1290, 1300))
		for num := uint64(301); num <= 310; num++ {
			if err := appendWait(n, testStream, rev, num, nil); err != nil {
				t.Fatal(err)
			}
		}
		read(299, 320, span(311, 320))
		tail(0, 1300)
		if got := countMessages(t, n, "events"); got != RingSize+1 {
			t.Errorf("messages: got %d, want %d", got, RingSize+1)
		}
		if err := n.EndStream(ctx, testStream); err != nil {
			t.Error(err)
		}
		read(301, 1300, nil)
		wantErr(t, "append after the end", appendWait(n, testStream, rev, 1301, nil), store.ErrFenced)
		if err := n.EndStream(ctx, testStream); err != nil {
			t.Errorf("second end: %v", err)
		}
	})
}

// TestAppendsExpire checks that appends expire, oldest first, and that the tail is found
// however many are gone.
func TestAppendsExpire(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	stores(t, func(t *testing.T, o Options) {
		o.EventAge = 10 * time.Second
		o.Lease = time.Minute // renewals are not the subject
		bubble.Test(t, func(t *testing.T) {
			n := open(t, o)
			ctx := t.Context()
			rev := must[uint64](t)(n.OpenStream(ctx, testStream, []byte("w"), []byte("body"), time.Minute))
			fill(t, n, testStream, rev, 1, 200)
			time.Sleep(6 * time.Second)
			fill(t, n, testStream, rev, 201, 300)
			time.Sleep(6 * time.Second)
			got := must[[]event](t)(readEvents(ctx, n, testStream, 1, 300))
			if d := cmp.Diff(numbers(got), span(201, 300)); d != "" {
				t.Errorf("read (-got +want):\n%s", d)
			}
			for _, hint := range []uint64{0, 1, 10, 150, 199, 200, 299, 300} {
				if tail, err := n.Tail(ctx, testStream, hint); err != nil || tail != 300 {
					t.Errorf("tail from %d: got %d, %v, want 300", hint, tail, err)
				}
			}
			time.Sleep(10 * time.Second)
			if tail, err := n.Tail(ctx, testStream, 300); err != nil || tail != 300 {
				t.Errorf("tail of an expired log: got %d, %v, want the hint", tail, err)
			}
			if got := must[[]event](t)(readEvents(ctx, n, testStream, 1, 300)); len(got) != 0 {
				t.Errorf("read of an expired log: got %v", numbers(got))
			}
			fill(t, n, testStream, rev, 301, 301)
			time.Sleep(time.Hour)
			wantErr(t, "append after the writer record expired", appendWait(n, testStream, rev, 302, nil), store.ErrFenced)
			if got := countMessages(t, n, "events"); got != 0 {
				t.Errorf("messages after everything expired: got %d, want 0", got)
			}
		})
	})
}

// TestBodyWhosePartsDoNotFit checks that a body with a part of another body, as after the
// loss of its writer between two parts, counts as no body.
func TestBodyWhosePartsDoNotFit(t *testing.T) {
	t.Parallel()
	n := open(t, Options{})
	ctx := t.Context()
	const size = 2*bodyPart + 10
	for i, part := range []struct{ total, bytes int }{
		{size + 1, bodyPart}, {bodyPart, bodyPart}, {0, 0}, {size, 0}, {size, bodyPart + 11}, {MaxBody + 1, bodyPart},
	} {
		stream := fmt.Sprintf("anon.demo.s1.p%d", i)
		rev := must[uint64](t)(n.OpenStream(ctx, stream, []byte("w"), make([]byte, size), time.Hour))
		payload := binary.BigEndian.AppendUint32([]byte{recordVersion}, uint32(part.total))
		payload = append(payload, make([]byte, part.bytes)...)
		g := guard{subject: n.eventSubject(stream, "open"), seq: rev}
		must[uint64](t)(n.putMessage(ctx, n.eventSubject(stream, bodyLeaf(1)), payload, time.Hour, g))
		body, err := n.Body(ctx, stream)
		wantErr(t, fmt.Sprintf("%d bytes of %d beside those of %d: %d bytes", part.bytes, part.total, size, len(body)), err, store.ErrDamaged)
	}
}

func TestBody(t *testing.T) {
	when.Unraced(t, "one goroutine does all of it")
	t.Parallel()
	stores(t, func(t *testing.T, o Options) {
		n := open(t, o)
		ctx := t.Context()
		sizes := []int{0, 1, bodyPart - 1, bodyPart, bodyPart + 1, 4 << 20}
		if testing.Short() {
			sizes = sizes[:5]
		}
		for i, size := range sizes {
			stream := fmt.Sprintf("anon.demo.s1.b%d", i)
			body := make([]byte, size)
			for i := range body {
				body[i] = byte(i * 7)
			}
			rev := must[uint64](t)(n.OpenStream(ctx, stream, []byte("w"), body, time.Hour))
			if got, err := n.Body(ctx, stream); err != nil || !bytes.Equal(got, body) {
				t.Errorf("body of %d bytes: got %d bytes, %v", size, len(got), err)
			}
			next := must[uint64](t)(n.Rewrite(ctx, stream, []byte("w2"), rev, time.Hour))
			if got, err := n.Body(ctx, stream); err != nil || !bytes.Equal(got, body) {
				t.Errorf("body of %d bytes after a takeover: got %d bytes, %v", size, len(got), err)
			}
			for what, again := range map[string][]byte{"renewed": nil, "stored again": body} {
				if err := n.KeepBody(ctx, stream, again, next, time.Hour); err != nil {
					t.Errorf("body of %d bytes is not %s: %v", size, what, err)
				}
				if got, err := n.Body(ctx, stream); err != nil || !bytes.Equal(got, body) {
					t.Errorf("body of %d bytes, %s: got %d bytes, %v", size, what, len(got), err)
				}
				wantErr(t, "body kept by the old writer", n.KeepBody(ctx, stream, again, rev, time.Hour), store.ErrFenced)
			}
			wantErr(t, "body of the old writer", n.putBody(ctx, stream, []byte("no"), rev, time.Hour), store.ErrFenced)
			if err := n.EndStream(ctx, stream); err != nil {
				t.Error(err)
			}
			_, err := n.Body(ctx, stream)
			wantErr(t, "body after the end", err, store.ErrNotFound)
		}
		_, err := n.OpenStream(ctx, testStream, nil, make([]byte, MaxBody+1), time.Hour)
		wantErr(t, "body too big", err, store.ErrTooBig)
		_, _, err = n.Writer(ctx, testStream)
		wantErr(t, "writer after a refused open", err, store.ErrNotFound)
		must[uint64](t)(n.OpenStream(ctx, testStream, nil, nil, time.Hour))
		_, err = n.Body(ctx, testStream)
		wantErr(t, "no body", err, store.ErrNotFound)
		wantErr(t, "no body to keep", n.KeepBody(ctx, testStream, nil, 1, time.Hour), store.ErrNotFound)
		_, err = n.OpenStream(ctx, testStream, nil, nil, time.Hour)
		wantErr(t, "open twice", err, store.ErrConflict)
	})
}

// TestKeepBodyRenews checks that KeepBody renews the lifetime of the body as Rewrite renews
// that of the record.
func TestKeepBodyRenews(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := open(t, Options{})
		ctx := t.Context()
		rev := must[uint64](t)(n.OpenStream(ctx, testStream, []byte("w"), make([]byte, bodyPart+1), 10*time.Second))
		for i := range 5 {
			time.Sleep(6 * time.Second)
			rev = must[uint64](t)(n.Rewrite(ctx, testStream, []byte{byte(i)}, rev, 10*time.Second))
			if err := n.KeepBody(ctx, testStream, nil, rev, 10*time.Second); err != nil {
				t.Error(err)
			}
		}
		if body, err := n.Body(ctx, testStream); err != nil || len(body) != bodyPart+1 {
			t.Errorf("body: got %d bytes, %v", len(body), err)
		}
		rec, got, err := n.Writer(ctx, testStream)
		if err != nil || got != rev || !bytes.Equal(rec, []byte{4}) {
			t.Errorf("writer: got %v, %d, %v, want [4], %d", rec, got, err, rev)
		}
		time.Sleep(12 * time.Second)
		_, _, err = n.Writer(ctx, testStream)
		wantErr(t, "writer after expiry", err, store.ErrNotFound)
		_, err = n.Rewrite(ctx, testStream, nil, rev, time.Minute)
		wantErr(t, "rewriting after expiry", err, store.ErrConflict)
		wantErr(t, "keeping the body after expiry", n.KeepBody(ctx, testStream, []byte("b"), rev, time.Minute), store.ErrFenced)
		if got := countMessages(t, n, "events"); got != 0 {
			t.Errorf("messages: got %d, want 0", got)
		}
	})
}

// TestFence checks invariant I3 at the store: after a takeover the store accepts nothing of
// the old writer, and nobody can read what it refused.
func TestFence(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, o Options) {
		n := open(t, o)
		m := joined(t, n, "other")
		ctx := t.Context()
		for round := range 30 {
			stream := fmt.Sprintf("anon.demo.s1.f%d", round)
			rev := must[uint64](t)(n.OpenStream(ctx, stream, []byte("1"), nil, time.Hour))
			var old uint64 // highest number that the store accepted from the old writer
			var wg sync.WaitGroup
			started := make(chan struct{})
			wg.Go(func() {
				for num := uint64(1); ; num++ {
					err := appendWait(n, stream, rev, num, []byte("old"))
					if num == uint64(1+round) {
						close(started)
					}
					if err != nil {
						wantErr(t, "append of the old writer", err, store.ErrFenced)
						return
					}
					old = num
				}
			})
			<-started
			rev2 := must[uint64](t)(m.Rewrite(ctx, stream, []byte("2"), rev, time.Hour))
			tail := must[uint64](t)(m.Tail(ctx, stream, 0))
			fill(t, m, stream, rev2, tail+1, tail+5)
			wg.Wait()
			if old != tail {
				t.Errorf("last accepted append of the old writer: got %d, the taker's tail is %d", old, tail)
			}
			for _, num := range []uint64{tail, tail + 1, tail + 6, tail + 7} {
				wantErr(t, "zombie", appendWait(n, stream, rev, num, []byte("zombie")), store.ErrFenced)
			}
			got := must[[]event](t)(readEvents(ctx, m, stream, 1, tail+5))
			if d := cmp.Diff(numbers(got), span(max(tail+5, RingSize)-RingSize+1, tail+5)); d != "" { // without what has left the ring
				t.Errorf("read (-got +want):\n%s", d)
			}
			if i := slices.IndexFunc(got, func(s event) bool { return string(s.Data) == "zombie" }); i >= 0 {
				t.Errorf("append %d of the zombie is readable", got[i].Num)
			}
			if end := must[uint64](t)(m.Tail(ctx, stream, tail)); end != tail+5 {
				t.Errorf("tail: got %d, want %d", end, tail+5)
			}
			_, err := n.Rewrite(ctx, stream, []byte("3"), rev, time.Hour)
			wantErr(t, "rewriting with the old revision", err, store.ErrConflict)
		}
	})
}

func TestAppendRefusals(t *testing.T) {
	t.Parallel()
	n := open(t, Options{})
	ctx := t.Context()
	rev := must[uint64](t)(n.OpenStream(ctx, testStream, nil, nil, time.Hour))
	for _, c := range []struct {
		what     string
		stream   string
		rev, num uint64
		size     int
		want     error
	}{
		{"too big", testStream, rev, 1, MaxAppend + 1, store.ErrTooBig},
		{"number 0", testStream, rev, 0, 1, store.ErrBadKey},
		{"no revision", testStream, 0, 1, 1, store.ErrFenced},
		{"wrong revision", testStream, rev + 1, 1, 1, store.ErrFenced},
		{"other stream", "anon.demo.s1.other", rev, 1, 1, store.ErrFenced},
		{"wildcard", "anon.demo.s1.*", rev, 1, 1, store.ErrBadKey},
		{"missing token", "anon.demo.s1", rev, 1, 1, store.ErrBadKey},
	} {
		wantErr(t, c.what, appendWait(n, c.stream, c.rev, c.num, make([]byte, c.size)), c.want)
	}
	if err := appendWait(n, testStream, rev, 1, make([]byte, MaxAppend)); err != nil {
		t.Errorf("biggest append: %v", err)
	}
	_, err := readEvents(ctx, n, "a.b.c", 1, 2)
	wantErr(t, "read", err, store.ErrBadKey)
	_, err = n.Tail(ctx, "a.b.c.>", 0)
	wantErr(t, "tail", err, store.ErrBadKey)
	_, _, err = n.Writer(ctx, "a.b.c.")
	wantErr(t, "writer", err, store.ErrBadKey)
	_, err = n.Body(ctx, "a.b")
	wantErr(t, "body", err, store.ErrBadKey)
	_, err = n.Rewrite(ctx, "a..c.d", nil, 1, 0)
	wantErr(t, "take", err, store.ErrBadKey)
	wantErr(t, "end", n.EndStream(ctx, "*.*.*.*"), store.ErrBadKey)

	// An append of a newer release is refused, and not mistaken for a missing one.
	must[uint64](t)(n.putMessage(ctx, n.eventSubject(testStream, "2"), []byte("\x02\x00\x00\x00\x00\x00\x00\x00\x02"), 0, guard{}))
	_, err = readEvents(ctx, n, testStream, 1, 2)
	wantErr(t, "read", err, store.ErrNewer)
	_, err = n.Tail(ctx, testStream, 1)
	wantErr(t, "tail", err, store.ErrNewer)
}

// TestReadBigAppends checks that big appends come back complete, and that the end of their log is found though it
// is not read for that.
func TestReadBigAppends(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, o Options) {
		n := open(t, o)
		rev := must[uint64](t)(n.OpenStream(t.Context(), testStream, nil, nil, time.Hour))
		const count = 17
		for num := uint64(1); num <= count; num++ {
			if err := appendWait(n, testStream, rev, num, bytes.Repeat([]byte{byte(num)}, MaxAppend)); err != nil {
				t.Fatal(err)
			}
		}
		got := must[[]event](t)(readEvents(t.Context(), n, testStream, 1, count))
		if d := cmp.Diff(numbers(got), span(1, count)); d != "" {
			t.Errorf("read (-got +want):\n%s", d)
		}
		for _, s := range got {
			if len(s.Data) != MaxAppend || s.Data[MaxAppend/2] != byte(s.Num) {
				t.Errorf("data of append %d is not what was appended", s.Num)
			}
		}
		if _, enough, err := (tailFinder{n.logReader}).findNewest(t.Context(), testStream, 1); err != nil || enough {
			t.Errorf("large appends are all read for their numbers, %v", err)
		}
		for _, hint := range []uint64{0, 1, count - 1, count} {
			if tail := must[uint64](t)(n.Tail(t.Context(), testStream, hint)); tail != count {
				t.Errorf("the tail from %d is %d, want %d", hint, tail, count)
			}
		}
	})
}

// TestReadAsksTheLeader checks that appends do not count as gone because a replica lacks
// them.
func TestReadAsksTheLeader(t *testing.T) {
	t.Parallel()
	n := open(t, Options{})
	ctx := t.Context()
	rev := must[uint64](t)(n.OpenStream(ctx, testStream, nil, nil, time.Hour))
	fill(t, n, testStream, rev, 1, 20)
	for _, have := range [][]uint64{nil, {1, 2, 3}, {5, 6, 7}, {20}} {
		slots := make([]event, 20)
		for _, num := range have {
			slots[num-1] = event{num, []byte("x")}
		}
		if err := n.recheckMissing(ctx, testStream, 1, slots); err != nil {
			t.Fatal(err)
		}
		for i, s := range slots {
			if s.Num != uint64(i+1) {
				t.Errorf("with %v from the replica: append %d is missing", have, i+1)
			}
		}
	}
	if _, err := n.readSlot(ctx, testStream, 21); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("slot of an append that was never made: %v", err)
	}

	// The whole way: a subscriber that has no data answers in place of the stream, which counts as one with replicas.
	n.replicas = 3
	c := n.streamConfig(&kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == events })])
	c.AllowDirect = false
	must[jetstream.Stream](t)(must[jetstream.JetStream](t)(jetstream.New(n.conn)).UpdateStream(ctx, c))
	must[*nats.Subscription](t)(n.conn.Subscribe("$JS.API.DIRECT.GET.events", func(m *nats.Msg) {
		_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"404"}}})
	}))
	if err := n.conn.Flush(); err != nil { // the read comes on another connection
		t.Fatal(err)
	}
	got := must[[]event](t)(readEvents(ctx, n, testStream, 1, 20))
	if d := cmp.Diff(numbers(got), span(1, 20)); d != "" {
		t.Errorf("read behind a replica that has nothing (-got +want):\n%s", d)
	}
	if tail, err := n.Tail(ctx, testStream, 4); err != nil || tail != 20 {
		t.Errorf("tail behind a replica that has nothing: got %d, %v, want 20", tail, err)
	}
}
