package hostfile

import (
	"errors"
)

// clientKeys are the keys of servers in the files of clients, all clients together: none of them gives a key a meaning
// that another one takes away.
var clientKeys = &keyTable{read: map[string]func(r *reading, n *node, at string){
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

	"autoApprove": noteIgnored("which calls need consent is for clients to decide"),
	"alwaysAllow": noteIgnored("which calls need consent is for clients to decide"),
	"trust":       noteIgnored("which calls need consent is for clients to decide"),
	"timeout":     noteIgnored("how long a call may take is a setting of the server, max-call"),

	"sandbox":        noteIgnored("it is not enforced: the options files and network of the section backends are"),
	"sandboxEnabled": noteIgnored("it is not enforced: the options files and network of the section backends are"),

	"oauth":            noteIgnored("nobody can be asked to log in here: give a header with a credential"),
	"auth":             noteIgnored("nobody can be asked to log in here: give a header with a credential"),
	"authProviderType": noteIgnored("nobody can be asked to log in here: give a header with a credential"),
	"headersHelper":    noteIgnored("it is not run: give the headers themselves"),

	"tcp": func(r *reading, n *node, at string) {
		r.addFault(n.line, at, errors.New("WebSocket is no transport of MCP, and is not spoken here"))
	},

	// What a client shows, and how it develops servers, says nothing of how one runs.
	"name": skipKey, "description": skipKey, "icon": skipKey, "version": skipKey, "gallery": skipKey, "dev": skipKey, "$schema": skipKey, "extensionName": skipKey,
	"comment": skipKey, "_comment": skipKey, "//": skipKey,
}}

func skipKey(*reading, *node, string) {}

// noteIgnored is a key that has no effect here, and why.
func noteIgnored(why string) func(r *reading, n *node, at string) {
	return func(r *reading, n *node, at string) {
		switch {
		case n.kind == boolean && n.text == "false", n.kind == null, n.kind == list && len(n.items) == 0, n.kind == mapping && len(n.entries) == 0:
		default:
			r.note(n.line, at, why)
		}
	}
}
