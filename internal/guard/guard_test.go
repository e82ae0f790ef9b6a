package guard_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/internal/guard"
)

func TestApart(t *testing.T) {
	t.Parallel()
	if f := guard.Apart(func() {}); f != nil {
		t.Errorf("a return: got %v", f)
	}
	f := guard.Apart(func() { panic("x") })
	if f == nil || f.Exited() || f.Value != "x" || f.Did() != "panicked" || !strings.Contains(f.Stack, "TestApart") {
		t.Errorf("a panic: got %+v", f)
	}
	f = guard.Apart(runtime.Goexit)
	if f == nil || !f.Exited() || f.Did() != "ended its goroutine" {
		t.Errorf("the end of the goroutine: got %+v", f)
	}
}
