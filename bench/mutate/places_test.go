package mutate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const code = `package p

// admit says who may.
func (d *door) admit(who string, now int) bool {
	if who == "" { // nobody
		return false
	}
	if d.open[who] && now < d.until {
		d.count(who)
		return true
	}
	return len(d.open) > 0 && now > d.until
}
`

func TestPatterns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, old, new string
		want           string // a line of the result, or what an error says
	}{
		{"any names", `$who == ""`, `$who == "-"`, `if who == "-" { // nobody`},
		{"what is marked", `$d.$m[$x] «&& $now < $d.$end» {`, ``, `if d.open[who]  {`},
		{"layout and comments do not count", "if $who == \"\"\n\n{ return «false» }", `true`, `return true`},
		{"put in behind a word", `$who == ""«» {`, `|| $who == "x"`, `if who == "" || who == "x" { // nobody`},
		{"put in behind a keyword", `if «»$d.$open[$who]`, `$who != "x" && `, `if who != "x" &&  d.open[who] && now < d.until {`},
		{"words that do not matter", `func ($d *$T) $f(… $d.$open[$w] … $d.$n($w) return «true»`, `$d == nil`, `return d == nil`},
		{"as few words as possible", `$w == "" … return «$x»`, `$w != ""`, `return who != ""`},
		{"a name stands for one identifier", `$d.$open[$who] && $who < $d.$until`, ``, `error: 0 times`},
		{"two names may stand for the same one", `($a string, $b int) bool { if $c == "" { return «false» }`, `$c == $a`, `return who == who`},
		{"a name stands for no literal", `$who == $x {`, ``, `error: 0 times`},
		{"a keyword is no name", `$return false`, ``, `error: no name follows a $`},
		{"a name stands for no keyword", `{ $ends false }`, ``, `error: 0 times`},
		{"a word without $ stands for itself", `$d.closed[$who]`, ``, `error: 0 times`},
		{"found twice", `return $x`, ``, `error: 3 times`},
		{"a literal is compared as it is", `len($m) > 1`, ``, `error: 0 times`},
		{"a name that is not in the pattern", `$who == ""`, `$me == ""`, `error: the pattern has no $me`},
		{"half a mark", `$who «== ""`, ``, `error: half a pattern`},
		{"a mark too many", `«$who» «== ""»`, ``, `error: « means nothing there`},
		{"put in before all", `«»$who == ""`, ``, `error: half a pattern`},
		{"$ without a name", `$ == ""`, ``, `error: no name follows a $`},
		{"$ at the end", `$who == $`, ``, `error: half a pattern`},
		{"no pattern", ` `, ``, `error: half a pattern`},
		{"no Go", `$who # ""`, ``, `error: # means nothing there`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			file, text, err := packageOf(t, map[string]string{"door.go": code}).applyMutation(&mutation{in: "p", old: c.old, new: c.new})
			if want, bad := strings.CutPrefix(c.want, "error: "); bad {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("the error is %v, want %q; %s has\n%s", err, want, file, text)
				}
			} else if err != nil || !hasLine(text, want) {
				t.Errorf("no line %q, %v, in\n%s", want, err, text)
			}
		})
	}
}

// TestRenamed checks that a mutation follows the code into another file, with other names.
func TestRenamed(t *testing.T) {
	t.Parallel()
	m := &mutation{in: "p", old: `if $d.$open[$who] && $now < $d.$until { $d.$count($who) return «true» }`, new: `$now == 0`}
	renamed := strings.NewReplacer("who", "caller", "open", "guests", "until", "closes", "now", "at", "count", "note", "door", "gate", "(d ", "(g ", " d.", " g.", "\td.", "\tg.", "(d.", "(g.").Replace(code)
	file, text, err := packageOf(t, map[string]string{"door.go": "package p\n", "gate.go": renamed, "door_test.go": code}).applyMutation(m)
	if err != nil {
		t.Fatal(err)
	}
	if file != "p/gate.go" || !hasLine(text, "return at == 0") {
		t.Errorf("%s has\n%s", file, text)
	}
}

// TestTwoFiles checks that a pattern is looked for in all files of a package.
func TestTwoFiles(t *testing.T) {
	t.Parallel()
	_, _, err := packageOf(t, map[string]string{"a.go": code, "b.go": code}).applyMutation(&mutation{in: "p", old: `$who == ""`})
	if err == nil || !strings.Contains(err.Error(), "2 times, want once: p/a.go p/b.go") {
		t.Errorf("the error is %v", err)
	}
}

// packageOf is a repository with a package p.
func packageOf(t *testing.T, files map[string]string) *tree {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "p"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, "p", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return &tree{root: root}
}

func hasLine(text []byte, want string) bool {
	for line := range strings.Lines(string(text)) {
		if strings.TrimSpace(line) == want {
			return true
		}
	}
	return false
}
