package hostfile

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/configfile"
	"github.com/troupe-run/troupe/mcp"
)

// ReadSection reads the section backends of a configuration file into f. Its error is the first mistake that is not ErrUnset,
// for a reader of the file that stops there; f has all backends, and the errors of each.
func ReadSection(f *File, from Source) configfile.Reader {
	return func(n ast.Node, line int, at string) error {
		f.Path = from.Path
		root, err := treeOf(n, line, 0)
		switch {
		case err != nil:
		case root.kind == null:
			return nil
		case root.kind != mapping:
			err = &lineError{root.line, fmt.Errorf("%s: want a mapping of names and backends", at)}
		}
		if wrong, ok := errors.AsType[*lineError](err); ok {
			return &configfile.Error{Line: wrong.line, Err: wrong.err}
		}
		f.readBackends(root, at, &expander{Source: from}, ownKeys)
		f.refuseNameClashes()
		for _, wrong := range f.Mistakes() {
			return &configfile.Error{Line: wrong.Line, Err: fmt.Errorf("%s: %w", wrong.At, wrong.Err)}
		}
		return nil
	}
}

// ownKeys are the keys of a backend in the section.
var ownKeys = &keyTable{strict: true, read: map[string]func(r *reading, n *node, at string){
	"command":  (*reading).readCommand,
	"args":     (*reading).readArgs,
	"env":      (*reading).readEnv,
	"env-file": func(r *reading, n *node, _ string) { r.envFile = n },
	"cwd":      (*reading).readDir,

	"url":          func(r *reading, n *node, at string) { r.readURL("url", n, at) },
	"transport":    (*reading).readKind,
	"headers":      (*reading).readHeaders,
	"pass-headers": func(r *reading, n *node, at string) { r.b.Options.PassHeaders = r.texts(n, at) },

	"disabled":  func(r *reading, n *node, at string) { r.b.Disabled = r.bool(n, at) },
	"isolation": func(r *reading, n *node, at string) { setWord(&r.values, n, at, &r.b.Options.Isolation) },
	"era":       func(r *reading, n *node, at string) { setWord(&r.values, n, at, &r.b.Options.Era) },
	"prefix":    func(r *reading, n *node, at string) { setWord(&r.values, n, at, &r.b.Options.Prefix) },
	"on-loss":   func(r *reading, n *node, at string) { setWord(&r.values, n, at, &r.b.Options.OnLoss) },
	"tools": func(r *reading, n *node, at string) {
		r.mapping(n, at, map[string]func(*node, string){
			"allow": func(n *node, at string) { r.b.Options.Tools.Allow = r.texts(n, at) },
			"deny":  func(n *node, at string) { r.b.Options.Tools.Deny = r.texts(n, at) },
		})
	},
	"scopes":      func(r *reading, n *node, at string) { r.b.Options.Scopes = r.texts(n, at) },
	"tool-scopes": func(r *reading, n *node, at string) { r.b.Options.ToolScopes = r.textLists(n, at) },
	"rerun": func(r *reading, n *node, at string) {
		r.mapping(n, at, map[string]func(*node, string){
			"safe":  func(n *node, at string) { r.b.Options.Rerun.Safe = r.texts(n, at) },
			"never": func(n *node, at string) { r.b.Options.Rerun.Never = r.texts(n, at) },
		})
	},
	"roots": (*reading).readRoots,

	"warm": func(r *reading, n *node, at string) { r.b.Options.Pool.Warm = r.count(n, at) },
	"max":  func(r *reading, n *node, at string) { r.b.Options.Pool.Max = zeroToUnlimited(r.count(n, at)) },
	"max-per-principal": func(r *reading, n *node, at string) {
		r.b.Options.Pool.MaxPerPrincipal = zeroToUnlimited(r.count(n, at))
	},
	"queue": func(r *reading, n *node, at string) { r.b.Options.Pool.Queue = readPositive(&r.values, n, at, r.count) },
	"start-timeout": func(r *reading, n *node, at string) {
		r.b.Options.Pool.StartTimeout = readPositive(&r.values, n, at, r.duration)
	},
	"idle":        func(r *reading, n *node, at string) { r.b.Options.Pool.Idle = zeroToUnlimited(r.duration(n, at)) },
	"max-life":    func(r *reading, n *node, at string) { r.b.Options.Pool.MaxLife = r.duration(n, at) },
	"max-memory":  func(r *reading, n *node, at string) { r.b.Options.Pool.MaxMemory = r.size(n, at) },
	"stderr-rate": func(r *reading, n *node, at string) { r.b.Options.StderrRate = zeroToUnlimited(r.rate(n, at)) },

	"rlimits": func(r *reading, n *node, at string) {
		l := &r.b.Options.Confinement.Rlimits
		r.mapping(n, at, map[string]func(*node, string){
			"enforce":       func(n *node, at string) { setWord(&r.values, n, at, &l.Enforce) },
			"open-files":    func(n *node, at string) { l.OpenFiles = r.count(n, at) },
			"processes":     func(n *node, at string) { l.Processes = r.count(n, at) },
			"file-size":     func(n *node, at string) { l.FileSize = r.size(n, at) },
			"address-space": func(n *node, at string) { l.AddressSpace = r.size(n, at) },
			"cpu":           func(n *node, at string) { l.CPU = r.duration(n, at) },
		})
	},
	"no-new-privs": func(r *reading, n *node, at string) { setWord(&r.values, n, at, &r.b.Options.Confinement.NoNewPrivs) },
	"files": func(r *reading, n *node, at string) {
		f := &r.b.Options.Confinement.Files
		r.mapping(n, at, map[string]func(*node, string){
			"enforce": func(n *node, at string) { setWord(&r.values, n, at, &f.Enforce) },
			"read":    func(n *node, at string) { f.Read = r.paths(n, at) },
			"write":   func(n *node, at string) { f.Write = r.paths(n, at) },
		})
	},
	"network":  (*reading).readNetwork,
	"own-pids": func(r *reading, n *node, at string) { setWord(&r.values, n, at, &r.b.Options.Confinement.OwnPIDs) },
	"cgroup": func(r *reading, n *node, at string) {
		c := &r.b.Options.Confinement.Cgroup
		r.mapping(n, at, map[string]func(*node, string){
			"enforce":   func(n *node, at string) { setWord(&r.values, n, at, &c.Enforce) },
			"memory":    func(n *node, at string) { c.Memory = r.size(n, at) },
			"cpus":      func(n *node, at string) { c.CPUs = r.rate(n, at) },
			"processes": func(n *node, at string) { c.Processes = r.count(n, at) },
		})
	},
}}

