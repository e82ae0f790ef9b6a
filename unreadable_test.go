package troupe_test

import (
	"strings"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestCursorsWhileTheKeysCannotBeRead checks that a cursor is good again later when it could
// not be opened or made because the key ring could not be read, and that the client's error
// says so. Only a cursor that the ring refuses is bad.
func TestCursorsWhileTheKeysCannotBeRead(t *testing.T) {
	t.Parallel()
	h := host.New(t, troupe.Options{}, &troupe.ServerOptions{Limits: troupe.Limits{PageSize: 2}})
	host.AddTestTools(h.Server)
	c := h.Session()
	page := host.Cursor(t, c.Post(host.Method("1", "tools/list", "")))
	next := host.Method("2", "tools/list", `{"cursor":"`+page+`"}`)
	back := h.Runtime.WithoutKeys(store.ErrUnavailable)
	for _, body := range []string{next, host.Method("3", "tools/list", "")} {
		if a := c.Post(body); !strings.Contains(a.Body, "try again") || !strings.Contains(a.Body, `"retryAfterMs":1000`) {
			t.Errorf("%s %s", a.Status, a.Body)
		}
	}
	back()
	back = h.Runtime.WithoutKeys(store.ErrSealed)
	if a := c.Post(next); !strings.Contains(a.Body, "invalid cursor") {
		t.Errorf("a bad one: %s %s", a.Status, a.Body)
	}
	back()
	if a := c.Post(next); !strings.Contains(a.Body, `"result"`) {
		t.Errorf("once the ring can be read: %s %s", a.Status, a.Body)
	}
}
