package session

import (
	"fmt"
	"testing"
	"time"
)

// TestCancels keeps cancels, and takes those that are not too old and not too many.
func TestCancels(t *testing.T) {
	var c Cancels[string]
	now := time.Unix(0, 0)
	take := func(session, id, want string) {
		t.Helper()
		if reason, ok := c.Take(session, id, now); reason != want || ok != (want != "") {
			t.Errorf("%s of %s: got %q, %v, want %q", id, session, reason, ok, want)
		}
	}
	take("a", "1", "")
	c.Keep("a", "1", "first", now)
	c.Keep("a", `"1"`, "text", now)
	c.Keep("b", "1", "other", now)
	c.Keep("a", "1", "second", now)
	take("a", "2", "")
	take("a", "1", "first")
	take("a", "1", "") // the second one is of the same call
	take("b", "1", "other")

	now = now.Add(CancelsKept / 2)
	c.Keep("a", "3", "late", now)
	now = now.Add(CancelsKept / 2)
	take("a", `"1"`, "")
	take("a", "3", "late")
	if len(c.kept) != 0 {
		t.Errorf("%d are kept, want none", len(c.kept))
	}

	for i := range mostCancels + 2 {
		if full := c.Keep("a", fmt.Sprint(i), "many", now); full != (i >= mostCancels) {
			t.Errorf("cancel %d of %d: full is %v", i, mostCancels, full)
		}
	}
	if len(c.kept) != mostCancels {
		t.Errorf("%d are kept, want %d", len(c.kept), mostCancels)
	}
	take("a", "1", "")
	take("a", "2", "many")
	now = now.Add(CancelsKept)
	c.Keep("a", "0", "new", now)
	if len(c.kept) != 1 {
		t.Errorf("%d are kept, want the new one", len(c.kept))
	}
}
