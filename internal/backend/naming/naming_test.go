package naming

import (
	"math/rand/v2"
	"path"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestPrefix(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ backend, option, want string }{
		{"memory", "", "memory__"}, {"memory", "none", ""}, {"memory", "m.", "m."}, {"none", "", "none__"},
	} {
		if got := Prefix(tt.backend, tt.option); got != tt.want {
			t.Errorf("%q with %q: %q, want %q", tt.backend, tt.option, got, tt.want)
		}
	}
}

// TestName has names as they were first given: clients have them stored.
func TestName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 60)
	for _, tt := range []struct{ prefix, item, want string }{
		{"memory__", "read_graph", "memory__read_graph"},
		{"", "read_graph", "read_graph"},
		{"", long + long, long + long}, // alone it looks as it is
		{"a__", strings.Repeat("x", 61), "a__" + strings.Repeat("x", 61)},
		{"a__", strings.Repeat("x", 62), "a__" + strings.Repeat("x", 52) + "_963534d8"},
		{"a__", strings.Repeat("x", 61) + "y", "a__" + strings.Repeat("x", 52) + "_2775cb2c"},
		{"a__", strings.Repeat("ä", 40), "a__" + strings.Repeat("ä", 26) + "_7474172e"},
	} {
		got := Name(tt.prefix, tt.item)
		if got != tt.want || tt.prefix != "" && len(got) > 64 || !utf8.ValidString(got) {
			t.Errorf("%q and %q: %q of %d bytes, want %q", tt.prefix, tt.item, got, len(got), tt.want)
		}
	}
}

// TestItem finds items by their names.
func TestItem(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 62)
	likeCut := strings.Repeat("y", 52) + "_0123abcd"
	for _, tt := range []struct {
		prefix, name, item string
		may                bool
	}{
		{"a__", "a__read", "read", true},
		{"a__", "b__read", "", false},
		{"a__", "a__", "", false},
		{"", "read", "read", true},
		{"", long + long, long + long, true},
		{"a__", Name("a__", long), "", true},
		{"a__", "a__" + likeCut, "", true},
		{"b__", Name("a__", long), "", false},
		{"a__", "a__" + long, "", false}, // nobody is called so: it would have been cut
		{"a__", Name("a__", strings.Repeat("ä", 40)), "", true},
	} {
		if item, may := Item(tt.prefix, tt.name); item != tt.item || may != tt.may {
			t.Errorf("%q behind %q: %q %v, want %q %v", tt.name, tt.prefix, item, may, tt.item, tt.may)
		}
	}
	if Name("a__", likeCut) != "a__"+likeCut {
		t.Error("a name of 64 bytes was cut")
	}
}

// TestNamesDoNotMeet gives random items of random backends their names: those of two backends whose prefixes do not clash
// never meet, and each leads back to its item.
func TestNamesDoNotMeet(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	word := func(alphabet string, most int) string {
		b := make([]byte, 1+rng.IntN(most))
		for i := range b {
			b[i] = alphabet[rng.IntN(len(alphabet))]
		}
		return string(b)
	}
	for range 20_000 {
		a, b := Prefix(word("ab_", 5), ""), Prefix(word("ab_", 5), "")
		most := 5
		if rng.IntN(2) == 0 {
			most = 100
		}
		x, y := word("ab_", most), word("ab_", most)
		if Clash(a, b) != Clash(b, a) {
			t.Fatalf("%q and %q clash one way", a, b)
		}
		if !Clash(a, b) && Name(a, x) == Name(b, y) {
			t.Fatalf("%q of %q and %q of %q have the name %q", x, a, y, b, Name(a, x))
		}
		if item, may := Item(a, Name(a, x)); !may || item != "" && item != x {
			t.Fatalf("%q of %q is found as %q", x, a, item)
		}
	}
	if Clash("", "a__") || !Clash("a__", "a__b__") || !Clash("a__", "a__") || Clash("github__", "github_enterprise__") {
		t.Error("who clashes")
	}
}

func TestFilter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		f    Filter
		item string
		want bool
	}{
		{Filter{}, "any", true},
		{Filter{}, "", true},
		{Filter{Allow: []string{"read_*"}}, "read_file", true},
		{Filter{Allow: []string{"read_*"}}, "read_", true},
		{Filter{Allow: []string{"read_*"}}, "bread_", false},
		{Filter{Allow: []string{"read_*", "list"}}, "list", true},
		{Filter{Allow: []string{"read_*"}, Deny: []string{"*_all"}}, "read_all", false},
		{Filter{Deny: []string{"*"}}, "a", false},
		{Filter{Deny: []string{"?"}}, "ab", true},
		{Filter{Allow: []string{"*/b*c"}}, "a/x/bcbc", true},
		{Filter{Allow: []string{"[ab]"}}, "a", false},
		{Filter{Allow: []string{"[ab]"}}, "[ab]", true},
		{Filter{Allow: []string{"**a**"}}, "bab", true},
	} {
		if got := tt.f.Allows(tt.item); got != tt.want {
			t.Errorf("%+v with %q: %v", tt.f, tt.item, got)
		}
	}
	if match(strings.Repeat("a*", 2000)+"b", strings.Repeat("a", 4000)) {
		t.Error("a long pattern matches")
	}
}

// FuzzMatch compares with path.Match, where both know the pattern.
func FuzzMatch(f *testing.F) {
	for _, s := range []string{"a*b", "*", "??", "a**b?c", "", "*a*b*c*"} {
		f.Add(s, "aXbYc")
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		got := match(pattern, name)
		for _, r := range pattern + name {
			if r >= utf8.RuneSelf || strings.ContainsRune(`[]\/`, r) {
				return
			}
		}
		if want, err := path.Match(pattern, name); err == nil && got != want {
			t.Errorf("%q with %q: %v, want %v", pattern, name, got, want)
		}
	})
}

func TestOwn(t *testing.T) {
	t.Parallel()
	owner, conflicts := Own([][]string{{"own:a"}, {"file:///a", "file:///b", "file:///a"}, nil, {"file:///b", "own:a", "c:d", "file:///b"}, {"c:d", "file:///b"}})
	if diff := cmp.Diff(map[string]int{"own:a": 0, "file:///a": 1, "file:///b": 1, "c:d": 3}, owner); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	want := []Conflict{{"file:///b", 1, 3}, {"own:a", 0, 3}, {"c:d", 3, 4}, {"file:///b", 1, 4}}
	if diff := cmp.Diff(want, conflicts); diff != "" {
		t.Errorf("conflicts (-want +got):\n%s", diff)
	}
}
