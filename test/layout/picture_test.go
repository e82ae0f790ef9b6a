package layout

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// pictureOf compares the picture of the rooms in docs/architecture.md with the imports outside of tests. A room may import
// another if arrows lead there, over other rooms too: each import is such a way, each arrow is an import, and no arrow says
// what others say already.
func pictureOf(repo repository) []string {
	text, found := mermaidBlock(string(repo.texts[diagrams]))
	if !found {
		return []string{diagrams + " has no picture of the rooms"}
	}
	p, violations := readPicture(text)
	imports := map[string]map[string]bool{} // room by room, without those of a room itself
	full := map[string]bool{}
	for _, s := range repo.own() {
		if s.isTest() {
			continue
		}
		from := p.roomOf(s.dir())
		if from == "" {
			violations = append(violations, fmt.Sprintf("%s is in no room of the picture in %s", s.path, diagrams))
			continue
		}
		full[from] = true
		for target := range s.imports() {
			dir, own := dirOf(target)
			to := p.roomOf(dir)
			if !own || to == from {
				continue
			}
			if imports[from] == nil {
				imports[from] = map[string]bool{}
			}
			if !imports[from][to] && !p.leads(from, to) {
				violations = append(violations, fmt.Sprintf("%s imports %s, and no arrow leads from %s to %s in %s", s.path, target, from, to, diagrams))
			}
			imports[from][to] = true
		}
	}
	for _, from := range slices.Sorted(maps.Keys(p.arrows)) {
		for _, to := range p.arrows[from] {
			switch {
			case p.leads(to, from):
				violations = append(violations, fmt.Sprintf("%s: arrows lead from %s to %s and back", diagrams, from, to))
			case !imports[from][to]:
				violations = append(violations, fmt.Sprintf("%s: an arrow leads from %s to %s, which it does not import", diagrams, from, to))
			case slices.ContainsFunc(p.arrows[from], func(over string) bool { return over != to && p.leads(over, to) }):
				violations = append(violations, fmt.Sprintf("%s: the arrow from %s to %s says what others say", diagrams, from, to))
			}
		}
	}
	for dir, room := range p.rooms {
		if !full[room] {
			violations = append(violations, fmt.Sprintf("%s: room %s has no code in %q", diagrams, room, dir))
		}
	}
	slices.Sort(violations)
	return violations
}

// A picture has rooms and arrows.
type picture struct {
	rooms  map[string]string   // by directory, "" is the root package
	arrows map[string][]string // by room
}

var (
	mermaid = regexp.MustCompile("(?ms)^```mermaid\n(.*?)^```$")
	room    = regexp.MustCompile(`^(\w+)\["([^"<]+)(?:<br>[^"]*)?"\]$`)
	arrow   = regexp.MustCompile(`^(\w+(?: & \w+)*) --> (\w+(?: & \w+)*)$`)
)

func mermaidBlock(document string) (string, bool) {
	m := mermaid.FindStringSubmatch(document)
	if m == nil {
		return "", false
	}
	return m[1], true
}

// readPicture reads a flowchart: a line for each room, with its directories, where "troupe" is the root, and lines of arrows.
func readPicture(text string) (p picture, violations []string) {
	p = picture{map[string]string{}, map[string][]string{}}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if m := room.FindStringSubmatch(line); m != nil {
			for _, dir := range strings.Split(m[2], ", ") {
				p.rooms[strings.TrimPrefix(dir, "troupe (root)")] = m[1]
			}
		} else if m := arrow.FindStringSubmatch(line); m != nil {
			for _, from := range strings.Split(m[1], " & ") {
				p.arrows[from] = append(p.arrows[from], strings.Split(m[2], " & ")...)
			}
		} else if !strings.HasPrefix(line, "flowchart") && line != "" {
			violations = append(violations, fmt.Sprintf("%s: %q is neither a room nor an arrow", diagrams, line))
		}
	}
	return p, violations
}

// roomOf returns the room of a directory: that of the longest one that has it.
func (p picture) roomOf(dir string) string {
	longest := ""
	for d := range p.rooms {
		if within(dir, d) && len(d) > len(longest) {
			longest = d
		}
	}
	if longest == "" && dir != "" {
		return ""
	}
	return p.rooms[longest]
}

// leads reports whether arrows lead from one room to another.
func (p picture) leads(from, to string) bool {
	seen := map[string]bool{}
	next := slices.Clone(p.arrows[from])
	for len(next) > 0 {
		r := next[0]
		next = next[1:]
		if r == to {
			return true
		}
		if !seen[r] {
			seen[r] = true
			next = append(next, p.arrows[r]...)
		}
	}
	return false
}

var pictureCases = []layoutCase{
	{"no picture", pictureOf, map[string]string{diagrams: "```\nc[\"cmd\"]\n```\n"}, "no picture"},
	{"the picture of the imports", pictureOf, inPicture("c --> r\nr --> m & i\ni --> m2", "", ""), ""},
	{"an import over a room", pictureOf, inPicture("c --> r\nr --> m & i\ni --> m2", "cmd/x/a.go", "mcp"), ""},
	{"an import without an arrow", pictureOf, inPicture("c --> r\nr --> m & i\ni --> m2", "mcp/a.go", "internal/task"), "leads from m to i"},
	{"an import against the arrows", pictureOf, inPicture("c --> r\nr --> m & i\ni --> m2", "internal/limits/a.go", "internal/task"), "leads from m2 to i"},
	{"an import of a test", pictureOf, inPicture("c --> r\nr --> m & i\ni --> m2", "mcp/a_test.go", "internal/task"), ""},
	{"an arrow without an import", pictureOf, inPicture("c --> r\nr --> m & i\ni & m --> m2", "", ""), "leads from m to m2, which"},
	{"an arrow too many", pictureOf, inPicture("c --> r & m\nr --> m & i\ni --> m2", "cmd/x/a.go", "mcp"), "the arrow from c to m says"},
	{"a directory in no room", pictureOf, inPicture("c --> r\nr --> m & i\ni --> m2", "router/a.go", "mcp"), "router/a.go is in no room"},
	{"a room without code", pictureOf, inPicture("c --> r\nr --> m & i\ni --> m2\ne[\"empty\"]", "", ""), "room e has no code"},
	{"something else", pictureOf, inPicture("c --> r\nr --> m & i\ni --> m2\nc -.-> m", "", ""), "neither a room nor an arrow"},
}

// inPicture returns a repository of five rooms with a picture, and in it another file with an import.
func inPicture(arrows, file, target string) map[string]string {
	imports := func(pkg string, targets ...string) string {
		text := "package " + pkg + "\n"
		for _, t := range targets {
			text += "import _ \"" + strings.TrimSuffix(rootModule+"/"+t, "/") + "\"\n"
		}
		return text
	}
	files := map[string]string{
		diagrams:        "```mermaid\nflowchart TD\nc[\"cmd\"]\nr[\"troupe (root)<br>joins\"]\ni[\"internal\"]\nm2[\"internal/limits, internal/jsonv2\"]\nm[\"mcp\"]\n" + arrows + "\n```\n",
		"cmd/x/main.go": imports("main", ""), "a.go": imports("troupe", "mcp", "internal/task"), "mcp/b.go": imports("mcp"),
		"internal/task/a.go": imports("task", "internal/limits"), "internal/limits/b.go": imports("limits"),
	}
	if file != "" {
		files[file] = imports("x", target)
	}
	return files
}
