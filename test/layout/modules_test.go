package layout

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

const dependencyList = "docs/dependencies.md"

// replacedModules keeps go.mod true for the programs that import the module: only a main module's replacements count.
// The repository's further modules need some, to reach its modules beside them.
func replacedModules(repo repository) []string {
	var violations []string
	for name, text := range repo.texts {
		if path.Base(name) != "go.mod" {
			continue
		}
		for _, old := range readGoMod(text).replaced {
			if name == "go.mod" || !within(old, rootModule) {
				violations = append(violations, fmt.Sprintf("%s replaces %s", name, old))
			}
		}
	}
	slices.Sort(violations)
	return violations
}

// undocumentedDependencies compares docs/dependencies.md with the modules that the code imports. A line may also stand
// for a module that go.mod marks as indirect: we then pin its version for code below or beside ours.
func undocumentedDependencies(repo repository) []string {
	mod := readGoMod(repo.texts["go.mod"])
	reasons, violations := readReasons(repo.texts[dependencyList])
	imported := map[string]string{}
	for _, s := range repo.own() {
		for _, target := range slices.Sorted(maps.Keys(s.imports())) {
			if _, own := dirOf(target); own || isStd(target) {
				continue
			}
			module := mod.moduleOf(target)
			if module == "" {
				violations = append(violations, fmt.Sprintf("%s imports %s, which go.mod does not require", s.path, target))
			} else if imported[module] == "" {
				imported[module] = s.path
			}
		}
	}
	for _, module := range slices.Sorted(maps.Keys(imported)) {
		if reasons[module] == "" {
			violations = append(violations, fmt.Sprintf("%s gives no reason for %s, which %s imports", dependencyList, module, imported[module]))
		}
	}
	for _, module := range slices.Sorted(maps.Keys(reasons)) {
		indirect, required := mod.required[module]
		if imported[module] == "" && (!required || !indirect) {
			violations = append(violations, fmt.Sprintf("%s gives a reason for %s, which nothing imports", dependencyList, module))
		}
	}
	return violations
}

// A goMod is what the rules need of a go.mod file.
type goMod struct {
	required map[string]bool // whether it is marked as indirect, by module
	replaced []string
}

// moduleOf returns the required module that provides a package: the longest that is a prefix of its path.
func (m goMod) moduleOf(target string) string {
	found := ""
	for module := range m.required {
		if within(target, module) && len(module) > len(found) {
			found = module
		}
	}
	return found
}

func readGoMod(text []byte) goMod {
	mod := goMod{required: map[string]bool{}}
	block := ""
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		code, comment, _ := strings.Cut(lines.Text(), "//")
		words := strings.Fields(code)
		switch {
		case len(words) == 0:
			continue
		case words[0] == ")":
			block = ""
			continue
		case len(words) == 2 && words[1] == "(":
			block = words[0]
			continue
		case block != "":
			words = append([]string{block}, words...)
		}
		if len(words) < 2 {
			continue
		}
		switch words[0] {
		case "require":
			mod.required[words[1]] = strings.TrimSpace(comment) == "indirect"
		case "replace":
			mod.replaced = append(mod.replaced, words[1])
		}
	}
	return mod
}

var reasonLine = regexp.MustCompile("^- `([^`]+)`: (.+)$")

// readReasons reads the list of dependencies: one line each, "- `module`: reason".
func readReasons(text []byte) (map[string]string, []string) {
	reasons := map[string]string{}
	var violations []string
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		if !strings.HasPrefix(line, "- ") {
			continue
		}
		match := reasonLine.FindStringSubmatch(line)
		switch {
		case match == nil:
			violations = append(violations, fmt.Sprintf("%s: %q is not \"- `module`: reason\"", dependencyList, line))
		case reasons[match[1]] != "":
			violations = append(violations, fmt.Sprintf("%s lists %s twice", dependencyList, match[1]))
		default:
			reasons[match[1]] = match[2]
		}
	}
	return reasons, violations
}

var dependencyCases = []layoutCase{
	{"replace", replacedModules, map[string]string{"go.mod": "module m\n\nreplace example.com/x => ../x\n"}, "go.mod replaces example.com/x"},
	{"replace in a block", replacedModules, map[string]string{"go.mod": "module m\n\nreplace (\n\texample.com/x v1.0.0 => ../x // for now\n)\n"}, "go.mod replaces example.com/x"},
	{"replace of the root beside it", replacedModules, map[string]string{"interop/go.mod": "module m\n\nreplace " + rootModule + " => ..\n"}, ""},
	{"replace of a module beside it", replacedModules, map[string]string{"peers/go.mod": "module m\n\nreplace " + rootModule + "/a => ../a\n"}, ""},
	{"replace of another in a further module", replacedModules, map[string]string{"interop/go.mod": "module m\n\nreplace example.com/x => ../x\n"}, "interop/go.mod replaces"},
	{"replace in a comment", replacedModules, map[string]string{"go.mod": "module m\n// replace example.com/x => ../x\n"}, ""},

	{"reason and import", undocumentedDependencies, dependencies("example.com/x v1.0.0", "- `example.com/x`: it is needed.", "example.com/x/y"), ""},
	{"no reason", undocumentedDependencies, dependencies("example.com/x v1.0.0", "", "example.com/x/y"), "no reason for example.com/x"},
	{"reason for another major version", undocumentedDependencies, dependencies("example.com/x v1.0.0\n\texample.com/x/v2 v2.0.0 // indirect", "- `example.com/x`: it is needed.\n- `example.com/x/v2`: and pinned.", "example.com/x"), ""},
	{"no import", undocumentedDependencies, dependencies("example.com/x v1.0.0", "- `example.com/x`: it is needed.", "fmt"), "nothing imports"},
	{"not required", undocumentedDependencies, dependencies("", "- `example.com/x`: it is needed.", "fmt"), "nothing imports"},
	{"import that is not required", undocumentedDependencies, dependencies("", "", "example.com/x"), "go.mod does not require"},
	{"pinned", undocumentedDependencies, dependencies("example.com/x v1.0.0 // indirect", "- `example.com/x`: its version is pinned.", "fmt"), ""},
	{"malformed line", undocumentedDependencies, dependencies("example.com/x v1.0.0 // indirect", "- example.com/x is needed", "fmt"), "is not"},
	{"second line", undocumentedDependencies, dependencies("example.com/x v1.0.0", "- `example.com/x`: it is needed.\n- `example.com/x`: twice.", "example.com/x"), "twice"},
}

func dependencies(required, listed, imported string) map[string]string {
	return map[string]string{
		"go.mod":       "module " + rootModule + "\n\nrequire (\n\t" + required + "\n)\n",
		dependencyList: "# Dependencies\n\n" + listed + "\n",
		"mcp/a.go":     "package mcp\nimport _ \"" + imported + "\"\n",
	}
}
