package cluster

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/bubble"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
)

// eventually waits for something that happens only in real time, on a disk.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	late := time.After(time.Minute)
	for !f() {
		select {
		case <-late:
			t.Fatalf("not within a minute: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestFullDisk checks that the node reports a full disk, and that the store goes on by
// itself when there is room, under the same boot, with everything that was
// acknowledged.
func TestFullDisk(t *testing.T) {
	when.Long(t, "it fills a disk")
	t.Parallel()
	disk := kit.SmallDisk(t, 48<<20)
	n := open(t, Options{Dir: disk + "/data", MaxStore: 1 << 30})
	boot := n.Boot()
	must[uint64](t)(n.Create(t.Context(), testKey, []byte("x"), time.Hour))
	sealed := must[[]byte](t)(n.Keys().Seal([]byte("secret"), nil))

	const streams = 8
	var acked [streams]atomic.Uint64
	end := make(chan struct{})
	var wg sync.WaitGroup
	for i := range streams {
		name := testStream + strconv.Itoa(i)
		rev := must[uint64](t)(n.OpenStream(t.Context(), name, []byte("w"), nil, time.Hour))
		wg.Go(func() {
			for num := uint64(1); num < RingSize; num++ {
				data := strconv.AppendUint(make([]byte, 0, 4096), num, 10)
				err := appendWait(n, name, rev, num, data[:cap(data)])
				for ; err != nil; err = appendWait(n, name, rev, num, data[:cap(data)]) {
					if !errors.Is(err, store.ErrRetry) && !errors.Is(err, store.ErrUnavailable) {
						t.Errorf("append %d to %s: %v", num, name, err)
						return
					}
					<-time.After(50 * time.Millisecond) // as long as the writer of a stream pauses between its attempts
				}
				acked[i].Store(num)
				select {
				case <-end:
					return
				case <-time.After(5 * time.Millisecond):
				}
			}
		})
	}
	least := func(than uint64) func() bool {
		return func() bool {
			for i := range acked {
				if acked[i].Load() < than {
					return false
				}
			}
			return true
		}
	}
	eventually(t, "20 appends to each stream", least(20))
	if o := n.Outage(); o != nil {
		t.Fatalf("before the disk is full: %v", o)
	}
	room := kit.FillDisk(t, disk)
	eventually(t, "the full disk is told", func() bool { return n.Outage() != nil })
	if o := n.Outage(); !o.Full || time.Since(o.Since) > time.Minute || o.String() != "the disk of the store is full" {
		t.Errorf("outage: %+v, %s", o, o)
	}
	_, err := n.Create(t.Context(), testKey+"2", []byte("x"), time.Hour)
	wantErr(t, "create while the disk is full", err, store.ErrRetry)
	room()
	eventually(t, "the store writes again", func() bool { return n.Outage() == nil })
	var before [streams]uint64
	for i := range acked {
		before[i] = acked[i].Load()
	}
	eventually(t, "20 more appends to each stream", func() bool {
		for i := range acked {
			if now := acked[i].Load(); now < before[i]+20 && now < RingSize-1 {
				return false
			}
		}
		return true
	})
	close(end)
	wg.Wait()
	for i := range acked {
		name, want := testStream+strconv.Itoa(i), acked[i].Load()
		if tail, err := n.Tail(t.Context(), name, 0); err != nil || tail != want {
			t.Errorf("tail of %s: got %d, %v, want %d", name, tail, err, want)
		}
		got := must[[]event](t)(readEvents(t.Context(), n, name, 1, want))
		if fmt.Sprint(numbers(got)) != fmt.Sprint(span(1, want)) {
			t.Errorf("read of %s: got %v, want 1 to %d", name, numbers(got), want)
		}
	}
	if _, _, err := n.Get(t.Context(), testKey); err != nil {
		t.Errorf("a record from before: %v", err)
	}
	if plain, err := n.Keys().Open(sealed, nil); err != nil || string(plain) != "secret" {
		t.Errorf("open: %q, %v", plain, err)
	}
	eventually(t, "the lease is renewed", func() bool { return !n.Suspended() })
	if e, ok := n.entry(t, n.Name()); !ok || e.Boot != boot || n.Boot() != boot {
		t.Errorf("entry %+v, there %v, want boot %s", e, ok, boot)
	}
	if s := n.Stats(); s.Restarts == 0 {
		t.Errorf("stats: %+v, want a restart", s)
	}
}

// TestCloseOnAFullDisk checks that Close does not wait for a disk that stays full.
func TestCloseOnAFullDisk(t *testing.T) {
	bubble.Test(t, closeOnAFullDisk)
}

func closeOnAFullDisk(t *testing.T) {
	disk := kit.SmallDisk(t, 24<<20)
	n := must[*Node](t)(Open(t.Context(), Options{Dir: disk + "/data"}))
	rev := must[uint64](t)(n.OpenStream(t.Context(), testStream, []byte("w"), nil, time.Hour))
	room := kit.FillDisk(t, disk)
	num := uint64(0)
	eventually(t, "the full disk is told", func() bool {
		num++
		n.Append(testStream, rev, num, make([]byte, 64<<10), func(error) {})
		return n.Outage() != nil
	})
	_ = n.Close(t.Context()) // It may say that the entry could not be deleted.
	if _, err := Open(t.Context(), Options{Dir: disk + "/data"}); err == nil || errors.Is(err, store.ErrDamaged) {
		t.Errorf("open on a full disk: %v, want an error that does not say damaged", err)
	}
	room()
	n = open(t, Options{Dir: disk + "/data"})
	if _, _, err := n.Writer(t.Context(), testStream); err != nil {
		t.Errorf("after that: %v", err)
	}
}
