package cluster

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/bubble"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/test/kit/when"
)

// TestHerdOfReads has the largest number of clients resume at once, each from a log of
// 4 MiB. All of them get it, and the node keeps its connection, which carries leases
// and appends too.
func TestHerdOfReads(t *testing.T) {
	when.Full(t, "a crowd, whose reads the store has 5 s for")
	const streams, appends = 8, 16
	const herd = 100
	n := open(t, Options{Dir: t.TempDir()})
	data := make([]byte, MaxAppend)
	name := func(i int) string { return fmt.Sprintf("anon.demo.s1.h%d", i%streams) }
	for i := range streams {
		rev := must[uint64](t)(n.OpenStream(t.Context(), name(i), []byte("w"), nil, time.Hour))
		for num := uint64(1); num <= appends; num++ {
			if err := appendWait(n, name(i), rev, num, data); err != nil {
				t.Fatal(err)
			}
		}
	}
	writer := must[uint64](t)(n.OpenStream(t.Context(), testStream, []byte("w"), nil, time.Hour))
	reads, over := make(chan struct{}), make(chan struct{})
	appended := 0
	go func() {
		defer close(over)
		for num := uint64(1); ; num++ {
			select {
			case <-reads:
				return
			default:
			}
			if err := appendWait(n, testStream, writer, num, []byte("x")); err != nil {
				t.Errorf("append %d while others read: %v", num, err)
				return
			}
			appended++
		}
	}()
	var wg sync.WaitGroup
	for i := range herd {
		wg.Go(func() {
			got, err := readEvents(t.Context(), n, name(i), 1, appends)
			for errors.Is(err, store.ErrUnavailable) { // on a slow machine some wait in vain, as errManyReads or the time of a read says, and try again
				got, err = readEvents(t.Context(), n, name(i), 1, appends)
			}
			if err != nil || len(got) != appends {
				t.Errorf("read %d: %d appends, %v", i, len(got), err)
			}
		})
	}
	wg.Wait()
	close(reads)
	<-over
	if in := n.conn.Stats().InBytes; in > 4<<20 {
		t.Errorf("%d bytes came on the connection of leases and appends: the reads have one of their own", in)
	}
	if lost := n.conn.Stats().Reconnects + n.logConn.Stats().Reconnects; lost != 0 || appended == 0 {
		t.Errorf("%d connections lost, %d appends meanwhile", lost, appended)
	}
	if left := len(n.readSlots) + len(n.gets); left != 0 {
		t.Errorf("%d reads and gets are under way", left)
	}
}

// TestFewGets checks that reads share the appends that may be on their way, and give them back when they end, done or not.
func TestFewGets(t *testing.T) {
	bubble.Test(t, func(t *testing.T) { // no read waits in vain for its turn, however slow the machine is
		n := open(t, Options{})
		n.gets = make(slots, 3)
		rev := must[uint64](t)(n.OpenStream(t.Context(), testStream, nil, nil, time.Hour))
		fill(t, n, testStream, rev, 1, 300)
		// read reads all, and gives up once some appends are on their way if it is to be broken off.
		read := func(name string, brokenOff bool) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if brokenOff {
				go func() {
					for len(n.gets) == 0 && ctx.Err() == nil {
						runtime.Gosched()
					}
					cancel()
				}()
			}
			got, err := readEvents(ctx, n, testStream, 1, 300)
			if (err != nil || len(got) != 300) && (!brokenOff || !errors.Is(err, store.ErrUnavailable)) {
				t.Errorf("%s: %d appends, %v", name, len(got), err)
			}
		}
		left := func(when string) {
			t.Helper()
			if left := len(n.gets) + len(n.readSlots) + n.logReads.inFlight(); left != 0 {
				t.Errorf("%s: %d gets, reads and calls are under way", when, left)
			}
		}
		for i := range 10 {
			read(fmt.Sprintf("alone %d", i), true)
			left("alone")
		}
		var wg sync.WaitGroup
		for i := range 30 {
			wg.Go(func() { read(fmt.Sprintf("read %d", i), i%3 == 0) })
		}
		wg.Wait()
		left("together")
	})
}
