package troupe_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// requirements are the rows that docs/conformance.md must have, by the prefix of their
// ids and how many there are.
var requirements = map[string]int{"TL-": 14, "PR-": 8, "RS-": 11, "CP-": 6, "LG-": 7, "PG-": 6, "PS-": 6, "CN-": 5, "PI-": 3, "RT-": 4, "": 50, "MD-": 63}

// TestConformanceTable holds that each requirement has a row, and that the row names a
// test or says whose it is. That the tests exist is for TestDocsNameWhatExists.
func TestConformanceTable(t *testing.T) {
	t.Parallel()
	row := regexp.MustCompile(`(?m)^\| ([A-Z]{2}-\d+|\d+) \| ([^|]+) \| ([^|]+) \|$`)
	test := regexp.MustCompile("`Test[A-Z]\\w+`")
	rows := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(readText(t, "docs/conformance.md"), -1) {
		if rows[m[1]] != "" {
			t.Errorf("%s has two rows", m[1])
		}
		rows[m[1]] = m[3]
	}
	want := 0
	for prefix, n := range requirements {
		want += n
		for i := 1; i <= n; i++ {
			id := fmt.Sprint(prefix, i)
			shown := rows[id]
			excused := shown == "the client" || strings.HasPrefix(shown, "not yet: ") || strings.HasPrefix(shown, "not ours: ")
			if !test.MatchString(shown) && !excused {
				t.Errorf("%s: %q names no test", id, shown)
			}
		}
	}
	if len(rows) != want {
		t.Errorf("%d rows, want %d", len(rows), want)
	}
}
