package interop

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the table of README.md")

// coverage is what the clients used: by client, transport, revision and feature.
type coverage struct {
	mu       sync.Mutex // guards the rest
	features []string
	ways     map[string][]string // of a client, in order
	driven   map[[3]string]bool  // client, way, feature
}

// add notes that a client has used a feature. A way is a transport and a revision.
func (c *coverage) add(client, way, feature string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.driven == nil {
		c.ways, c.driven = map[string][]string{}, map[[3]string]bool{}
	}
	if !slices.Contains(c.features, feature) {
		c.features = append(c.features, feature)
	}
	if !slices.Contains(c.ways[client], way) {
		c.ways[client] = append(c.ways[client], way)
	}
	c.driven[[3]string{client, way, feature}] = true
}

// has reports whether all clients have used some feature.
func (c *coverage) has(clients []string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !slices.ContainsFunc(clients, func(client string) bool { return c.ways[client] == nil })
}

// cell says how far a client uses a feature: over which transports, and in which revisions, where these are not all.
func (c *coverage) cell(client, feature string) string {
	of, driven := map[string][]string{}, map[string][]string{} // revisions by transport
	var known, reached []string
	for _, way := range c.ways[client] {
		transport, revision, _ := strings.Cut(way, " ")
		of[transport] = append(of[transport], revision)
		known = append(known, revision)
		if c.driven[[3]string{client, way, feature}] {
			driven[transport] = append(driven[transport], revision)
			reached = append(reached, revision)
		}
	}
	if len(reached) == 0 {
		return ""
	}
	// One range for all transports, if it fits each of them.
	from, to := slices.Min(reached), slices.Max(reached)
	var over []string
	all, fits := true, true
	for _, transport := range slices.Sorted(maps.Keys(of)) {
		n := 0
		for _, revision := range of[transport] {
			if from <= revision && revision <= to {
				n++
			}
		}
		if len(driven[transport]) > 0 {
			over = append(over, transport)
			fits = fits && n == len(driven[transport])
		}
		all = all && n == len(driven[transport])
	}
	switch {
	case all:
		return "all" + span(known, reached)
	case fits:
		return strings.Join(over, ", ") + span(known, reached)
	}
	var parts []string
	for i, transport := range over {
		revisions := span(of[transport], driven[transport])
		if i+1 < len(over) && revisions == span(of[over[i+1]], driven[over[i+1]]) {
			revisions = ","
		} else if i+1 < len(over) {
			revisions += ";"
		}
		parts = append(parts, transport+revisions)
	}
	return strings.Join(parts, " ")
}

// span says which of the known revisions were reached.
func span(known, reached []string) (s string) {
	if from := slices.Min(reached); from != slices.Min(known) {
		s = " from " + from
	}
	if to := slices.Max(reached); to != slices.Max(known) {
		s += " to " + to
	}
	return s
}

// table returns the table of README.md.
func (c *coverage) table(clients []string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.Sort(c.features)
	var b strings.Builder
	fmt.Fprintf(&b, "| | %s |\n|---|%s\n", strings.Join(clients, " | "), strings.Repeat("---|", len(clients)))
	row := func(name string, cell func(client string) string) {
		fmt.Fprintf(&b, "| %s |", name)
		for _, client := range clients {
			fmt.Fprintf(&b, " %s |", cell(client))
		}
		b.WriteString("\n")
	}
	row("transports", func(client string) string {
		var names []string
		for _, way := range c.ways[client] {
			if name, _, _ := strings.Cut(way, " "); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return strings.Join(names, ", ")
	})
	row("revisions", func(client string) string {
		var names []string
		for _, way := range c.ways[client] {
			if _, name, _ := strings.Cut(way, " "); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		if len(names) > 1 {
			return names[0] + " to " + names[len(names)-1]
		}
		return strings.Join(names, "")
	})
	for _, feature := range c.features {
		row(feature, func(client string) string { return c.cell(client, feature) })
	}
	return b.String()
}

// checkTable compares the table of README.md with the coverage.
func (c *coverage) checkTable(t *testing.T) {
	const file, from, to = "README.md", "<!-- table -->\n", "<!-- end of the table -->\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(text), from)
	table, after, ok2 := strings.Cut(rest, to)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the table", file)
	}
	want := c.table(releases)
	if *update {
		if err := os.WriteFile(file, []byte(before+from+want+to+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(table, want); diff != "" {
		t.Errorf("the table of %s is not what was driven; run the test with -update (-got +want):\n%s", file, diff)
	}
}
