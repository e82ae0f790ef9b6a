package hostfile

import (
	"errors"
	"slices"
	"strings"
)

// clientKeys are the keys of servers in the files of clients, all clients together: none of them gives a key a meaning
// that another one takes away.
var clientKeys = &keyring{read: map[string]func(r *reading, n *node, at string){
	"command": (*reading).readCommand,
	"args":    (*reading).readArgs,
	"env":     (*reading).readEnv,
	"envFile": func(r *reading, n *node, _ string) { r.envFile = n },
	"cwd":     (*reading).readDir,

	"working_directory": (*reading).readDir, // of Warp

	"type":          (*reading).readKind,
	"transport":     (*reading).readKind, // of FastMCP
	"transportType": (*reading).readKind, // of Cline
	"url":           func(r *reading, n *node, at string) { r.readURL("url", n, at) },
	"serverUrl":     func(r *reading, n *node, at string) { r.readURL("serverUrl", n, at) }, // of Windsurf
	"httpUrl":       func(r *reading, n *node, at string) { r.readURL("httpUrl", n, at) },   // of Gemini and Qwen
	"headers":       (*reading).readHeaders,

	"disabled": func(r *reading, n *node, at string) { r.b.Disabled = r.bool(n, at) || r.b.Disabled },
	"enabled":  func(r *reading, n *node, at string) { r.b.Disabled = !r.bool(n, at) || r.b.Disabled },
	"isActive": func(r *reading, n *node, at string) { r.b.Disabled = !r.bool(n, at) || r.b.Disabled },

	"includeTools":  (*reading).allowTools, // of Gemini and Qwen
	"excludeTools":  (*reading).denyTools,
	"tools":         (*reading).allowTools, // of Copilot, where * is all
	"enabledTools":  (*reading).allowTools,
	"allowedTools":  (*reading).allowTools,
	"disabledTools": (*reading).denyTools, // of Windsurf and Roo

	"autoApprove": ignored("which calls need consent is for clients to decide"),
	"alwaysAllow": ignored("which calls need consent is for clients to decide"),
	"trust":       ignored("which calls need consent is for clients to decide"),
	"timeout":     ignored("how long a call may take is a setting of the server, max-call"),

	"sandbox":        ignored("it is not enforced: the options files and network of the section backends are"),
	"sandboxEnabled": ignored("it is not enforced: the options files and network of the section backends are"),

	"oauth":            ignored("nobody can be asked to log in here: give a header with a credential"),
	"auth":             ignored("nobody can be asked to log in here: give a header with a credential"),
	"authProviderType": ignored("nobody can be asked to log in here: give a header with a credential"),
	"headersHelper":    ignored("it is not run: give the headers themselves"),

	"tcp": func(r *reading, n *node, at string) {
		r.fault(n.line, at, errors.New("WebSocket is no transport of MCP, and is not spoken here"))
	},

	// What a client shows, and how it develops servers, says nothing of how one runs.
	"name": silent, "description": silent, "icon": silent, "version": silent, "gallery": silent, "dev": silent, "$schema": silent, "extensionName": silent,
	"comment": silent, "_comment": silent, "//": silent,
}}

func silent(*reading, *node, string) {}

// ignored is a key that has no effect here, and why.
func ignored(why string) func(r *reading, n *node, at string) {
	return func(r *reading, n *node, at string) {
		switch {
		case n.kind == boolean && n.text == "false", n.kind == null, n.kind == list && len(n.items) == 0, n.kind == mapping && len(n.entries) == 0:
		default:
			r.note(n.line, at, why)
		}
	}
}

func (r *reading) readCommand(n *node, at string) {
	name, ok := r.expanded(n, at, false)
	if ok && name == "" && !r.strict {
		return // as some clients write for a URL
	}
	r.command = true
	r.name, r.b.shown.command = name, n.text
	if ok && name == "" {
		r.fault(n.line, at, errors.New("the command has no name"))
	}
	if !r.strict && r.lines["args"] == 0 && strings.Contains(strings.TrimSpace(n.text), " ") && !strings.ContainsAny(n.text, `/\`) {
		r.note(n.line, at, "this is the name of one program, with its spaces: arguments belong into args")
	}
}

func (r *reading) readArgs(n *node, at string) {
	if n.kind == null && !r.strict {
		return
	}
	r.args = r.expandedTexts(n, at)
	for _, v := range n.items {
		r.b.shown.args = append(r.b.shown.args, v.text)
	}
	r.secrets = append(r.secrets, secretArguments(r.args)...)
}

func (r *reading) readEnv(n *node, at string) { r.b.Options.Env = r.secretMap(n, at) }

func (r *reading) readDir(n *node, at string) {
	if dir, ok := r.expanded(n, at, false); ok && dir != "" {
		r.b.Options.Dir, r.b.shown.dir = r.x.path(dir), n.text
	}
}

func (r *reading) readKind(n *node, _ string) { r.kind = n }

// readURL reads a URL. Of url and httpUrl, which Gemini has for HTTP+SSE and Streamable HTTP, the latter counts.
func (r *reading) readURL(key string, n *node, at string) {
	url, ok := r.expanded(n, at, false)
	switch {
	case !ok, url == "" && !r.strict: // as some clients write for a command
		return
	case url == "":
		r.fault(n.line, at, errors.New("the URL is empty"))
		return
	}
	u := entry{name: key, line: n.line, value: &node{text: url}}
	if len(r.urls) > 0 {
		if other := r.urls[0].name; key == "serverUrl" || other == "serverUrl" {
			r.fault(n.line, at, errors.New("there is "+other+", too: set one of them"))
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
