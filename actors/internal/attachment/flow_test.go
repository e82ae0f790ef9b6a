package attachment_test

import (
	"testing"

	"github.com/troupe-run/troupe/actors/internal/attachment"
)

// TestFlow checks that a slow reader gets no frames until it has what is on the way, and then learns how far the stream is.
func TestFlow(t *testing.T) {
	f := attachment.Flow{Max: 100}
	for num, want := range []attachment.Send{attachment.AsTail, attachment.AsFrame, attachment.AsFrame, attachment.Nothing, attachment.Nothing} {
		size := 50
		if num == 0 {
			size = 101
		}
		if got := f.AddAppend(uint64(num+1), size); got != want {
			t.Errorf("append %d: %d, want %d", num+1, got, want)
		}
	}
	if f.Credit(50) {
		t.Error("it reads the log before it has the frames")
	}
	if !f.Credit(50) || f.Tail != 5 {
		t.Errorf("it does not learn of append %d", f.Tail)
	}
	if f.AddAppend(6, 1) != attachment.AsFrame {
		t.Error("it gets no frames any more")
	}
}
