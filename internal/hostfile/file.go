package hostfile

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend/naming"
	"github.com/troupe-run/troupe/internal/configfile"
)

// File is what a file says of backends.
type File struct {
	// Path is that of the file.
	Path string
	// Backends are in the order of the file, those that are disabled or wrong among them.
	Backends []Backend
	// Notes are what a reader of the file may take to have an effect, and has none.
	Notes []Note
}

// A Note is something that a file says in vain.
type Note struct {
	Path string
	Line int // from 1
	At   string
	Text string
}

func (n Note) String() string { return fmt.Sprintf("%s:%d: %s: %s", n.Path, n.Line, n.At, n.Text) }

// Error is a mistake in a file. Its text has no value of the file.
type Error struct {
	Path string
	Line int    // from 1
	At   string // the place in the file, such as mcpServers.memory.env
	Err  error
}

func (e *Error) Error() string {
	if e.At == "" {
		return fmt.Sprintf("%s:%d: %v", e.Path, e.Line, e.Err)
	}
	return fmt.Sprintf("%s:%d: %s: %v", e.Path, e.Line, e.At, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// A Backend is one server of a file.
type Backend struct {
	// Name is [A-Za-z0-9_-], and no other backend of the file that is to run and can has it.
	Name string
	// As is what the file calls it, where that cannot be a name.
	As string
	// Path and Line are where it stands.
	Path string
	Line int
	// Disabled says that it is not to run.
	Disabled bool
	// Err is nil, or everything that is wrong with it: each an *Error. Target and Options then have what was right.
	Err error
	// Target and Options are what it is. Options.Env has the variables of Options.EnvFile, and Options.Hide all that is secret.
	Target  host.Target
	Options host.Options

	at      string // its place in the file
	shown   shown
	secrets []string
}

// Usable reports whether it is to run, and can.
func (b Backend) Usable() bool { return !b.Disabled && b.Err == nil }

// String returns the name.
func (b Backend) String() string { return b.Name }

// GoString is String for %#v.
func (b Backend) GoString() string { return fmt.Sprintf("hostfile.Backend(%q)", b.Name) }

// LogValue has the name, and the target.
func (b Backend) LogValue() slog.Value {
	return slog.GroupValue(slog.String("name", b.Name), slog.String("target", b.Mask(b.Target.String())))
}

// MarshalJSON writes what LogValue has.
func (b Backend) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"name": b.Name, "target": b.Mask(b.Target.String())})
}

// Load reads a file of this machine.
func Load(path string) (*File, error) {
	from, err := SystemSource(path)
	if err != nil {
		return nil, err
	}
	data, err := from.ReadFile(from.Path)
	if err != nil {
		return nil, err
	}
	return Read(data, from)
}

// Read reads what people have: mcpServers, or servers. The error is that of a file of which nothing can be used: an [*Error].
func Read(data []byte, from Source) (*File, error) {
	f := &File{Path: from.Path}
	root, err := readJSON(data)
	if err != nil {
		return nil, f.withPath(err)
	}
	if root.kind != mapping {
		return nil, f.withPath(&lineError{root.line, errors.New("want an object with mcpServers or servers")})
	}
	servers, at, err := root.findServers()
	if err != nil {
		return nil, f.withPath(err)
	}
	x := &expander{Source: from}
	x.inputs = f.readInputs(cmp.Or(root.find("inputs"), root.find("mcp").findIn("inputs")))
	f.readBackends(servers, at, x, clientKeys)
	f.chooseAllowed(root.find("mcp"))
	f.refuseNameClashes()
	return f, nil
}

// serverKeys are the keys under which files have their servers.
var serverKeys = []string{"mcpServers", "servers"}

// findServers finds the mapping of servers, and its place.
func (n *node) findServers() (found *node, at string, err error) {
	for _, e := range n.entries {
		if !slices.Contains(serverKeys, e.name) {
			continue
		}
		if found != nil {
			return nil, "", &lineError{e.line, fmt.Errorf("%s: there is %s already: keep one of them", e.name, at)}
		}
		found, at = e.value, e.name
	}
	if found == nil { // settings of VS Code had them one level down
		found, at = n.find("mcp").findIn("servers"), "mcp.servers"
	}
	switch {
	case found == nil:
		line, near := n.line, ""
		for _, e := range n.entries {
			if near = configfile.Nearest(e.name, serverKeys); near != "" {
				line = e.line
				break
			}
		}
		return nil, "", &lineError{line, errors.New("there is neither mcpServers nor servers" + near)}
	case found.kind != mapping:
		return nil, "", &lineError{found.line, fmt.Errorf("%s: want an object of names and servers", at)}
	}
	return found, at, nil
}

