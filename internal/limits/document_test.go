package limits

import (
	"flag"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/test/kit"
)

const document = "../../docs/limits.md"

var update = flag.Bool("update", false, "write the tables of "+document)

// TestDocument compares the tables of the document with the rows.
func TestDocument(t *testing.T) {
	t.Parallel()
	tables := map[string]string{}
	for _, s := range Sections() {
		tables[string(s)] = tableOf(s)
	}
	kit.Tables(t, document, tables, *update, "go test ./internal/limits -update")
}

func tableOf(s Section) string {
	var b strings.Builder
	b.WriteString("| limit | default | option | setting | beyond it | counted as |\n|---|---|---|---|---|---|\n")
	for r := range All(s) {
		cells := []string{r.Name, shown(r), "", "", r.Beyond, ""}
		if r.Most != 0 && r.Most < 1<<20 && r.Kind == Count { // a larger one is nobody's limit
			cells[1] += ", at most " + grouped(r.Most)
		}
		if r.Option != "" {
			cells[2], cells[3] = "`"+r.Option+"`", "`"+r.Setting()+"`"
		}
		if r.Counted != "" {
			cells[5] = "`" + map[Counter]string{Refusals: "", HTTP: "http: ", Cuts: "cut: "}[r.By] + r.Counted + "`"
		}
		for _, cell := range cells {
			b.WriteString("| " + cell)
			if cell != "" {
				b.WriteByte(' ')
			}
		}
		b.WriteString("|\n")
	}
	return b.String()
}

// shown returns the default as people write it.
func shown(r *Row) string {
	if r.Shown != "" {
		return r.Shown
	}
	switch r.Kind {
	case Time:
		d := time.Duration(r.Default)
		switch {
		case d >= 30*24*time.Hour:
			return fmt.Sprintf("%d days", d/(24*time.Hour))
		case d >= time.Hour:
			return fmt.Sprintf("%d h", d/time.Hour)
		case d >= time.Minute:
			return fmt.Sprintf("%d min", d/time.Minute)
		}
		if d%time.Second != 0 {
			return fmt.Sprintf("%d ms", d/time.Millisecond)
		}
		return fmt.Sprintf("%d s", d/time.Second)
	case Size:
		n, unit := inUnits(r.Default)
		return fmt.Sprintf("%d %s", n, unit)
	case Rate:
		if r.Option == "" {
			return grouped(r.Default) + " per second"
		}
	}
	return grouped(r.Default)
}

// grouped writes 10000 as 10,000.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// TestRows checks what the users of a row rely on.
func TestRows(t *testing.T) {
	t.Parallel()
	settings := map[string]string{}
	rows := 0
	for _, s := range Sections() {
		for r := range All(s) {
			rows++
			if r.Name == "" || strings.Contains(r.Name, "|") || strings.Contains(r.Beyond, "|") {
				t.Errorf("%q of %s cannot stand in a table", r.Name, s)
			}
			if r.Default != 0 && (r.Default < r.Least || r.Most != 0 && r.Default > r.Most) {
				t.Errorf("%s: the default %d is out of bounds", r.Name, r.Default)
			}
			if r.Default == 0 && r.Shown == "" {
				t.Errorf("%s has no default, and does not say what that means", r.Name)
			}
			if (r.Status != 0 || r.Text != "") && (r.Counted == "" || r.Text == "" || r.Status != 429 && r.Status != 503) {
				t.Errorf("%s is refused, but not counted, or without a text or a status", r.Name)
			}
		}
		for r := range Settings(s) {
			if r.Usage == "" || strings.Count(r.Usage, "`") != 2 {
				t.Errorf("%s: the usage %q does not name the value", r.Option, r.Usage)
			}
			if settings[r.Setting()] != "" {
				t.Errorf("%s has two rows", r.Setting())
			}
			settings[r.Setting()] = r.Option
		}
	}
	if rows != len(table) {
		t.Errorf("%d rows are in a section, of %d", rows, len(table))
	}
	for setting, option := range map[string]string{"max-uri": "Limits.MaxURI", "calls-per-node": "Shared.CallsPerNode", "drain-wait": "DrainWait"} {
		if settings[setting] != option {
			t.Errorf("%s is of %q, want %s", setting, settings[setting], option)
		}
	}
}

func TestSettle(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		set      int
		limit    Limit[int]
		or, want int
		fault    string
	}{
		{"zero", 0, MaxDepth, 128, 128, ""},
		{"within", 1024, MaxDepth, 1024, 1024, ""},
		{"too much", 1025, MaxDepth, 1025, 0, "Limits.MaxDepth is 1025: it must be from 1 to 1024"},
		{"negative where there is no none", -1, MaxDepth, 128, 0, "Limits.MaxDepth is -1: it must be from 1 to 1024"},
		{"negative", -1, CallsPerNode, -1, -1, ""},
		{"large size", 2 << 30, MaxURI, 2 << 30, 0, "Limits.MaxURI is 2147483648: it must be at most 1GiB"},
		{"a burst", 0, CallBurst, 0, 0, ""},
		{"a negative burst", -1, CallBurst, 0, 0, "Limits.CallBurst is -1: it must be at least 0"},
	} {
		if got := tt.limit.Or(tt.set); got != tt.or {
			t.Errorf("%s: Or is %d, want %d", tt.name, got, tt.or)
		}
		got := tt.set
		switch err := tt.limit.settle(reflect.ValueOf(&got).Elem()); {
		case tt.fault == "" && (err != nil || got != tt.want):
			t.Errorf("%s: settled to %d, %v, want %d", tt.name, got, err, tt.want)
		case tt.fault != "" && (err == nil || err.Error() != tt.fault):
			t.Errorf("%s: the error is %v, want %s", tt.name, err, tt.fault)
		}
	}
	short := time.Duration(1)
	if err := WriteTimeout.settle(reflect.ValueOf(&short).Elem()); err == nil || err.Error() != "Limits.WriteTimeout is 1ns: it must be at least 1ms" {
		t.Errorf("a nanosecond: %v", err)
	}
	if err := CallRate.Check(math.Inf(1)); err != nil {
		t.Errorf("a rate without a bound: %v", err)
	}
}
