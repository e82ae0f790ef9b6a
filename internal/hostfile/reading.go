package hostfile

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/configfile"
)

// reading is the reading of one backend.
type reading struct {
	values
	file *File
	keys *keyring
	b    Backend
	at   string // its place

	name    string // of its command
	args    []string
	urls    []entry // each key that gave a URL, with its value
	kind    *node   // what says how it is spoken to
	command bool    // the file names one
	envFile *node
	lines   map[string]int // of keys, for faults that show once all is read
}

// A keyring has the keys that a backend may have.
type keyring struct {
	strict bool
	read   map[string]func(r *reading, n *node, at string)
}

func (r *reading) note(line int, at, text string) { r.file.note(line, at, text) }

// readBackend reads the mapping of a backend.
func (r *reading) readBackend(n *node, line int) {
	if n.kind != mapping {
		r.fault(n.line, r.at, errNoMapping)
		return
	}
	r.lines = make(map[string]int)
	for _, e := range n.entries {
		at := below(r.at, e.name)
		read, known := r.keys.read[e.name]
		switch {
		case e.odd:
			r.fault(e.line, r.at, errors.New("a key must be a text"))
			continue
		case r.lines[e.name] > 0:
			r.fault(e.line, at, fmt.Errorf("set twice: first in line %d", r.lines[e.name]))
			continue
		}
		r.lines[e.name] = e.line
		if known {
			read(r, e.value, at)
			continue
		}
		nearest := configfile.Nearest(e.name, slices.Sorted(maps.Keys(r.keys.read)))
		if r.strict || nearest != "" {
			r.fault(e.line, at, errors.New("there is no such setting"+nearest))
		} else {
			r.note(e.line, at, "this has no meaning here")
		}
	}
	r.readVariables()
	r.target(line)
	r.defaultDir()
	r.check()
	r.b.secrets = usefulSecrets(r.secrets)
	r.b.Options.Hide = hiddenTexts(r.secrets)
}

// readVariables reads the file of variables, below those of the backend itself.
func (r *reading) readVariables() {
	if r.envFile == nil {
		return
	}
	at := below(r.at, r.keys.envFile())
	path, ok := r.expanded(r.envFile, at, false)
	if !ok || path == "" {
		return
	}
	path = r.x.path(path)
	data, err := r.x.ReadFile(path)
	if err != nil {
		r.fault(r.envFile.line, at, unsetf("%s %v", r.x.showPath(r.envFile.text), unreadable(err)))
		return
	}
	all, err := ReadVariables(r.x.showPath(r.envFile.text), data)
	if err != nil {
		r.fault(r.envFile.line, at, err)
		return
	}
	r.b.shown.envFile = r.envFile.text
	r.b.Options.EnvFile = path
	if r.b.Options.Env == nil {
		r.b.Options.Env = make(host.Secrets)
	}
	for name, value := range all {
		if _, own := r.b.Options.Env[name]; !own {
			r.b.Options.Env[name] = value
			r.secrets = append(r.secrets, value)
		}
	}
}

func (k *keyring) envFile() string {
	if k.strict {
		return "env-file"
	}
	return "envFile"
}

// defaultDir has a command run in the folder of a project whose file names no directory, as it does in the clients.
func (r *reading) defaultDir() {
	if _, _, ok := r.b.Target.Command(); ok && r.b.Options.Dir == "" && !r.strict && r.x.inProject() {
		r.b.Options.Dir = r.x.folder()
	}
}

// target makes a target of what was read.
func (r *reading) target(line int) {
	transport := r.transport()
	switch {
	case r.command && len(r.urls) > 0:
		r.fault(r.urls[0].line, below(r.at, r.urls[0].name), errors.New("there is a command, too: a backend is a command or a URL"))
	case r.command:
		if transport != "" && transport != stdio {
			r.fault(r.kind.line, r.at, errors.New("the type is that of a URL, and there is a command"))
		}
		r.b.Target = host.Command(r.name, r.args...)
	case len(r.urls) > 0:
		if transport == stdio {
			r.fault(r.kind.line, r.at, errors.New("the type is that of a command, and there is a URL"))
		}
		r.b.Target = host.URL(r.urls[0].value.text)
		if transport == string(host.SSE) || transport == string(host.HTTP) && r.strict {
			r.b.Options.Transport = host.Transport(transport)
		}
	case len(r.faults) == 0: // otherwise one of them may be what was meant
		r.fault(line, r.at, errors.New("there is neither a command nor a url"))
	}
}

const stdio = "stdio"

// transports are the words of files for how a server is spoken to.
var transports = map[string]string{
	"stdio": stdio, "local": stdio, "http": "http", "streamable-http": "http", "streamableHttp": "http", "streamable_http": "http", "streamablehttp": "http", "remote": "http", "sse": "sse",
}

// transport returns stdio, http, sse, or "" where the file does not say, or nothing that is known.
func (r *reading) transport() string {
	if r.kind == nil {
		return ""
	}
	word, ok := transports[r.kind.text]
	if r.kind.kind != text || !ok || r.strict && (word != r.kind.text || word == stdio) {
		r.fault(r.kind.line, below(r.at, r.keys.kind()), errors.New("want "+r.keys.kinds()))
		return ""
	}
	return word
}

func (k *keyring) kind() string {
	if k.strict {
		return "transport"
	}
	return "type"
}

func (k *keyring) kinds() string {
	if k.strict {
		return "http or sse"
	}
	return "stdio, http or sse"
}

// check has package host judge what was read. Its error names fields, which are keys of the file here.
func (r *reading) check() {
	_, _, isCommand := r.b.Target.Command()
	if _, isURL := r.b.Target.URL(); !isCommand && !isURL {
		return // that is a fault already
	}
	err := r.b.Options.Check(r.b.Target)
	if err == nil {
		return
	}
	for _, fault := range err.(interface{ Unwrap() []error }).Unwrap() {
		key, inner, rest := r.keys.keyOf(fault.Error())
		line := r.b.Line
		if l := r.lines[key]; l > 0 {
			line = l
		}
		r.fault(line, below(r.at, key)+inner, errors.New(rest))
	}
}
