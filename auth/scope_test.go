package auth

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestScopes reads what tokens have.
func TestScopes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"scope":"a b"}`: "a b", `{"scope":"  a   b "}`: "a b", `{"scope":"a a"}`: "a", `{"scope":["a","b"]}`: "a b", `{"scope":["a b","c"]}`: "a b c",
		`{"scp":"a b"}`: "a b", `{"scp":["a","b"]}`: "a b", `{"scope":"a","scp":"b"}`: "a", `{"scope":""}`: "", `{"scope":[]}`: "", `{}`: "none",
		`{"scope":"a\"b c\\d e\u00e4 f\ng h"}`: "h", `{"scope":1}`: "fault", `{"scope":null}`: "fault", `{"scope":{"a":true}}`: "fault", `{"scope":["a",1]}`: "fault",
		`{"scope":"urn:x:y https://a/b"}`: "urn:x:y https://a/b",
	} {
		o, err := readObject([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		all, ok, err := o.scopes()
		got := strings.Join(all, " ")
		if err != nil {
			got = "fault"
		} else if !ok {
			got = "none"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestHierarchy has scopes imply others, in circles, too.
func TestHierarchy(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, newStub("a"), func(c *Config) {
		c.Implies = map[string][]string{"admin": {"write"}, "write": {"read", "list"}, "x": {"y"}, "y": {"z"}, "z": {"x"}, "self": {"self"}}
	})
	for _, tt := range []struct{ granted, needed, missing string }{
		{"", "", ""}, {"read", "", ""}, {"read", "read", ""}, {"", "read", "read"}, {"read", "write", "write"}, {"write", "read list", ""}, {"admin", "read write", ""},
		{"admin", "admin read other", "other"}, {"x", "z", ""}, {"z", "y", ""}, {"y", "x y z", ""}, {"self", "self", ""}, {"", "x self", "x self"}, {"re", "read", "read"}, {"READ", "read", "read"},
	} {
		if got := strings.Join(a.missingScopes(strings.Fields(tt.granted), strings.Fields(tt.needed)), " "); got != tt.missing {
			t.Errorf("%q for %q: missing is %q, want %q", tt.granted, tt.needed, got, tt.missing)
		}
	}
}

// TestHierarchyOfAnyShape compares random hierarchies with a search that follows them from the granted scopes.
func TestHierarchyOfAnyShape(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 2))
		implies := map[string][]string{}
		name := func() string { return fmt.Sprint(r.IntN(8)) }
		for range r.IntN(14) {
			s := name()
			implies[s] = append(implies[s], name())
		}
		a := &Authority{broader: newHierarchy(implies)}
		granted, needed := []string{name(), name()}, []string{name(), name(), name()}
		reached := slices.Clone(granted)
		for i := 0; i < len(reached); i++ {
			reached = append(reached, slices.DeleteFunc(slices.Clone(implies[reached[i]]), func(s string) bool { return slices.Contains(reached, s) })...)
		}
		want := slices.DeleteFunc(slices.Clone(needed), func(s string) bool { return slices.Contains(reached, s) })
		if got := a.missingScopes(granted, needed); !slices.Equal(got, want) {
			t.Fatalf("seed %d: %v, %v for %v: missing is %v, want %v", seed, implies, granted, needed, got, want)
		}
		if r := a.Require(granted, needed); (r == nil) != (len(want) == 0) || r != nil && len(a.missingScopes(r.Scopes, slices.Concat(granted, needed))) > 0 {
			t.Fatalf("seed %d: %v asks for less than is needed", seed, r)
		}
	}
}

// TestStepUp asks for what is granted and needed together, without offline_access.
func TestStepUp(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, newStub("a"))
	if r := a.Require([]string{"a", "b"}, []string{"b"}); r != nil {
		t.Errorf("got %v", r)
	}
	r := a.Require([]string{"a", "offline_access", "b"}, []string{"b", "c", "offline_access"})
	if r == nil || r.Status != 403 || r.Code != "insufficient_scope" || r.Reason != ReasonScope || strings.Join(r.Scopes, " ") != "a b c" {
		t.Errorf("got %+v", r)
	}
}

// TestObjectTexts compares what is read with encoding/json on random texts of strings.
func TestObjectTexts(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		names := map[string]string{}
		for range r.IntN(6) {
			names[fmt.Sprintf("\x00é\"%d", r.IntN(99))] = strings.Repeat("\u2028<\"\\", r.IntN(3))
		}
		data, _ := json.Marshal(names)
		o, err := readObject(data)
		if err != nil || len(o) != len(names) {
			t.Fatalf("%s: %v, %v", data, o, err)
		}
		for name, want := range names {
			if got, ok, err := o.text(name); got != want || !ok || err != nil {
				t.Errorf("%s: %q is %q, %v, %v", data, name, got, ok, err)
			}
		}
	}
}
