package cluster

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/troupe-run/troupe/internal/bubble"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
)

func TestKeyring_sealAndOpen(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, o Options) {
		n := open(t, o)
		m := joined(t, n, "other")
		plain, aad := []byte("who may see this"), []byte("principal 1")
		sealed := must[[]byte](t)(n.Keys().Seal(plain, aad))
		if bytes.Contains(sealed, plain[:8]) {
			t.Error("the sealed text is readable")
		}
		for _, node := range []*Node{n, m} {
			if got, err := node.Keys().Open(sealed, aad); err != nil || !bytes.Equal(got, plain) {
				t.Errorf("open: got %q, %v", got, err)
			}
		}
		again := must[[]byte](t)(m.Keys().Seal(plain, aad))
		if bytes.Equal(sealed, again) {
			t.Error("two seals of the same text are equal")
		}
		if got, err := n.Keys().Open(again, aad); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("open what the other sealed: got %q, %v", got, err)
		}
		for i := range sealed {
			broken := bytes.Clone(sealed)
			broken[i] ^= 0x41
			if _, err := n.Keys().Open(broken, aad); err != store.ErrSealed {
				t.Errorf("byte %d changed: got %v, want exactly ErrSealed", i, err)
			}
			if _, err := n.Keys().Open(sealed[:i], aad); err != store.ErrSealed {
				t.Errorf("cut to %d bytes: got %v, want exactly ErrSealed", i, err)
			}
		}
		if _, err := n.Keys().Open(sealed, []byte("principal 2")); err != store.ErrSealed {
			t.Errorf("for somebody else: got %v, want exactly ErrSealed", err)
		}
	})
}