// fieldKeys are the keys of fields of host.Options, in the words of its errors. A field that is not here has the key of the
// longest beginning that is.
var fieldKeys = map[string]string{
	"Isolation": "isolation", "Era": "era", "Transport": "transport", "Prefix": "prefix", "OnLoss": "on-loss", "Tools": "tools", "Scopes": "scopes", "ToolScopes": "tool-scopes", "Rerun": "rerun", "Roots": "roots",
	"Pool.Warm": "warm", "Pool.Max": "max", "Pool.MaxPerPrincipal": "max-per-principal", "Pool.Queue": "queue", "Pool.StartTimeout": "start-timeout", "Pool.Idle": "idle",
	"Pool.MaxLife": "max-life", "Pool.MaxMemory": "max-memory", "Env": "env", "EnvFile": "env-file", "Dir": "cwd", "StderrRate": "stderr-rate", "Headers": "headers",
	"PassHeaders": "pass-headers", "Confinement.Rlimits": "rlimits", "Confinement.NoNewPrivs": "no-new-privs", "Confinement.Files": "files", "Confinement.NoNetwork": "network",
	"Confinement.OwnPIDs": "own-pids", "Confinement.Cgroup": "cgroup",
}

// splitFault splits an error of package host into the key that it is about, the place below that, and what is wrong.
func (k *keyTable) splitFault(fault string) (key, inner, rest string) {
	field, rest, _ := strings.Cut(fault, " ")
	field, isField := strings.CutPrefix(field, "Options.")
	if !isField { // of the target: Command: or URL:
		if field == "URL:" {
			return "url", "", rest
		}
		return "command", "", rest
	}
	longest := ""
	for f := range fieldKeys {
		if strings.HasPrefix(field, f) && len(f) > len(longest) {
			longest = f
		}
	}
	key, inner = fieldKeys[longest], field[len(longest):]
	switch key {
	case "env-file":
		key = k.envFileKey()
	case "roots":
		inner = strings.TrimSuffix(strings.TrimPrefix(inner, ".List"), ".URI")
	}
	return key, strings.ToLower(betweenWords.ReplaceAllString(inner, "$1-$2")), rest
}

// betweenWords matches where a word of a field ends, and the next one begins.
var betweenWords = regexp.MustCompile(`([a-z])([A-Z])`)

// readRoots reads none, forward, or a list of paths and file:// URIs.
func (r *reading) readRoots(n *node, at string) {
	roots := &r.b.Options.Roots
	switch {
	case n.kind == text && n.text == "none":
	case n.kind == text && n.text == "forward":
		roots.Forward = true
	case n.kind == list:
		for i, v := range n.items {
			if s, ok := r.expandText(v, itemPlace(at, i), false); ok {
				roots.List = append(roots.List, mcp.Root{URI: r.fileURI(s)})
			}
		}
	default:
		r.addFault(n.line, at, errors.New("want none, forward or a list of directories"))
	}
}

// readNetwork reads none, any, or {none: off | try | require}.
func (r *reading) readNetwork(n *node, at string) {
	switch {
	case n.kind == text && n.text == "none":
		r.b.Options.Confinement.NoNetwork = host.Require
	case n.kind == text && n.text == "any":
	case n.kind == mapping:
		r.mapping(n, at, map[string]func(*node, string){
			"none": func(n *node, at string) { setWord(&r.values, n, at, &r.b.Options.Confinement.NoNetwork) },
		})
	default:
		r.addFault(n.line, at, errors.New("want none, any or a mapping such as {none: try}"))
	}
}
