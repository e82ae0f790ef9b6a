package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/bubble"
)

// TestWatchdogHearsOfAProcessThatWorks has a process that fails for a while: its watchdog hears nothing of it then, and the log has it once.
func TestWatchdogHearsOfAProcessThatWorks(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		var log strings.Builder
		var mu sync.Mutex // guards heard: the race detector knows nothing of the order that virtual time gives
		var heard []string
		m := &serviceManager{log: slog.New(slog.NewTextHandler(&log, nil)), send: func(state string) error {
			mu.Lock()
			defer mu.Unlock()
			heard = append(heard, state)
			return nil
		}}
		told := func() []string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(heard)
		}
		began := time.Now()
		ctx, stop := context.WithCancel(t.Context())
		go m.keepAlive(ctx, time.Second, func() error {
			if at := time.Since(began); at > 3500*time.Millisecond && at < 6500*time.Millisecond {
				return errors.New("the disk of the store is full")
			}
			return nil
		})
		for second, want := range []int{0, 1, 2, 3, 3, 3, 3, 4, 5} {
			if got := told(); len(got) != want {
				t.Errorf("after %d s it has heard %q", second, got)
			}
			time.Sleep(time.Second)
		}
		stop()
		if slices.ContainsFunc(told(), func(state string) bool { return state != "WATCHDOG=1" }) || strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), "the disk of the store is full") {
			t.Errorf("told %q, logged\n%s", told(), &log)
		}
	})
}

// TestManagerThatIsGone goes on where nobody hears, and logs that once, and once that somebody does again.
func TestManagerThatIsGone(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	gone := errors.New("connection refused")
	m := &serviceManager{log: slog.New(slog.NewTextHandler(&log, nil)), send: func(string) error { return gone }}
	m.ready("serving")
	if !strings.Contains(log.String(), "state=\"READY=1\"") || !strings.Contains(log.String(), "connection refused") {
		t.Errorf("logged\n%s", &log)
	}
	for range 3 {
		m.ready("serving")
	}
	gone = nil
	for range 3 {
		m.ready("serving")
	}
	if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "hears again") {
		t.Errorf("logged %d lines:\n%s", n, &log)
	}
}
