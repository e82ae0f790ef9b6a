package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/troupe-run/troupe/internal/bubble"
)

// TestFeed reads what many put, each line whole, with little of it there at a time, and nothing after the end.
func TestFeed(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		f := NewFeed()
		var putting sync.WaitGroup
		for range 8 {
			putting.Go(func() {
				for n := range 200 {
					if _, err := f.Put(t.Context(), []byte(strings.Repeat("x", n*n%5000))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		synctest.Wait()
		if n := len(f.waits) - f.at; n > mostFed {
			t.Errorf("%d bytes wait of at most %d", n, mostFed)
		}
		lines := bufio.NewReader(f)
		sizes := make(map[int]int)
		for range 8 * 200 {
			line, err := lines.ReadString('\n')
			if err != nil || strings.Trim(line, "x") != "\n" {
				t.Fatalf("a line of %d bytes, %v", len(line), err)
			}
			sizes[len(line)-1]++
		}
		for n := range 200 {
			if sizes[n*n%5000] < 8 {
				t.Errorf("%d lines of %d bytes", sizes[n*n%5000], n*n%5000)
			}
		}
		putting.Wait()
		if cap(f.waits) > keptFed {
			t.Errorf("an empty one keeps %d bytes", cap(f.waits))
		}
		if _, err := f.Put(t.Context(), []byte("last")); err != nil {
			t.Error(err)
		}
		_ = f.Close()
		if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
			t.Errorf("after the end came %q, %v", rest, err)
		}
		if _, err := f.Put(t.Context(), []byte("more")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("after the end a line is taken: %v", err)
		}
	})
}

// TestFeedThatIsNeverEmpty takes no more room than what waits needs, and has the long line of one have its turn among the short ones of many.
func TestFeedThatIsNeverEmpty(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		f := NewFeed()
		ctx, cancel := context.WithCancel(t.Context())
		var putting sync.WaitGroup
		for range 60 {
			putting.Go(func() {
				for {
					if _, err := f.Put(ctx, make([]byte, 2000)); err != nil {
						return
					}
				}
			})
		}
		synctest.Wait()
		in := make(chan error, 1)
		go func() {
			_, err := f.Put(ctx, make([]byte, 2*mostFed))
			in <- err
		}()
		synctest.Wait()
		part := make([]byte, 1000)
		for n, done := 0, false; n < 2000; n++ {
			if _, err := f.Read(part); err != nil {
				t.Fatal(err)
			}
			if synctest.Wait(); !done {
				select {
				case err := <-in:
					if done = true; err != nil {
						t.Error(err)
					}
				default:
				}
			}
			if n == 1999 && !done {
				t.Error("the long line has had no turn")
			}
			if size := cap(f.waits); size > 6*mostFed {
				t.Fatalf("it has %d bytes for at most %d", size, 2*mostFed)
			}
		}
		cancel()
		putting.Wait()
	})
}

// TestFeedUnsent knows which lines were read of, and lets nobody read the others once it was asked. A line longer than what may wait has its turn, and
// whoever waits goes with their context, or the Feed.
func TestFeedUnsent(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		f := NewFeed()
		put := func(ctx context.Context, size int) (uint64, error) { return f.Put(ctx, make([]byte, size)) }
		read, err := put(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.ReadFull(f, make([]byte, 11)); err != nil {
			t.Fatal(n, err)
		}
		begun, err := put(t.Context(), 2*mostFed)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		go func() {
			_, err := put(ctx, 1)
			ended <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
		if _, err := io.ReadFull(f, make([]byte, mostFed+100)); err != nil {
			t.Fatal(err)
		}
		untouched, err := put(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, err := put(t.Context(), mostFed)
			ended <- err
		}()
		synctest.Wait()
		if f.Unsent(read) || f.Unsent(begun) || !f.Unsent(untouched) {
			t.Errorf("unsent: %v, %v, %v", f.Unsent(read), f.Unsent(begun), f.Unsent(untouched))
		}
		if err := <-ended; !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("it ended with %v", err)
		}
		if n, err := f.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("read %d, %v", n, err)
		}
	})
}
