package mutate

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// mutation is a change of one place of the code, by which a promise would be broken.
type mutation struct {
	promise  string // what users have of the place as it is
	in       string // the folder of the package that is changed
	tests    string // the folder whose tests have to catch it; "" is that of the package
	run      string // those of the tests that are run, as of go test -run; "" is all
	old, new string // the pattern of the place, which the package has once, and what comes there instead, with the names of the pattern
}

// testFolder is the folder of the tests that have to catch the mutation.
func (m *mutation) testFolder() string {
	if m.tests != "" {
		return m.tests
	}
	return m.in
}

// tree is the repository, with the packages that have been read.
type tree struct {
	root     string
	packages map[string][]source
}

// source is a file.
type source struct {
	name  string // from the root of the repository, with slashes
	text  []byte
	words []word
}

// readPackage returns the files of a package without its tests.
func (t *tree) readPackage(folder string) ([]source, error) {
	all, known := t.packages[folder]
	if known {
		return all, nil
	}
	names, err := filepath.Glob(filepath.Join(t.root, filepath.FromSlash(folder), "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if name, err = filepath.Rel(t.root, name); err != nil {
			return nil, err
		}
		all = append(all, source{filepath.ToSlash(name), text, wordsOf(text)})
	}
	if t.packages == nil {
		t.packages = map[string][]source{}
	}
	t.packages[folder] = all
	return all, nil
}

// applyMutation returns the file that a mutation changes, and its text with the change.
func (t *tree) applyMutation(m *mutation) (file string, text []byte, err error) {
	p, err := parsePattern(m.old)
	if err != nil {
		return "", nil, err
	}
	sources, err := t.readPackage(m.in)
	if err != nil {
		return "", nil, err
	}
	var found []string
	for _, s := range sources {
		for _, at := range p.findPlaces(s.words) {
			found = append(found, s.name)
			instead, err := fillNames(m.new, at.names)
			if err != nil {
				return "", nil, err
			}
			if at.from == at.to {
				instead = " " + instead // the word before may be a name
			}
			file, text = s.name, []byte(string(s.text[:at.from])+instead+string(s.text[at.to:]))
		}
	}
	if len(found) != 1 {
		return "", nil, fmt.Errorf("%s has the pattern %d times, want once: %s", m.in, len(found), strings.Join(found, " "))
	}
	return file, text, nil
}

// hole is a name in the text that comes in the place of what a pattern has found.
var hole = regexp.MustCompile(`\$\w+`)

// fillNames puts what names stand for into a text.
func fillNames(text string, names map[string]string) (string, error) {
	var unknown []string
	text = hole.ReplaceAllStringFunc(text, func(name string) string {
		if _, ok := names[name[1:]]; !ok {
			unknown = append(unknown, name)
		}
		return names[name[1:]]
	})
	if unknown != nil {
		return "", fmt.Errorf("the pattern has no %s", strings.Join(unknown, " "))
	}
	return text, nil
}
