package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
)

// TestTailOfAnyLog checks that the end of a log is found from any append of it, whichever of the first have expired,
// and that this takes few reads of it.
func TestTailOfAnyLog(t *testing.T) {
	t.Parallel()
	n := open(t, Options{})
	ctx := t.Context()
	for i, log := range []struct {
		first, last uint64 // that are in the log
		blank       uint64 // one that was made empty late, and outlived those after it
	}{
		{1, 1, 0}, {1, 2, 0}, {1, 3, 0}, {1, 17, 0}, {1, 63, 0}, {1, 64, 0}, {1, 65, 0}, {1, 200, 0}, {1, 511, 0}, {1, 512, 0}, {1, 513, 0}, {1, 999, 0}, {1, 1000, 0},
		{2, 1001, 0}, {700, 1300, 0}, {1200, 1201, 0}, {1290, 2289, 0}, {5, 5, 0}, {70, 70, 0}, {70, 71, 0}, {333, 900, 0}, {2001, 2300, 0},
		{12, 14, 1}, {40, 41, 3}, {200, 230, 3},
	} {
		stream := fmt.Sprintf("anon.demo.s.tail%d", i)
		for _, num := range append(span(log.first, log.last), log.blank) {
			if num == 0 {
				continue
			}
			payload := binary.BigEndian.AppendUint64([]byte{eventVersion}, num)
			if num != log.blank {
				payload = append(payload, "data"...)
			}
			if err := n.conn.Publish(n.eventSubject(stream, strconv.FormatUint(num%RingSize, 10)), payload); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.conn.Flush(); err != nil {
			t.Fatal(err)
		}
		must[uint64](t)(n.putMessage(ctx, n.eventSubject(stream, "open"), []byte("w"), time.Hour, guard{})) // the store has all that was published before
		hints := []uint64{0, 1, 2, log.first - 1, log.first, log.first + 1, log.first + 100, (log.first + log.last) / 2, log.last - 64, log.last - 2, log.last - 1, log.last}
		if log.blank > 0 {
			hints = []uint64{log.blank, log.last}
		}
		slices.Sort(hints)
		for _, hint := range slices.Compact(hints) {
			if hint > log.last {
				continue
			}
			if tail, err := n.Tail(ctx, stream, hint); err != nil || tail != log.last {
				t.Errorf("the tail of %+v from %d: got %d, %v", log, hint, tail, err)
			}
		}
	}
	for hint, most := range map[uint64]uint64{0: 40, 200: 15} {
		before := n.logConn.Stats().InMsgs
		if tail := must[uint64](t)(n.Tail(ctx, "anon.demo.s.tail7", hint)); tail != 200 {
			t.Errorf("the tail is %d", tail)
		}
		if read := n.logConn.Stats().InMsgs - before; read > most {
			t.Errorf("the end of a log of 200 appends was found with %d messages from %d", read, hint)
		}
	}
}

// appendOf returns append num of a log as its writer sends it, but for the guard.
func appendOf(n *Node, log string, num uint64, data []byte) *nats.Msg {
	return &nats.Msg{Subject: n.eventSubject(log, strconv.FormatUint(num%RingSize, 10)), Header: nats.Header{headerTTL: {n.replayTTL}},
		Data: append(binary.BigEndian.AppendUint64([]byte{eventVersion}, num), data...)}
}

// TestTailWhileTheLogExpires has the first appends of a log expire at once, at each moment of a search for its end. What is left has the end.
func TestTailWhileTheLogExpires(t *testing.T) {
	when.Unraced(t, "half a minute of virtual time under the race detector")
	when.Long(t, "many logs")
	kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
		age := time.Hour
		n := open(t, Options{Node: "a", EventAge: age, Remote: Remote{URL: v.Line("a").URL()}})
		kinds := []struct {
			hint, first, early, last uint64 // what is up to early expires
			large                    uint64 // from which on appends are too large to be read for their numbers
		}{
			{0, 1, 605, 620, 1000},        // no probe of the whole ring meets the end
			{1300, 421, 1400, 1420, 1300}, // nor do those among the slots that are listed, and the ring has two rounds
		}
		logs := make([]string, 24)
		fill := func(late bool) {
			for i, log := range logs {
				k := kinds[i%len(kinds)]
				from, to := k.first, k.early
				if late {
					from, to = k.early+1, k.last
				}
				for num := from; num <= to; num++ {
					size := 4
					if num >= k.large {
						size = 17 << 10
					}
					m := appendOf(n, log, num, make([]byte, size))
					if num < to {
						change(t, n.conn.PublishMsg(m))
					} else {
						must[*nats.Msg](t)(n.conn.RequestMsg(m, time.Minute))
					}
				}
			}
		}
		for i := range logs {
			logs[i] = fmt.Sprintf("anon.demo.s.tail%d", i)
		}
		fill(false)
		time.Sleep(time.Minute)
		fill(true)
		v.Line("a").Slow(200 * time.Millisecond)
		time.Sleep(age - time.Minute - time.Duration(len(logs)/2)*200*time.Millisecond)
		var all sync.WaitGroup
		for i, log := range logs {
			k := kinds[i%len(kinds)]
			all.Go(func() {
				if tail, err := n.Tail(t.Context(), log, k.hint); err != nil || tail != k.last {
					t.Errorf("the tail of %s: got %d, %v, want %d", log, tail, err, k.last)
				}
			})
			time.Sleep(100 * time.Millisecond)
		}
		all.Wait()
		for i, k := range kinds {
			if s, err := n.readSlot(t.Context(), logs[i], k.early); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("append %d has not expired: %d, %v", k.early, s.Num, err)
			}
		}
	})
}

// TestTailWhileABatchExpires looks for the ends of logs while a store removes many appends of one moment, one by one and in any order. What came after
// them has the end.
func TestTailWhileABatchExpires(t *testing.T) {
	when.Full(t, "the log expires in real time")
	when.Long(t, "appends expire in real time")
	t.Parallel()
	for name, dir := range map[string]string{"memory": "", "file": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const logs, early, last = 60, 605, 620
			n := open(t, Options{EventAge: 6 * time.Second, Dir: dir})
			name := func(i int) string { return fmt.Sprintf("anon.demo.s.tail%d", i%logs) }
			fill := func(from, to uint64) {
				for i := range logs {
					for num := from; num <= to; num++ {
						m := appendOf(n, name(i), num, []byte("data"))
						if num < to {
							change(t, n.conn.PublishMsg(m))
						} else {
							must[*nats.Msg](t)(n.conn.RequestMsg(m, time.Minute))
						}
					}
				}
			}
			began := time.Now()
			fill(1, early)
			filled := time.Now()
			<-time.After(time.Until(filled.Add(3 * time.Second))) // the store's time is the real one: in a bubble a batch expires in no time
			fill(early+1, last)
			<-time.After(time.Until(began.Add(n.opts.EventAge)))
			var all sync.WaitGroup
			for w := range 4 {
				all.Go(func() {
					for i := w; time.Since(filled) < n.opts.EventAge+500*time.Millisecond; i++ {
						for _, hint := range []uint64{0, 500} {
							tail, err := n.Tail(t.Context(), name(i), hint)
							if time.Since(filled) > n.opts.EventAge+2*time.Second { // the end may have expired
								return
							}
							if err != nil || tail != last {
								t.Errorf("from %d: got %d, %v", hint, tail, err)
							}
						}
					}
				})
			}
			all.Wait()
		})
	}
}