// withPath is the error of a file of which nothing can be used.
func (f *File) withPath(err error) error {
	line := 1
	if at, ok := errors.AsType[*lineError](err); ok {
		line, err = at.line, at.err
	}
	return &Error{Path: f.Path, Line: line, Err: err}
}

func (f *File) note(line int, at, text string) {
	f.Notes = append(f.Notes, Note{f.Path, line, at, text})
}

// mostBackends bounds the backends of a file.
const mostBackends = 1000

// readBackends reads a mapping of names to backends.
func (f *File) readBackends(n *node, at string, x *expander, keys *keyTable) {
	first := make(map[string]int) // the line of each name
	for i, e := range n.entries {
		r := &reading{values: values{path: f.Path, x: x, strict: keys.strict}, file: f, keys: keys, b: Backend{Path: f.Path, Line: e.line}, at: keyPlace(at, e.name)}
		r.b.Name, r.b.at = e.name, r.at
		switch line, twice := first[e.name]; {
		case e.odd:
			r.addFault(e.line, at, errors.New("a name must be a text: put it in quotes"))
		case twice:
			r.addFault(e.line, r.at, fmt.Errorf("set twice: first in line %d", line))
		case i >= mostBackends:
			r.addFault(e.line, r.at, fmt.Errorf("more than %d backends: it and those behind it are left out", mostBackends))
		default:
			first[e.name] = e.line
			r.readName(e)
			r.readBackend(e.value, e.line)
		}
		r.b.Err = errors.Join(r.faults...)
		f.Backends = append(f.Backends, r.b)
		if i >= mostBackends {
			return
		}
	}
}

// chooseAllowed disables what a list of Gemini says not to use.
func (f *File) chooseAllowed(mcp *node) {
	names := func(key string) (names []string, listed bool) {
		l := mcp.findIn(key)
		if l == nil || l.kind != list {
			return nil, false
		}
		for _, i := range l.items {
			names = append(names, i.text)
		}
		return names, true
	}
	allowed, some := names("allowed")
	excluded, _ := names("excluded")
	for i := range f.Backends {
		b := &f.Backends[i]
		name := cmp.Or(b.As, b.Name)
		if some && !slices.Contains(allowed, name) || slices.Contains(excluded, name) {
			b.Disabled = true
		}
	}
}

// refuseNameClashes gives a backend an error whose name, or whose prefix, would make its items those of an earlier one. Disabled
// ones do not count.
func (f *File) refuseNameClashes() {
	for i := range f.Backends {
		b := &f.Backends[i]
		for j := range f.Backends[:i] {
			other := &f.Backends[j]
			if b.Disabled || other.Disabled {
				continue
			}
			p, q := naming.Prefix(b.Name, b.Options.Prefix), naming.Prefix(other.Name, other.Options.Prefix)
			switch {
			case b.Name == other.Name && cmp.Or(b.As, b.Name) != cmp.Or(other.As, other.Name):
				b.addFault(fmt.Errorf("it would be called %s, as the one in line %d is: rename one of them", b.Name, other.Line))
			case b.Name == other.Name && b.Path != other.Path:
				b.addFault(fmt.Errorf("there is one of this name in %s:%d", other.Path, other.Line))
			case b.Name != other.Name && naming.Clash(p, q):
				b.addFault(fmt.Errorf("its prefix %q and that of %s, %q, begin alike, so that two tools could have one name: rename one of them", p, other.Name, q))
			default:
				continue
			}
			break
		}
	}
}

// addFault adds a mistake about the backend as a whole.
func (b *Backend) addFault(err error) {
	b.Err = errors.Join(b.Err, &Error{b.Path, b.Line, b.at, err})
}

// Join is what several files say together, in their order. A name that two of them have is an error of the later one.
func Join(files ...*File) *File {
	if len(files) == 1 {
		return files[0]
	}
	all := new(File)
	for _, f := range files {
		if all.Path == "" {
			all.Path = f.Path
		}
		all.Backends, all.Notes = append(all.Backends, f.Backends...), append(all.Notes, f.Notes...)
	}
	all.refuseNameClashes()
	return all
}

// Mistakes returns the errors of all backends that another file would not have: those that are not ErrUnset.
func (f *File) Mistakes() (all []*Error) {
	for _, b := range f.Backends {
		for _, err := range b.faults() {
			if !errors.Is(err, ErrUnset) {
				all = append(all, err)
			}
		}
	}
	return all
}

// faults are the mistakes that Err has.
func (b Backend) faults() (all []*Error) {
	var add func(error)
	add = func(err error) {
		switch err := err.(type) {
		case *Error:
			all = append(all, err)
		case interface{ Unwrap() []error }:
			for _, e := range err.Unwrap() {
				add(e)
			}
		}
	}
	add(b.Err)
	return all
}
