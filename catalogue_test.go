package troupe

import (
	"fmt"
	"testing"

	"github.com/troupe-run/troupe/mcp"
)

// TestItemsAreEncodedOnce adds items one by one: what is there already is not encoded again for each of the next ones.
func TestItemsAreEncodedOnce(t *testing.T) {
	t.Parallel()
	encoded := 0
	c := newCatalogue(func(p *prompt) any { encoded++; return p.Name }, func(p *prompt, _ mcp.Revision) any { return p.Name })
	for i := range 10 {
		if _, err := c.put(fmt.Sprint(9-i), &prompt{Prompt: Prompt{Name: fmt.Sprint("a", i)}}, false); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.put("4", &prompt{Prompt: Prompt{Name: "other"}}, true); err != nil {
		t.Fatal(err)
	}
	c.remove("5")
	if encoded != 2*11 { // each before it is put, and in its snapshot
		t.Errorf("11 items were encoded %d times", encoded)
	}
	now := c.now.Load()
	if got, want := fmt.Sprintf("%s", now.items), `["a9" "a8" "a7" "a6" "other" "a3" "a2" "a1" "a0"]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if now.digest != digestOf(now.items) {
		t.Errorf("the digest is %s", now.digest)
	}
}
