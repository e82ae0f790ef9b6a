package catalogue

import (
	"fmt"
	"testing"

	"github.com/troupe-run/troupe/mcp"
)

type named struct{ name string }

// TestItemsAreEncodedOnce adds items one by one: what is there already is not encoded again for each of the next ones.
func TestItemsAreEncodedOnce(t *testing.T) {
	t.Parallel()
	encoded := 0
	c := New(func(p *named) any { encoded++; return p.name }, func(p *named, _ mcp.Revision) any { return p.name })
	for i := range 10 {
		if _, err := c.Put(fmt.Sprint(9-i), &named{fmt.Sprint("a", i)}, false); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Put("4", &named{"other"}, true); err != nil {
		t.Fatal(err)
	}
	c.Remove("5")
	if encoded != 2*11 { // each before it is put, and in its snapshot
		t.Errorf("11 items were encoded %d times", encoded)
	}
	now := c.Now()
	if got, want := fmt.Sprintf("%s", now.items), `["a9" "a8" "a7" "a6" "other" "a3" "a2" "a1" "a0"]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if now.digest != digestOf(now.items) {
		t.Errorf("the digest is %s", now.digest)
	}
}