// TestKeyring_race starts many nodes at once: they end up with keys that open each other's
// seals.
func TestKeyring_race(t *testing.T) {
	t.Parallel()
	n := open(t, Options{})
	rings := []*Keyring{n.Keys(), joined(t, n, "n2").Keys(), joined(t, n, "n3").Keys()}
	sealed := make([][]byte, 30)
	var wg sync.WaitGroup
	for i := range sealed {
		wg.Go(func() {
			var err error
			if sealed[i], err = rings[i%3].Seal([]byte{byte(i)}, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i, s := range sealed {
		for _, r := range rings {
			if got, err := r.Open(s, nil); err != nil || !bytes.Equal(got, []byte{byte(i)}) {
				t.Errorf("seal %d: got %v, %v", i, got, err)
			}
		}
	}
}

func TestKeyring_rotates(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	when.Long(t, "hours of renewals")
	bubble.Test(t, func(t *testing.T) {
		n := open(t, Options{KeyRotate: time.Hour, Lease: time.Hour})
		m := joined(t, n, "other")
		first := must[[]byte](t)(n.Keys().Seal([]byte("1"), nil))
		time.Sleep(59 * time.Minute)
		same := must[[]byte](t)(n.Keys().Seal([]byte("2"), nil))
		if !bytes.Equal(first[:sealHeader], same[:sealHeader]) {
			t.Error("rotated too early")
		}
		time.Sleep(2 * time.Minute)
		second := must[[]byte](t)(n.Keys().Seal([]byte("3"), nil))
		if bytes.Equal(first[:sealHeader], second[:sealHeader]) {
			t.Error("did not rotate")
		}
		for _, s := range [][]byte{first, same, second} {
			if _, err := m.Keys().Open(s, nil); err != nil {
				t.Errorf("open on the other node: %v", err)
			}
		}
		if got := countMessages(t, n, "keys"); got != 3 { // with the key for tags, which stays
			t.Errorf("keys: got %d, want 3", got)
		}
		time.Sleep(47 * time.Hour)
		if _, err := m.Keys().Open(first, nil); err != nil {
			t.Errorf("open 47 h after the rotation: %v", err)
		}
		time.Sleep(3 * time.Hour)
		for _, s := range [][]byte{first, second} {
			for _, node := range []*Node{n, m} {
				if _, err := node.Keys().Open(s, nil); !errors.Is(err, store.ErrSealed) {
					t.Errorf("open long after the rotation: got %v, want ErrSealed", err)
				}
			}
		}
		if got := countMessages(t, n, "keys"); got != 1 {
			t.Errorf("keys after all expired: got %d, want the key for tags alone", got)
		}
		// An epoch is used once; otherwise old seals would pass for new ones.
		fresh := must[[]byte](t)(n.Keys().Seal([]byte("4"), nil))
		if bytes.Compare(fresh[:sealHeader], second[:sealHeader]) <= 0 {
			t.Error("an epoch was used again")
		}
		if got, err := m.Keys().Open(fresh, nil); err != nil || string(got) != "4" {
			t.Errorf("open: got %q, %v", got, err)
		}
	})
}

// TestKeyring_oldKey checks the time in which no new key can be made: the old key seals as
// long as its seals can be opened until they expire, and then no key seals.
func TestKeyring_oldKey(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := open(t, Options{KeyRotate: time.Hour, Lease: time.Hour})
		r := n.Keys()
		must[[]byte](t)(r.Seal([]byte("1"), nil))
		if err := n.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for age, want := range map[time.Duration]error{
			59 * time.Minute: nil,
			2 * time.Hour:    nil,
			time.Hour + keepOldKeys/2 - time.Millisecond: nil,
			time.Hour + keepOldKeys/2:                    store.ErrUnavailable,
			time.Hour + keepOldKeys:                      store.ErrUnavailable,
		} {
			r.mu.Lock()
			key := r.keys[r.current]
			key.created = time.Now().Add(-age)
			r.keys[r.current] = key
			r.mu.Unlock()
			if _, err := r.Seal([]byte("2"), nil); (err == nil) != (want == nil) {
				t.Errorf("a key of %v: %v, want %v", age, err, want)
			}
		}
	})
}

// TestKeyring_unknownKeysShareARead has many goroutines ask at once for keys that the node
// does not know. The node reads the ring once for all that came during a read, so that a
// client cannot cause a read for each key.
func TestKeyring_unknownKeysShareARead(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := open(t, Options{Lease: time.Hour})
		r := n.Keys()
		sealed := must[[]byte](t)(r.Seal([]byte("x"), nil))
		sent := n.reads.sent
		once := requestsOf(t, r)
		before := sent()
		const waits = 10 // more than two reads need
		n.reads.busy(t, waits, func() { time.Sleep(time.Second) })
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				unknown := bytes.Clone(sealed)
				unknown[1], unknown[8] = 1, byte(i)
				if _, err := r.Open(unknown, nil); err != store.ErrSealed {
					t.Errorf("key %d: got %v, want exactly ErrSealed", i, err)
				}
			})
		}
		wg.Wait()
		time.Sleep(waits * time.Second)
		// A read that was under way may have missed a key, so the goroutines that joined it
		// read again.
		if got := sent() - before - waits; got > 2*once {
			t.Errorf("100 unknown keys took %d requests, want at most %d, those of two reads", got, 2*once)
		}
	})
}

// sent is how many requests an inbox has sent.
func (b *inbox) sent() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.token
}

// requestsOf is how many requests a read of the key ring sends.
func requestsOf(t *testing.T, r *Keyring) uint64 {
	t.Helper()
	before := r.records.reads.sent()
	if _, err := r.readKeys(false); err != nil {
		t.Fatal(err)
	}
	return r.records.reads.sent() - before
}

// busy delays the answers of an inbox until wait returns, that many times in a row: a
// request sent meanwhile gets its answer after the next wait.
func (b *inbox) busy(t *testing.T, times int, wait func()) {
	t.Helper()
	_, err := b.sendCall(&nats.Msg{Subject: "nobody.here"}, false, func(*nats.Msg, error) bool {
		if wait(); times > 1 {
			b.busy(t, times-1, wait)
		}
		return false
	})
	if err != nil {
		t.Error(err)
	}
}

