package troupetest

import (
	"io"
	"log/slog"
	"sync"
	"testing"
)

// testOutput writes to the output of a test, which is shown if the test fails or with -v, until the test ends: a goroutine
// of a handler may outlive it, and the test would panic.
type testOutput struct {
	mu sync.Mutex // guards to
	to io.Writer  // nil once the test has ended
}

// logOf returns a logger for a runtime of the test, and what ends it.
func logOf(t testing.TB) (log *slog.Logger, end func()) {
	o := &testOutput{to: t.Output()}
	return slog.New(slog.NewTextHandler(o, nil)), func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.to = nil
	}
}

func (o *testOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.to == nil {
		return len(p), nil
	}
	return o.to.Write(p)
}
