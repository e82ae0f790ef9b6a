package mutate

import (
	"flag"
	"path/filepath"
	"regexp"
	"testing"
)

var which = flag.String("mutate", "", "make the mutations whose promise, group or folder matches; without it, none")

// groups is the table, by promise.
var groups = []struct {
	name string
	rows []mutation
}{
	{"sessions", sessions},
	{"once", once},
	{"nodes", nodes},
	{"isolation", isolation},
	{"limits", limits},
}

// TestMutations makes mutations, one at a time, and fails for each that no test catches.
func TestMutations(t *testing.T) {
	if *which == "" {
		t.Skip("it runs for a quarter of an hour: -mutate says which mutations to make")
	}
	chosen, err := regexp.Compile(*which)
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{tree: tree{root: root}, tmp: t.TempDir(), sound: map[string]error{}}
	made := 0
	for _, g := range groups {
		for _, m := range g.rows {
			if !chosen.MatchString(m.promise) && !chosen.MatchString(g.name) && !chosen.MatchString(m.in) {
				continue
			}
			made++
			t.Run(g.name+"/"+m.promise, func(t *testing.T) { r.makeMutation(t, &m) })
		}
	}
	if made == 0 {
		t.Errorf("no mutation matches %q", *which)
	}
}
