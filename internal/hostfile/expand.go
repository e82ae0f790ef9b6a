package hostfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/internal/configfile"
)

// ErrUnset is the error of a backend whose configuration names a variable, a file or an input that is not there. It may be
// there at the next start, while any other error needs another file.
var ErrUnset = errors.New("nothing is there to put in")

// unsetError is an error that is ErrUnset, in words of its own.
type unsetError struct{ text string }

func (e unsetError) Error() string        { return e.text }
func (e unsetError) Is(target error) bool { return target == ErrUnset }

func unsetErrorf(format string, args ...any) error { return unsetError{fmt.Sprintf(format, args...)} }

// inheritedVariables are the variables that each command gets. Their values are no secrets.
var inheritedVariables = []string{"HOME", "PATH", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TZ", "PWD", "TMPDIR"}

// predefined are the references without a value of their own in the environment.
var predefined = []string{"workspaceFolder", "workspaceFolderBasename", "userHome", "pathSeparator", "/"}

// expander resolves the references of a file.
type expander struct {
	Source
	inputs map[string]*input
	files  map[string]content // that were read
}

// content is what a file has, or why it cannot be read.
type content struct {
	text string
	err  error
}

// expansion is one text with its references.
type expansion struct {
	*expander
	secrets []string // that came in
}

// mostNested bounds references in one another.
const mostNested = 8

// expand puts in what the references of a text name, and returns which of it is secret.
func (x *expander) expand(text string) (whole string, secrets []string, err error) {
	e := expansion{expander: x}
	whole, err = e.resolve(text, 0)
	return whole, e.secrets, err
}

func (e *expansion) resolve(text string, level int) (string, error) {
	if level > mostNested {
		return "", fmt.Errorf("more than %d references in one another", mostNested)
	}
	var b strings.Builder
	for {
		at := strings.IndexByte(text, '$')
		if at < 0 {
			b.WriteString(text)
			break
		}
		b.WriteString(text[:at])
		switch text = text[at:]; {
		case strings.HasPrefix(text, "$${"):
			b.WriteString("${")
			text = text[3:]
		case strings.HasPrefix(text, "${"):
			end := referenceEnd(text)
			if end < 0 {
				return "", errors.New("a reference that begins with ${ has no end; write $${ for the text ${")
			}
			value, err := e.resolveReference(text[2:end], level)
			if err != nil {
				return "", err
			}
			b.WriteString(value)
			text = text[end+1:]
		default:
			b.WriteByte('$')
			text = text[1:]
		}
		if b.Len() > mostBytes {
			return "", fmt.Errorf("more than %d bytes come out", mostBytes)
		}
	}
	return b.String(), nil
}

// referenceEnd returns where the reference ends with which a text begins, or -1.
func referenceEnd(text string) int {
	open := 0
	for i := 0; i < len(text); i++ {
		switch {
		case strings.HasPrefix(text[i:], "$${"):
			i += 2
		case strings.HasPrefix(text[i:], "${"):
			open++
			i++
		case text[i] == '}':
			if open--; open == 0 {
				return i
			}
		}
	}
	return -1
}

var variable = regexp.MustCompile(`^(env:)?([A-Za-z_][A-Za-z0-9_]*)(:-)?`)

// resolveReference resolves what stands between the braces.
func (e *expansion) resolveReference(body string, level int) (string, error) {
	if path, ok := strings.CutPrefix(body, "file:"); ok {
		return e.resolveFile(path, level)
	}
	if id, ok := strings.CutPrefix(body, "input:"); ok {
		value, err := e.resolveInput(id)
		e.secrets = append(e.secrets, value)
		return value, err
	}
	if slices.Contains(predefined, body) {
		return e.resolvePredefined(body)
	}
	m := variable.FindStringSubmatch(body)
	if m == nil || m[3] == "" && len(m[0]) < len(body) {
		return "", unknownReference(body)
	}
	name := m[2]
	value, ok := e.Lookup(name)
	switch {
	case m[3] != "" && value == "":
		return e.resolve(body[len(m[0]):], level+1)
	case !ok:
		return "", unsetErrorf("the variable %s is not set%s", name, nearestPredefined(name))
	}
	if !slices.Contains(inheritedVariables, name) {
		e.secrets = append(e.secrets, value)
	}
	return value, nil
}

// firstWord matches what may be said of a reference that is none.
var firstWord = regexp.MustCompile(`^[A-Za-z0-9_./]{0,40}`)

// unknownReference is the error of a reference that is none. It has the first word of it alone: the rest may be a secret.
func unknownReference(body string) error {
	return fmt.Errorf("the reference ${%s…} is not known: want ${VAR}, ${VAR:-text}, ${env:VAR}, ${file:PATH}, ${input:ID} or ${%s}; write $${ for the text ${",
		firstWord.FindString(body), strings.Join(predefined, "}, ${"))
}

func nearestPredefined(name string) string {
	return configfile.Nearest(name, predefined[:3])
}

func (e *expansion) resolvePredefined(name string) (string, error) {
	switch name {
	case "workspaceFolder":
		return e.folder(), nil
	case "workspaceFolderBasename":
		return filepath.Base(e.folder()), nil
	case "userHome":
		if e.Home == "" {
			return "", unsetErrorf("it is not known where the user's directory is: set HOME")
		}
		return e.Home, nil
	}
	return string(os.PathSeparator), nil
}

// resolveFile returns the text of a file, which is secret.
func (e *expansion) resolveFile(named string, level int) (string, error) {
	path, err := e.resolve(named, level+1)
	if err != nil {
		return "", err
	}
	if path == "" {
		return "", errors.New("the reference ${file:} names no file")
	}
	c := e.readText(e.path(path))
	if c.err != nil {
		return "", unsetErrorf("%s %v", e.showPath(named), c.err)
	}
	e.secrets = append(e.secrets, c.text)
	return c.text, nil
}

// readText reads a file once.
func (x *expander) readText(path string) content {
	c, ok := x.files[path]
	if ok {
		return c
	}
	data, err := x.ReadFile(path)
	if err != nil {
		c.err = readFailure(err)
	} else if c.text = strings.TrimRight(string(data), "\r\n"); c.text == "" {
		c.err = errors.New("is empty")
	}
	if x.files == nil {
		x.files = make(map[string]content)
	}
	x.files[path] = c
	return c
}

// readFailure is why a file cannot be read, without its path.
func readFailure(err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = at.Err
	}
	return fmt.Errorf("cannot be read: %w", err)
}