// TestKeyring_unknownEpochsCostLittle asks for keys that were never there: those of earlier epochs are refused without a read,
// and those of later ones share a few, however many there are. The key that another node has just made is found meanwhile.
func TestKeyring_unknownEpochsCostLittle(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := open(t, Options{KeyRotate: time.Hour, Lease: time.Hour})
		r := n.Keys()
		sealed := must[[]byte](t)(r.Seal([]byte("x"), nil))
		sent := n.reads.sent
		once := requestsOf(t, r)
		ask := func(by int64) {
			unknown := binary.BigEndian.AppendUint64([]byte{sealVersion}, uint64(int64(binary.BigEndian.Uint64(sealed[1:]))+by))
			if _, err := r.Open(append(unknown, sealed[sealHeader:]...), nil); err != store.ErrSealed {
				t.Errorf("epoch %+d: got %v, want exactly ErrSealed", by, err)
			}
		}
		time.Sleep(time.Second)
		before, start := sent(), time.Now()
		for i := range int64(100) {
			ask(-1 - i)
			time.Sleep(time.Millisecond)
		}
		if got := sent() - before; got > 0 || time.Since(start) > 100*time.Millisecond {
			t.Errorf("earlier epochs took %d requests and %v, want none", got, time.Since(start))
		}
		before, start = sent(), time.Now()
		var wg sync.WaitGroup
		for i := range int64(10) { // each asks again as soon as it has its answer
			wg.Go(func() {
				for k := range int64(20) {
					ask(1 + 20*i + k)
					time.Sleep(time.Millisecond)
				}
			})
		}
		wg.Wait()
		m := joined(t, n, "other")
		if got, reads := sent()-before, uint64(time.Since(start)/lookEvery)+2; got > reads*once {
			t.Errorf("later epochs took %d requests in %v, want at most %d reads of %d", got, time.Since(start), reads, once)
		}
		time.Sleep(61 * time.Minute)
		fresh := must[[]byte](t)(m.Keys().Seal([]byte("y"), nil)) // of an epoch that was asked for above
		start = time.Now()
		if got, err := r.Open(fresh, nil); err != nil || string(got) != "y" || time.Since(start) > lookEvery {
			t.Errorf("open what another node has just sealed: %q, %v after %v", got, err, time.Since(start))
		}
	})
}

// TestKeyringOfAFleet has three nodes seal and open while the key is replaced every minute: what one has sealed any other opens at once, also
// one that began in between, and what was sealed with the keys before stays good.
func TestKeyringOfAFleet(t *testing.T) {
	when.Unraced(t, "half a minute of virtual time under the race detector")
	kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
		begin := func(name string) *Node {
			return open(t, Options{Node: name, KeyRotate: time.Minute, Remote: Remote{URL: v.Line(name).URL()}})
		}
		all := []*Node{begin("a"), begin("b")}
		var sealed [][]byte
		aad := []byte("for")
		epochs := make(map[uint64]bool)
		for minute := range 10 {
			if minute == 5 {
				all = append(all, begin("c"))
			}
			for i, n := range all {
				s, err := n.Keys().Seal(fmt.Appendf(nil, "%d %d", minute, i), aad)
				if err != nil {
					t.Fatalf("minute %d: %s seals: %v", minute, n.name, err)
				}
				sealed = append(sealed, s)
				epochs[binary.BigEndian.Uint64(s[1:])] = true
			}
			for k, s := range sealed {
				for _, n := range all {
					if _, err := n.Keys().Open(s, aad); err != nil {
						t.Errorf("minute %d: %s opens what was sealed as number %d: %v", minute, n.name, k, err)
					}
				}
			}
			time.Sleep(61 * time.Second)
		}
		if n := len(epochs); n != 10 {
			t.Errorf("%d keys sealed in ten minutes, want one a minute for all nodes", n)
		}
	})
}

// TestRingThatCannotBeRead: whatever the reason is, nothing is known of what is sealed, and a client may come again.
func TestRingThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, err := range []error{store.ErrDamaged, store.ErrNewer, store.ErrClosed, fmt.Errorf("whatever")} {
		if got := asUnavailable(err); !errors.Is(got, store.ErrUnavailable) || !errors.Is(got, err) {
			t.Errorf("%v is told as %v", err, got)
		}
	}
}
