package hostfile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/configfile"
)

// reading is the reading of one backend.
type reading struct {
	values
	file *File
	keys *keyTable
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

// A keyTable has the keys that a backend may have.
type keyTable struct {
	strict bool
	read   map[string]func(r *reading, n *node, at string)
}

func (r *reading) note(line int, at, text string) { r.file.note(line, at, text) }

// readBackend reads the mapping of a backend.
func (r *reading) readBackend(n *node, line int) {
	if n.kind != mapping {
		r.addFault(n.line, r.at, errNoMapping)
		return
	}
	r.lines = make(map[string]int)
	for _, e := range n.entries {
		at := keyPlace(r.at, e.name)
		read, known := r.keys.read[e.name]
		switch {
		case e.odd:
			r.addFault(e.line, r.at, errors.New("a key must be a text"))
			continue
		case r.lines[e.name] > 0:
			r.addFault(e.line, at, fmt.Errorf("set twice: first in line %d", r.lines[e.name]))
			continue
		}
		r.lines[e.name] = e.line
		if known {
			read(r, e.value, at)
			continue
		}
		nearest := configfile.Nearest(e.name, slices.Sorted(maps.Keys(r.keys.read)))
		if r.strict || nearest != "" {
			r.addFault(e.line, at, errors.New("there is no such setting"+nearest))
		} else {
			r.note(e.line, at, "this has no meaning here")
		}
	}
	r.readEnvFile()
	r.setTarget(line)
	r.setDefaultDir()
	r.checkOptions()
	r.b.secrets = usefulSecrets(r.secrets)
	r.b.Options.Hide = hiddenTexts(r.secrets)
}

// readEnvFile reads the file of variables, below those of the backend itself.
func (r *reading) readEnvFile() {
	if r.envFile == nil {
		return
	}
	at := keyPlace(r.at, r.keys.envFileKey())
	path, ok := r.expandText(r.envFile, at, false)
	if !ok || path == "" {
		return
	}
	path = r.x.path(path)
	data, err := r.x.ReadFile(path)
	if err != nil {
		r.addFault(r.envFile.line, at, unsetErrorf("%s %v", r.x.showPath(r.envFile.text), readFailure(err)))
		return
	}
	all, err := ReadVariables(r.x.showPath(r.envFile.text), data)
	if err != nil {
		r.addFault(r.envFile.line, at, err)
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

func (k *keyTable) envFileKey() string {
	if k.strict {
		return "env-file"
	}
	return "envFile"
}

// setDefaultDir has a command run in the folder of a project whose file names no directory, as it does in the clients.
func (r *reading) setDefaultDir() {
	if _, _, ok := r.b.Target.Command(); ok && r.b.Options.Dir == "" && !r.strict && r.x.inProject() {
		r.b.Options.Dir = r.x.folder()
	}
}

// setTarget makes a target of what was read.
func (r *reading) setTarget(line int) {
	transport := r.readTransport()
	switch {
	case r.command && len(r.urls) > 0:
		r.addFault(r.urls[0].line, keyPlace(r.at, r.urls[0].name), errors.New("there is a command, too: a backend is a command or a URL"))
	case r.command:
		if transport != "" && transport != stdio {
			r.addFault(r.kind.line, r.at, errors.New("the type is that of a URL, and there is a command"))
		}
		r.b.Target = host.Command(r.name, r.args...)
	case len(r.urls) > 0:
		if transport == stdio {
			r.addFault(r.kind.line, r.at, errors.New("the type is that of a command, and there is a URL"))
		}
		r.b.Target = host.URL(r.urls[0].value.text)
		if transport == string(host.SSE) || transport == string(host.HTTP) && r.strict {
			r.b.Options.Transport = host.Transport(transport)
		}
	case len(r.faults) == 0: // otherwise one of them may be what was meant
		r.addFault(line, r.at, errors.New("there is neither a command nor a url"))
	}
}

const stdio = "stdio"

// transports are the words of files for how a server is spoken to.
var transports = map[string]string{
	"stdio": stdio, "local": stdio, "http": "http", "streamable-http": "http", "streamableHttp": "http", "streamable_http": "http", "streamablehttp": "http", "remote": "http", "sse": "sse",
}

// readTransport returns stdio, http, sse, or "" where the file does not say, or nothing that is known.
func (r *reading) readTransport() string {
	if r.kind == nil {
		return ""
	}
	word, ok := transports[r.kind.text]
	if r.kind.kind != text || !ok || r.strict && (word != r.kind.text || word == stdio) {
		r.addFault(r.kind.line, keyPlace(r.at, r.keys.kindKey()), errors.New("want "+r.keys.kindWords()))
		return ""
	}
	return word
}

func (k *keyTable) kindKey() string {
	if k.strict {
		return "transport"
	}
	return "type"
}

func (k *keyTable) kindWords() string {
	if k.strict {
		return "http or sse"
	}
	return "stdio, http or sse"
}

// checkOptions has package host judge what was read. Its error names fields, which are keys of the file here.
func (r *reading) checkOptions() {
	_, _, isCommand := r.b.Target.Command()
	if _, isURL := r.b.Target.URL(); !isCommand && !isURL {
		return // that is a fault already
	}
	err := r.b.Options.Check(r.b.Target)
	if err == nil {
		return
	}
	for _, fault := range err.(interface{ Unwrap() []error }).Unwrap() {
		key, inner, rest := r.keys.splitFault(fault.Error())
		line := r.b.Line
		if l := r.lines[key]; l > 0 {
			line = l
		}
		r.addFault(line, keyPlace(r.at, key)+inner, errors.New(rest))
	}
}

func (r *reading) readCommand(n *node, at string) {
	name, ok := r.expandText(n, at, false)
	if ok && name == "" && !r.strict {
		return // as some clients write for a URL
	}
	r.command = true
	r.name, r.b.shown.command = name, n.text
	if ok && name == "" {
		r.addFault(n.line, at, errors.New("the command has no name"))
	}
	if !r.strict && r.lines["args"] == 0 && strings.Contains(strings.TrimSpace(n.text), " ") && !strings.ContainsAny(n.text, `/\`) {
		r.note(n.line, at, "this is the name of one program, with its spaces: arguments belong into args")
	}
}

func (r *reading) readArgs(n *node, at string) {
	if n.kind == null && !r.strict {
		return
	}
	r.args = r.expandTexts(n, at)
	for _, v := range n.items {
		r.b.shown.args = append(r.b.shown.args, v.text)
	}
	r.secrets = append(r.secrets, secretArguments(r.args)...)
}

func (r *reading) readEnv(n *node, at string) { r.b.Options.Env = r.secretMap(n, at) }

func (r *reading) readDir(n *node, at string) {
	if dir, ok := r.expandText(n, at, false); ok && dir != "" {
		r.b.Options.Dir, r.b.shown.dir = r.x.path(dir), n.text
	}
}

func (r *reading) readKind(n *node, _ string) { r.kind = n }

// readURL reads a URL. Of url and httpUrl, which Gemini has for HTTP+SSE and Streamable HTTP, the latter counts.
func (r *reading) readURL(key string, n *node, at string) {
	url, ok := r.expandText(n, at, false)
	switch {
	case !ok, url == "" && !r.strict: // as some clients write for a command
		return
	case url == "":
		r.addFault(n.line, at, errors.New("the URL is empty"))
		return
	}
	u := entry{name: key, line: n.line, value: &node{text: url}}
	if len(r.urls) > 0 {
		if other := r.urls[0].name; key == "serverUrl" || other == "serverUrl" {
			r.addFault(n.line, at, errors.New("there is "+other+", too: set one of them"))
			return
		}
		if key != "httpUrl" {
			return
		}
	}
	r.urls, r.b.shown.url = []entry{u}, n.text
	r.secrets = append(r.secrets, secretParts(url)...)
}

func (r *reading) readHeaders(n *node, at string) {
	r.b.Options.Headers = r.secretMap(n, at)
	for _, value := range r.b.Options.Headers {
		if _, credential, ok := strings.Cut(value, " "); ok { // behind a scheme, such as Bearer
			r.secrets = append(r.secrets, credential)
		}
	}
}

func (r *reading) allowTools(n *node, at string) {
	r.b.Options.Tools.Allow = append(r.b.Options.Tools.Allow, r.toolNames(n, at)...)
	if all := r.b.Options.Tools.Allow; n.kind == list && len(all) == 0 {
		r.b.Options.Tools.Deny = append(r.b.Options.Tools.Deny, "*") // a list of none allows none
	} else if slices.Contains(all, "*") {
		r.b.Options.Tools.Allow = nil
	}
}

func (r *reading) denyTools(n *node, at string) {
	r.b.Options.Tools.Deny = append(r.b.Options.Tools.Deny, r.toolNames(n, at)...)
}

// toolNames reads names of tools. Gemini allows arguments behind a name, in brackets, which it checks by itself.
func (r *reading) toolNames(n *node, at string) (names []string) {
	for _, name := range r.texts(n, at) {
		name, _, _ = strings.Cut(name, "(")
		names = append(names, name)
	}
	return names
}

// readName takes the key of a backend as its name.
func (r *reading) readName(e entry) {
	switch {
	case goodName.MatchString(e.name):
	case r.strict:
		r.addFault(e.line, r.at, errNoName)
		r.b.Name, r.b.As = cleanName(e.name), e.name
	case e.name == "":
		r.addFault(e.line, r.at, errors.New("a server has no name"))
	default:
		r.b.Name, r.b.As = cleanName(e.name), e.name
		r.note(e.line, r.at, "it is called "+r.b.Name+" here: names have A-Z a-z 0-9 _ - alone")
	}
}
