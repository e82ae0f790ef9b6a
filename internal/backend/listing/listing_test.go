package listing

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/mcp"
)

func prefixed(own string) (string, bool) { return "files__" + own, own != "hidden" }

func same(own string) (string, bool) { return own, true }

func raws(texts ...string) (all [][]byte) {
	for _, t := range texts {
		all = append(all, []byte(t))
	}
	return all
}

func listOf(t *testing.T, of Of, spoken mcp.Revision, rename func(string) (string, bool), texts ...string) *List {
	t.Helper()
	items, err := Read(of, "files", raws(texts...), rename)
	if err != nil {
		t.Fatal(err)
	}
	l, hidden := New(of, spoken, items)
	if len(hidden) > 0 {
		t.Fatalf("hidden: %v", hidden)
	}
	return l
}

func page(l *List, r mcp.Revision) string {
	out, _, _ := l.AppendPage(nil, true, nil, r, "", 100)
	return string(out)
}

// TestBytesStay holds items to the bytes of the backend: numbers, unknown members, escapes and blanks.
func TestBytesStay(t *testing.T) {
	text := `{ "x-vendor":1.0, "n\u0061me" : "re\u0061d" ,"inputSchema":{"type":"object","maxProperties":1e400},"z":[9007199254740993]}`
	l := listOf(t, Tools, mcp.Revision20251125, same, text)
	if got := page(l, mcp.Revision20251125); got != text {
		t.Errorf("a list of its own revision is %s", got)
	}
	if got := page(l, mcp.Latest); got != text {
		t.Errorf("a list of a later revision is %s", got)
	}
	if got := page(l, mcp.Revision20241105); got != text {
		t.Errorf("a list of an older revision, which has all of it, is %s", got)
	}
	l = listOf(t, Tools, mcp.Revision20251125, prefixed, text)
	if want := `{"x-vendor":1.0,"n\u0061me":"files__read","inputSchema":{"type":"object","maxProperties":1e400},"z":[9007199254740993]}`; page(l, mcp.Revision20251125) != want {
		t.Errorf("with a prefix it is %s", page(l, mcp.Revision20251125))
	}
	if item, ok := l.Find("files__read"); !ok || item.Own != "read" {
		t.Errorf("found %+v", item)
	}
}

func TestOlderRevisions(t *testing.T) {
	l := listOf(t, Tools, mcp.Revision20251125, same, `{"name":"a","title":"A","inputSchema":{"type":"object"},"icons":[{"src":"https://a"}],"x":1}`, `{"name":"b","inputSchema":{"type":"object"},"x":1}`)
	want := `{"name":"a","inputSchema":{"type":"object"},"annotations":{"title":"A"}},{"name":"b","inputSchema":{"type":"object"},"x":1}`
	if got := page(l, mcp.Revision20250326); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestWhatIsNotListed(t *testing.T) {
	items, err := Read(Resources, "files", raws(`{"uri":"a:1","name":"x"}`, `{"name":"x"}`, `{"uri":7}`, `[]`, `{"uri":"a:2"}`), same)
	if !errors.Is(err, ErrItem) || len(items) != 2 || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("items %v, error %v", items, err)
	}
	if items, err := Read(Tools, "files", raws(`{"name":"hidden"}`), prefixed); err != nil || len(items) != 0 {
		t.Errorf("items %v, error %v", items, err)
	}
}

func TestTheFirstOneCounts(t *testing.T) {
	items := []Item{{Backend: "a", Name: "x:1", Raw: []byte(`{"uri":"x:1"}`)}, {Backend: "b", Name: "x:1", Raw: []byte(`{"uri":"x:1","b":1}`)}}
	l, hidden := New(Resources, mcp.Latest, items)
	if len(hidden) != 1 || hidden[0].Backend != "b" || l.Len() != 1 {
		t.Errorf("hidden %v", hidden)
	}
}

func TestPages(t *testing.T) {
	var texts []string
	for i := range 10 {
		texts = append(texts, fmt.Sprintf(`{"name":"t%d"}`, 9-i)) // in the order of the backend, which is not that of names
	}
	l := listOf(t, Tools, mcp.Latest, same, texts...)
	odd := func(i *Item) bool { return (i.Own[1]-'0')%2 == 1 }
	var got []byte
	after, pages := "", 0
	for first := true; ; first = false {
		var n int
		if got, n, after = l.AppendPage(got, first, odd, mcp.Latest, after, 2); n == 0 || n > 2 {
			t.Fatalf("a page of %d items", n)
		}
		if pages++; after == "" {
			break
		}
	}
	if want := `{"name":"t9"},{"name":"t7"},{"name":"t5"},{"name":"t3"},{"name":"t1"}`; string(got) != want || pages != 3 {
		t.Errorf("%d pages: %s", pages, got)
	}
}
