//go:build linux

package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend/journal"
	"github.com/troupe-run/troupe/internal/backend/pool"
	"github.com/troupe-run/troupe/mcp"
)

// repeats writes to its standard error what it is asked, ends with a call that asks for that, and answers no call that asks to wait.
func repeats(s *server, m message) {
	fmt.Fprintln(os.Stderr, "got", string(m.Params))
	switch params := string(m.Params); {
	case strings.Contains(params, "end"):
		os.Exit(9)
	case m.ID != nil && !strings.Contains(params, "wait"):
		s.result(m, "{}")
	}
}

// wrote reports whether an instance of the backend own has written a text to its standard error.
func wrote(b *Backends, text string) bool {
	page, _ := Operations{b}.Journal("own", "")
	return slices.ContainsFunc(page.Lines, func(l journal.Line) bool { return l.Stderr && strings.Contains(l.Text, text) })
}

// TestLastWordsAreForOperators: what a process writes to its standard error may be of any of its clients. When it ends in mid-call those are told how it
// ended, and operators also what it wrote.
func TestLastWordsAreForOperators(t *testing.T) {
	dir := shortDir(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	of := Backend{Name: "own", Digest: "1", Target: host.Command(self, "repeats"), Options: host.Options{Isolation: host.Shared, Pool: host.Pool{Idle: time.Hour}}.WithDefaults()}
	b := New(Config{Processes: joins(self, dir), Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	b.Configure(t.Context(), []Backend{of})
	defer func() { b.Close(context.WithoutCancel(t.Context()), 0) }()

	const secret = "ALICE-PRIVATE"
	if got := call(t, b, "own", Caller{Principal: "alice"}, Request{Params: []byte(`{"name":"` + secret + `"}`)}); got != "{}" {
		t.Fatalf("the first call: %s", got)
	}
	first := instancesOf(b, "own", "")[0]
	pid := first.proc.Load().PID()
	var waiting sync.WaitGroup
	var bobs error
	waiting.Go(func() {
		_, bobs = b.Call(t.Context(), "own", Caller{Principal: "bob"}, Request{Method: "tools/call", Params: []byte(`{"name":"wait"}`)})
	})
	for !wrote(b, "wait") {
		time.Sleep(10 * time.Millisecond)
	}
	_, carols := b.Call(t.Context(), "own", Caller{Principal: "carol"}, Request{Method: "tools/call", Params: []byte(`{"name":"end"}`)})
	waiting.Wait()
	for _, err := range []error{bobs, carols} {
		e, ok := errors.AsType[*Error](err)
		if !ok {
			t.Fatalf("the call ended with %v", err)
		}
		const begin, end = "backend own: the backend has ended", "; whether the call took effect is unknown"
		got := e.Wire() // without the status where the machine is busy for so long that nobody waits for it
		if got.Message != begin+end && got.Message != begin+": exit status 9"+end || got.Code != mcp.CodeCallLost {
			t.Errorf("its client gets %d, %q", got.Code, got.Message)
		}
	}
	<-first.gone
	if got := instanceReport(first, pool.Instance{Activity: pool.Stopping}).PID; got != pid {
		t.Errorf("while it ends operators are told of the process %d, want %d", got, pid)
	}
	_, err = b.Call(t.Context(), "own", Caller{Principal: "dave"}, Request{Method: "tools/call", Params: []byte(`{"name":"end"}`)})
	if err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("the client of the next instance gets %v", err)
	}
	var reports []Report
	for len(reports) == 0 || len(reports[0].Ends) == 0 {
		if reports, err = (Operations{b}).Reports(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := reports[0].Ends[0].Status; !strings.Contains(got, "exit status 9; it wrote: ") || !strings.Contains(got, secret) {
		t.Errorf("operators are told %q", got)
	}
	if got := reports[0].Pool.Detail; got != "the backend has ended" {
		t.Errorf("the last failure is %q", got)
	}
}

// TestCommandsThatLiveOnAreLogged: who ends a process is told that its commands live on, and for how long, and not where they end with it.
func TestCommandsThatLiveOnAreLogged(t *testing.T) {
	dir := shortDir(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, keep := range []time.Duration{time.Minute, 0} { // the second one ends what the first one has left
		var log bytes.Buffer
		b := New(Config{Processes: joins(self, dir), Log: slog.New(slog.NewTextHandler(&log, nil))})
		b.Configure(t.Context(), []Backend{{Name: "own", Digest: "1", Target: host.Command(self, "repeats"), Options: host.Options{}.WithDefaults()}})
		call(t, b, "own", Caller{Session: "s"}, Request{})
		b.Close(context.WithoutCancel(t.Context()), keep)
		if got := strings.Contains(log.String(), "live on, for the next process with the same data directory") && strings.Contains(log.String(), "processes=1 keep=1m0s"); got != (keep > 0) {
			t.Errorf("with a keep of %s the log has\n%s", keep, log.String())
		}
	}
}
