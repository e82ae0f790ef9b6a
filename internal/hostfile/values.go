package hostfile

import (
	"errors"
	"maps"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/configfile"
)

// values reads the values of one backend, and keeps what is wrong with them, and what is secret.
type values struct {
	path    string // of the file
	x       *expander
	strict  bool
	faults  []error
	secrets []string
}

func (v *values) addFault(line int, at string, err error) {
	v.faults = append(v.faults, &Error{v.path, line, at, err})
}

// bareReference matches a value that Gemini takes for a reference. Written so, nobody means a text.
var bareReference = regexp.MustCompile(`^([A-Za-z]+ )?\$([A-Z_][A-Z0-9_]*)$`)

// text reads a text without references.
func (v *values) text(n *node, at string) (string, bool) {
	switch n.kind {
	case text:
		return n.text, true
	case number, boolean:
		if !v.strict {
			return n.text, true
		}
		v.addFault(n.line, at, errNotQuoted)
	default:
		v.addFault(n.line, at, errNoText)
	}
	return "", false
}

// texts reads a list of texts without references.
func (v *values) texts(n *node, at string) (all []string) {
	if n.kind != list {
		v.addFault(n.line, at, errNoTexts)
		return nil
	}
	for i, one := range n.items {
		if s, ok := v.text(one, itemPlace(at, i)); ok {
			all = append(all, s)
		}
	}
	return all
}

// expandText reads a text, and puts in what its references name. secret says that all of it is.
func (v *values) expandText(n *node, at string, secret bool) (whole string, ok bool) {
	plain, ok := v.text(n, at)
	if !ok {
		return "", false
	}
	whole, came, err := v.x.expand(plain)
	if err != nil {
		v.addFault(n.line, at, err)
		return "", false
	}
	v.secrets = append(v.secrets, came...)
	if secret {
		v.secrets = append(v.secrets, whole)
	}
	return whole, true
}

// expandTexts reads a list of texts with references.
func (v *values) expandTexts(n *node, at string) (all []string) {
	if n.kind != list {
		v.addFault(n.line, at, errNoTexts)
		return nil
	}
	for i, one := range n.items {
		s, _ := v.expandText(one, itemPlace(at, i), false)
		all = append(all, s)
	}
	return all
}

// secretMap reads names and secret values. In the files of clients one that is null is left out, and $NAME alone, or behind a
// word such as Bearer, is a reference.
func (v *values) secretMap(n *node, at string) host.Secrets {
	if n.kind == null && !v.strict {
		return nil
	}
	if n.kind != mapping {
		v.addFault(n.line, at, errNoMapping)
		return nil
	}
	all := make(host.Secrets)
	for _, e := range n.entries {
		at, value := keyPlace(at, e.name), e.value
		_, twice := all[e.name]
		switch {
		case e.odd:
			v.addFault(e.line, at, errors.New("a key must be a text"))
			continue
		case twice:
			v.addFault(e.line, at, errors.New("set twice"))
			continue
		case value.kind == null && !v.strict:
			continue
		case value.kind == text && !v.strict:
			value = &node{kind: text, line: value.line, text: bareReference.ReplaceAllString(value.text, "$1$${$2}")}
		}
		all[e.name], _ = v.expandText(value, at, true)
	}
	return all
}

// textLists reads lists of texts by names.
func (v *values) textLists(n *node, at string) map[string][]string {
	all := make(map[string][]string)
	read := make(map[string]func(*node, string))
	for _, e := range n.entries {
		read[e.name] = func(n *node, at string) { all[e.name] = v.texts(n, at) }
	}
	v.mapping(n, at, read)
	return all
}

func (v *values) bool(n *node, at string) bool {
	if n.kind != boolean {
		v.addFault(n.line, at, errNoBool)
	}
	return n.kind == boolean && n.text == "true"
}

// mapping reads a mapping of which every key is known.
func (v *values) mapping(n *node, at string, read map[string]func(*node, string)) {
	if n.kind != mapping {
		v.addFault(n.line, at, errNoMapping)
		return
	}
	seen := make(map[string]bool)
	for _, e := range n.entries {
		at := keyPlace(at, e.name)
		switch {
		case e.odd:
			v.addFault(e.line, at, errors.New("a key must be a text"))
		case seen[e.name]:
			v.addFault(e.line, at, errors.New("set twice"))
		case read[e.name] == nil:
			v.addFault(e.line, at, errors.New("there is no such setting"+configfile.Nearest(e.name, slices.Sorted(maps.Keys(read)))))
		default:
			seen[e.name] = true
			read[e.name](e.value, at)
		}
	}
}

// setWord reads a word, which package host judges.
func setWord[T ~string](v *values, n *node, at string, into *T) {
	switch s, ok := v.text(n, at); {
	case ok && s == "":
		v.addFault(n.line, at, errNoText)
	case ok:
		*into = T(s)
	}
}

// paths reads paths with references, and makes them absolute.
func (v *values) paths(n *node, at string) (all []string) {
	for _, p := range v.expandTexts(n, at) {
		if p != "" {
			all = append(all, v.x.path(p))
		}
	}
	return all
}

// fileURI makes a URI of a path.
func (v *values) fileURI(path string) string {
	if strings.HasPrefix(path, "file://") {
		return path
	}
	slashes := filepath.ToSlash(v.x.path(path))
	if windowsPath.MatchString(slashes) {
		slashes = "/" + strings.ReplaceAll(slashes, `\`, "/")
	}
	return (&url.URL{Scheme: "file", Path: slashes}).String()
}

// zeroToUnlimited turns the 0 of a file into the negative value of an option, where both mean no limit.
func zeroToUnlimited[T int | time.Duration | float64](value T) T {
	if value == 0 {
		return -1
	}
	return value
}

// readPositive reads a value, and refuses 0 where that would mean no limit.
func readPositive[T int | time.Duration](v *values, n *node, at string, read func(*node, string) T) T {
	faults := len(v.faults)
	value := read(n, at)
	if value == 0 && len(v.faults) == faults {
		v.addFault(n.line, at, errors.New("must be more than 0"))
	}
	return value
}

func (v *values) count(n *node, at string) int {
	i, err := strconv.Atoi(n.text)
	if n.kind != number || err != nil || i < 0 || i > 1<<30 {
		v.addFault(n.line, at, errors.New("want a whole number from 0 on"))
		return 0
	}
	return i
}

func (v *values) rate(n *node, at string) float64 {
	f, err := strconv.ParseFloat(n.text, 64)
	if n.kind != number || err != nil || f < 0 {
		v.addFault(n.line, at, errors.New("want a number from 0 on"))
		return 0
	}
	return f
}

func (v *values) duration(n *node, at string) time.Duration {
	if n.kind == number && n.text == "0" {
		return 0
	}
	d, err := time.ParseDuration(n.text)
	if n.kind != text || err != nil || d < 0 {
		v.addFault(n.line, at, errors.New("want a time with its unit, such as 90s or 72h"))
		return 0
	}
	return d
}

func (v *values) size(n *node, at string) int64 {
	bytes, ok := configfile.ParseSize(n.text)
	if n.kind != number && n.kind != text || !ok {
		v.addFault(n.line, at, errors.New("want a size such as 512MiB"))
		return 0
	}
	return bytes
}
