package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// licences are what must be given away with a program: the texts of the licences of all modules that it is linked with, and of Go.
type licences struct {
	texts tree // by module and version, and the path within the module
	spdx  map[string]string
}

// licenceList has the licence of each module, by its SPDX names with commas between them. TestLicences of the root module holds it to
// what the command is linked with.
const licenceList = "docs/licences.md"

var (
	licenceRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\| (?:yes)? ?\\|$")
	// licenceName is a file whose text belongs to a licence. Some modules have those of what they were made from in a directory.
	licenceName = regexp.MustCompile(`(?i)^(un)?licen[sc]e|^(copying|copyright|notice|patents)\b`)
	licenceDir  = regexp.MustCompile(`(?i)^licen[sc]es$`)
)

// collectLicences finds the texts in the module cache: those at the root of each module, and those beside the packages that are linked.
func collectLicences(ctx context.Context, src source, p program) (l licences, err error) {
	l = licences{texts: tree{}, spdx: map[string]string{}}
	list, err := os.ReadFile(filepath.Join(src.dir, licenceList))
	if err != nil {
		return l, err
	}
	for _, row := range licenceRow.FindAllStringSubmatch(string(list), -1) {
		l.spdx[row[1]] = strings.ReplaceAll(row[2], ", ", " AND ")
	}

	const format = "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Version}}\t{{.Dir}}\t{{$.Dir}}{{end}}{{end}}"
	packages, err := output(ctx, src.dir, p.env(), "go", "list", "-deps", "-f", format, "./cmd/troupe")
	if err != nil {
		return l, err
	}
	linked := map[string]bool{}
	for line := range strings.Lines(packages) {
		words := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(words) != 4 {
			continue // a package of Go's, or of ours
		}
		module, version, root, dir := words[0], words[1], words[2], words[3]
		linked[module+"@"+version] = true
		if err := l.addPackage(module+"@"+version, root, dir); err != nil {
			return l, err
		}
	}
	for _, m := range p.info.Deps {
		name := m.Path + "@" + m.Version
		switch {
		case m.Replace != nil:
			return l, fmt.Errorf("it is linked with a replacement of %s, and what is released has none", name)
		case !linked[name]:
			return l, fmt.Errorf("it is linked with %s, which go list does not name", name)
		case l.spdx[m.Path] == "":
			return l, fmt.Errorf("%s has no row for %s", licenceList, m.Path)
		case !l.has(name):
			return l, fmt.Errorf("%s has no text of a licence", name)
		}
		delete(linked, name)
	}
	if len(linked) > 0 {
		return l, fmt.Errorf("go list names modules that it is not linked with: %v", linked)
	}
	goroot, err := output(ctx, src.dir, nil, "go", "env", "GOROOT")
	if err != nil {
		return l, err
	}
	return l, l.addDir("go@"+strings.TrimPrefix(p.info.GoVersion, "go"), goroot, goroot)
}

// has reports whether there is a text for a module.
func (l licences) has(name string) bool {
	for file := range l.texts {
		if strings.HasPrefix(file, name+"/") {
			return true
		}
	}
	return false
}

// addPackage adds the texts of a directory of a module, and of those above it.
func (l licences) addPackage(name, root, dir string) error {
	for {
		if err := l.addDir(name, root, dir); err != nil {
			return err
		}
		if dir == root {
			return nil
		}
		if dir = filepath.Dir(dir); !strings.HasPrefix(dir, root) {
			return fmt.Errorf("%s: %s is not in %s", name, dir, root)
		}
	}
}

// addDir adds the texts of a directory.
func (l licences) addDir(name, root, dir string) error {
	within, err := filepath.Rel(root, dir)
	if err != nil {
		return err
	}
	found, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range found {
		at := filepath.Join(dir, f.Name())
		switch {
		case f.IsDir() && licenceDir.MatchString(f.Name()):
			if err := l.addWhole(path.Join(name, filepath.ToSlash(within), f.Name()), at); err != nil {
				return err
			}
		case f.Type().IsRegular() && licenceName.MatchString(f.Name()) && !slices.Contains([]string{".go", ".s"}, filepath.Ext(f.Name())):
			text, err := os.ReadFile(at)
			if err != nil {
				return err
			}
			l.texts[path.Join(name, filepath.ToSlash(within), f.Name())] = regular(text)
		}
	}
	return nil
}

// addWhole adds all files below a directory, each of which is a text.
func (l licences) addWhole(name, dir string) error {
	return fs.WalkDir(os.DirFS(dir), ".", func(file string, f fs.DirEntry, err error) error {
		if err != nil || !f.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(file)))
		l.texts[path.Join(name, file)] = regular(text)
		return err
	})
}

// readSource reads files of the commit, which must all be there.
func readSource(src source, files ...string) (texts [][]byte, err error) {
	for _, file := range files {
		text, failed := os.ReadFile(filepath.Join(src.dir, filepath.FromSlash(file)))
		err = errors.Join(err, failed)
		texts = append(texts, text)
	}
	return texts, err
}
