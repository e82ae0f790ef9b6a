package hostfile

import (
	"errors"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/internal/configfile"
)

// inClient is a file of a client with one server, whose members begin in line 3.
func inClient(members string) string { return "{\"mcpServers\": {\n\"x\": {\n" + members + "\n}}}" }

// TestMistakesOfClients has servers that are wrong, and the error, which begins with its line.
func TestMistakesOfClients(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		inClient(`"comand": "a"`):                                  "3: mcpServers.x.comand: there is no such setting; did you mean command?",
		inClient(`"Command": "a"`):                                 "3: mcpServers.x.Command: there is no such setting; did you mean command?",
		inClient("\"command\": \"a\",\n\"arg\": []"):               "4: mcpServers.x.arg: there is no such setting; did you mean args?",
		inClient(`"command": "a", "comment": "mine", "//": 1`):     "",
		inClient("\"command\": \"a\",\n\"environ\": {}"):           "", // no more like env than like anything else: a note
		inClient("\"url\": \"https://a/\",\n\"header\": {}"):       "4: mcpServers.x.header: there is no such setting; did you mean headers?",
		inClient(`"serverURL": "https://a/"`):                      "3: mcpServers.x.serverURL: there is no such setting; did you mean serverUrl?",
		inClient(`"command": "a", "disable": true`):                "3: mcpServers.x.disable: there is no such setting; did you mean disabled?",
		inClient(`"command": "a", "envfile": ".env"`):              "3: mcpServers.x.envfile: there is no such setting; did you mean envFile?",
		inClient(`"command": "a", "exludeTools": []`):              "3: mcpServers.x.exludeTools: there is no such setting; did you mean excludeTools?",
		inClient(`"command": "a", "command": "b"`):                 "3: mcpServers.x.command: set twice: first in line 3",
		inClient(`"command": ["a"]`):                               "3: mcpServers.x.command: want a text",
		inClient(`"command": "a", "args": "-y b"`):                 "3: mcpServers.x.args: want a list of texts",
		inClient("\"command\": \"a\", \"args\": [\"b\",\n{}]"):     "4: mcpServers.x.args[1]: want a text",
		inClient(`"command": "a", "env": ["A=s3cret"]`):            "3: mcpServers.x.env: want a mapping",
		inClient("\"command\": \"a\", \"env\": {\n\"A\": []}"):     "4: mcpServers.x.env.A: want a text",
		inClient(`"command": "a", "env": {"A": "1", "A": "2"}`):    "3: mcpServers.x.env.A: set twice",
		inClient(`"command": "a", "env": {"A=s3cret": ""}`):        "3: mcpServers.x.env: has a name that begins with \"A\",",
		inClient(`"command": "a", "disabled": "no"`):               "3: mcpServers.x.disabled: want true or false",
		inClient(`"command": "a", "url": "https://a/"`):            "3: mcpServers.x.url: there is a command, too",
		inClient(`"args": ["a"]`):                                  "2: mcpServers.x: there is neither a command nor a url",
		inClient(`"url": ""`):                                      "2: mcpServers.x: there is neither a command nor a url",
		inClient(`"url": "a.example/mcp"`):                         "3: mcpServers.x.url: want http://HOST/PATH",
		inClient(`"url": "https://a/", "serverUrl": "http://"`):    "3: mcpServers.x.serverUrl: there is url, too",
		inClient(`"url": "https://a/", "type": "ws"`):              "3: mcpServers.x.type: want stdio, http or sse",
		inClient(`"url": "https://a/", "type": "stdio"`):           "3: mcpServers.x: the type is that of a command, and there is a URL",
		inClient(`"command": "a", "type": "http"`):                 "3: mcpServers.x: the type is that of a URL, and there is a command",
		inClient(`"command": "a", "headers": {"X-A": "s3cret"}`):   "3: mcpServers.x.headers: is for URLs",
		inClient(`"url": "https://a/", "env": {"A": "s3cret"}`):    "3: mcpServers.x.env: is for commands",
		inClient(`"url": "https://a/", "headers": {"A\n": "b"}`):   "3: mcpServers.x.headers: has the name",
		inClient(`"url": "https://a/", "headers": {"Host": "b"}`):  "3: mcpServers.x.headers: has Host",
		inClient(`"tcp": "ws://a/"`):                               "3: mcpServers.x.tcp: WebSocket",
		inClient(`"command": "a\u0000"`):                           "3: mcpServers.x.command: the name has a zero byte",
		inClient(`"command": "a", "excludeTools": [""]`):           "2: mcpServers.x.tools.deny[0]: is no pattern",
		"{\"mcpServers\": {\n\"x\": \"npx a\"}}":                   "2: mcpServers.x: want a mapping",
		"{\"mcpServers\": {\n\"\": {\"command\": \"a\"}}}":         "2: mcpServers.: a server has no name",
		inClient(`"command": "${NO}"`):                             "3: mcpServers.x.command: the variable NO is not set",
		inClient(`"command": "a", "env": {"A": "$NO"}`):            "3: mcpServers.x.env.A: the variable NO is not set",
		inClient(`"command": "a", "args": ["${workspacefolder}"]`): "3: mcpServers.x.args[0]: the variable workspacefolder is not set; did you mean workspaceFolder?",
		inClient(`"command": "a", "args": ["${file:no}"]`):         "3: mcpServers.x.args[0]: /srv/project/no cannot be read: file does not exist",
		inClient(`"command": "a", "args": ["${input:id}"]`):        "3: mcpServers.x.args[0]: the input \"id\" is not among the inputs",
		inClient(`"command": "a", "envFile": "no.env"`):            "3: mcpServers.x.envFile: /srv/project/no.env cannot be read: file does not exist",
		inClient(`"command": "a", "envFile": "${API_KEY}"`):        "3: mcpServers.x.envFile: ${API_KEY}:1: want NAME=VALUE",
		inClient(`"command": "a", "envFile": "wrong.env"`):         "3: mcpServers.x.envFile: /srv/project/wrong.env:2: want NAME=VALUE",
	} {
		f, err := Read([]byte(file), at("/srv/project/.mcp.json"))
		if err != nil || len(f.Backends) != 1 {
			t.Errorf("%v, for\n%s", err, file)
			continue
		}
		compareMistake(t, f.Backends[0].Err, "/srv/project/.mcp.json:", want, file)
	}
}

// compareMistake compares the one mistake of a backend with what it should begin with.
func compareMistake(t *testing.T, err error, path, want, file string) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Errorf("%v, for\n%s", err, file)
		}
		return
	}
	if err == nil || !strings.HasPrefix(err.Error(), path+want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error is %v, want one that begins with %q, for\n%s", err, path+want, file)
	} else if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("the error %q has a secret", err)
	}
}

// TestUnusableFiles has files of which nothing can be used.
func TestUnusableFiles(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"":                                       "1: the file ends too early",
		"\n\n// nothing\n":                       "1: the file ends too early",
		"{\"mcpServers\": {\n\n":                 "1: the file ends too early",
		"{}":                                     "1: there is neither mcpServers nor servers",
		"[]":                                     "1: want an object",
		"{\n\"mcpserver\": {}}":                  "2: there is neither mcpServers nor servers; did you mean mcpServers?",
		"{\n\"mcpServers\": []}":                 "2: mcpServers: want an object",
		"{\"mcpServers\": {},\n\"servers\": {}}": "2: servers: there is mcpServers already",
		"{\"mcpServers\": {},\n\"mcpServers\": {}}": "2: mcpServers: there is mcpServers already",
		"{\"mcpServers\":\n{\"a\" \"b\"}}":          "2: invalid character",
		"{\"mcpServers\":\n{\"a\":\n\"b\nc\"}}":     "3: invalid character",
		"{\"mcpServers\": {,}}":                     "1: invalid character",
		"{\"mcpServers\": {}} \n x":                 "2: there is something behind",
		"{\"mcpServers\": {}}\n{}":                  "2: there is something behind",
		"{\n/* a":                                   "2: a comment has no end",
		"{\n\"a\xff\": 1}":                          "2: this is not UTF-8",
		"\xff\xfe{\x00}\x00":                        "1: the file is UTF-16",
		strings.Repeat("[", 40):                     "1: more than 32 levels",
		"{\"a\": " + strings.Repeat("[", 100_000):   "1: more than 32 levels",
		"mcpServers:\n  a: {}\n":                    "1: invalid character",
	} {
		f, err := Read([]byte(file), at("/a/b.json"))
		at, ok := errors.AsType[*Error](err)
		if f != nil || !ok || !strings.HasPrefix(at.Error(), "/a/b.json:"+want) {
			t.Errorf("error is %v, want one that begins with %q, for\n%.80s", err, want, file)
		}
	}
}

// TestMistakesOfTheSection has sections that are wrong, and the error, which begins with its line.
func TestMistakesOfTheSection(t *testing.T) {
	t.Parallel()
	const x = "backends:\n  x:\n    command: a\n"
	const u = "backends:\n  x:\n    url: https://a.example/mcp\n"
	for file, want := range map[string]string{
		"backends: 5\n":                                        "1 backends: want a mapping",
		"backends: [a]\n":                                      "1 backends: want a mapping",
		"backends:\n  x: npx a\n":                              "2 backends.x: want a mapping",
		"backends:\n  x:\n":                                    "2 backends.x: want a mapping",
		"backends:\n  my server: {command: a}\n":               "2 backends.my server: a backend is called by",
		"backends:\n  a.b: {command: a}\n":                     "2 backends.a.b: a backend is called by",
		"backends:\n  x: {args: [a]}\n":                        "2 backends.x: there is neither a command nor a url",
		"backends:\n  x: {command: a}\n  1: {}\n":              "3 backends: a name must be a text",
		"backends:\n  a: {command: a}\n  a__b: {command: b}\n": "3 backends.a__b: its prefix \"a__b__\" and that of a, \"a__\", begin alike",
		x + "    envFile: .env\n":                              "4 backends.x.envFile: there is no such setting; did you mean env-file?",
		x + "    idel: 5m\n":                                   "4 backends.x.idel: there is no such setting; did you mean idle?",
		x + "    max-per-prinicpal: 5\n":                       "4 backends.x.max-per-prinicpal: there is no such setting; did you mean max-per-principal?",
		x + "    start_timeout: 5m\n":                          "4 backends.x.start_timeout: there is no such setting; did you mean start-timeout?",
		x + "    timeout: 5m\n":                                "4 backends.x.timeout: there is no such setting",
		x + "    autoApprove: []\n":                            "4 backends.x.autoApprove: there is no such setting",
		x + "    tools: {alow: [a]}\n":                         "4 backends.x.tools.alow: there is no such setting; did you mean allow?",
		x + "    tools: [a]\n":                                 "4 backends.x.tools: want a mapping",
		x + "    tools:\n      allow: a\n":                     "5 backends.x.tools.allow: want a list of texts",
		x + "    tools: {allow: ['']}\n":                       "4 backends.x.tools.allow[0]: is no pattern",
		x + "    rerun: {safe: [a], unsafe: [b]}\n":            "4 backends.x.rerun.unsafe: there is no such setting",
		x + "    args:\n    - a\n    - 5\n":                    "6 backends.x.args[1]: want a text: put it in quotes",
		x + "    env:\n      A: 5\n":                           "5 backends.x.env.A: want a text: put it in quotes",
		x + "    env:\n      A:\n":                             "5 backends.x.env.A: want a text",
		x + "    env: {A: &a s3cret}\n":                        "4 backends.x.env.A: want a text",
		x + "    env: {A: !!str s3cret}\n":                     "4 backends.x.env.A: want a text",
		x + "    command: b\n":                                 "4 mapping key \"command\" already defined",
		x + "    isolation: user\n":                            "4 backends.x.isolation: is \"user\": want session, principal, call, shared",
		x + "    era: 2025\n":                                  "4 backends.x.era: want a text: put it in quotes",
		x + "    era: new\n":                                   "4 backends.x.era: is \"new\": want legacy, modern",
		x + "    transport: http\n":                            "4 backends.x: the type is that of a URL, and there is a command",
		x + "    prefix: a b\n":                                "4 backends.x.prefix: \"a b\": want",
		x + "    on-loss: retry\n":                             "4 backends.x.on-loss: is",
		x + "    roots: all\n":                                 "4 backends.x.roots: want none, forward or a list",
		x + "    roots: ['http://a/']\n":                       "", // it is a path, if a strange one
		x + "    warm: -1\n":                                   "4 backends.x.warm: want a whole number",
		x + "    warm: 5\n    max: 2\n":                        "4 backends.x.warm: is 5, more than",
		x + "    max: many\n":                                  "4 backends.x.max: want a whole number",
		x + "    queue: 0\n":                                   "4 backends.x.queue: must be more than 0",
		x + "    start-timeout: 0\n":                           "4 backends.x.start-timeout: must be more than 0",
		x + "    start-timeout: 5\n":                           "4 backends.x.start-timeout: want a time with its unit",
		x + "    idle: 10ms\n":                                 "4 backends.x.idle: is 10ms: want a second or more",
		x + "    max-memory: 5 apples\n":                       "4 backends.x.max-memory: want a size",
		x + "    stderr-rate: -1\n":                            "4 backends.x.stderr-rate: want a number",
		x + "    rlimits: {cpu: 10ms}\n":                       "4 backends.x.rlimits.cpu: is 10ms",
		x + "    rlimits: {enforce: yes please}\n":             "4 backends.x.rlimits.enforce: is \"yes please\": want off, try, require",
		x + "    no-new-privs: true\n":                         "4 backends.x.no-new-privs: want a text",
		x + "    no-new-privs: on\n":                           "4 backends.x.no-new-privs: is \"on\": want off, try, require",
		x + "    files: /usr\n":                                "4 backends.x.files: want a mapping",
		x + "    network: off\n":                               "4 backends.x.network: want none, any or a mapping",
		x + "    network: {none: 5}\n":                         "4 backends.x.network.none: want a text",
		x + "    cgroup: {cpus: 0.001}\n":                      "4 backends.x.cgroup.cpus: is 0.001",
		x + "    headers: {A: s3cret}\n":                       "4 backends.x.headers: is for URLs",
		u + "    transport: stdio\n":                           "4 backends.x.transport: want http or sse",
		u + "    cwd: /\n":                                     "4 backends.x.cwd: is for commands",
		u + "    no-new-privs: try\n":                          "4 backends.x.no-new-privs: is for commands",
		u + "    files: {read: [/]}\n":                         "4 backends.x.files: is for commands",
		u + "    pass-headers: [Authorization]\n":              "4 backends.x.pass-headers[0]: is Authorization, which is for this server",
		u + "    command: a\n":                                 "3 backends.x.url: there is a command, too",
		"backends:\n  x:\n    url: ''\n":                       "3 backends.x.url: the URL is empty",
		x + "    env: {A: '${B:?s3cret}'}\n":                   "4 backends.x.env.A: the reference ${B…} is not known",
		x + "    env: {A: '${s3cret of mine'}\n":               "4 backends.x.env.A: a reference that begins with ${ has no end",
		"backends:\n  x: &a {command: a}\n  y: *a\n":           "2 backends.x: want a mapping",
	} {
		var f File
		err := configfile.Read([]byte(file), map[string]configfile.Reader{"backends": ReadSection(&f, at("/a/troupe.yaml"))})
		if want == "" {
			if err != nil {
				t.Errorf("%v, for\n%s", err, file)
			}
			continue
		}
		wrong, ok := errors.AsType[*configfile.Error](err)
		if !ok {
			t.Errorf("error is %v, for\n%s", err, file)
			continue
		}
		wantLine, text, _ := strings.Cut(want, " ")
		if got := string(rune('0' + wrong.Line)); got != wantLine || !strings.HasPrefix(wrong.Error(), text) {
			t.Errorf("error is %q in line %s, want %q in line %s, for\n%s", wrong, got, text, wantLine, file)
		}
		if strings.Contains(err.Error(), "s3cret") && !strings.Contains(want, "s3cret") {
			t.Errorf("the error %q has a secret", err)
		}
	}
}

// TestOthersStay reads files in which one backend is wrong: the others are there.
func TestOthersStay(t *testing.T) {
	t.Parallel()
	f := read(t, `{"mcpServers": {"a": {"command": "a"}, "b": {"command": "${NO}"}, "c": {"commnd": "c"}, "a": {"command": "d"}, "e": {"url": "https://e/"}}}`)
	usable := ""
	for _, b := range f.Backends {
		if b.Usable() {
			usable += b.Name
		}
	}
	if usable != "ae" || len(f.Backends) != 5 {
		t.Errorf("usable are %q of %d", usable, len(f.Backends))
	}
	if !errors.Is(f.Backends[1].Err, ErrUnset) || errors.Is(f.Backends[2].Err, ErrUnset) {
		t.Errorf("%v and %v", f.Backends[1].Err, f.Backends[2].Err)
	}
	if all := f.Mistakes(); len(all) != 2 || all[0].Line != 1 {
		t.Errorf("mistakes are %v", all)
	}

	var section File
	err := configfile.Read([]byte("backends:\n  a: {command: a}\n  b: {command: '${NO}'}\n"), map[string]configfile.Reader{"backends": ReadSection(&section, at("/a/troupe.yaml"))})
	if err != nil || len(section.Backends) != 2 || !section.Backends[0].Usable() || !errors.Is(section.Backends[1].Err, ErrUnset) {
		t.Errorf("%v, %v", err, section.Backends)
	}
	err = configfile.Read([]byte("backends:\n"), map[string]configfile.Reader{"backends": ReadSection(&section, at("/a/troupe.yaml"))})
	if err != nil {
		t.Errorf("an empty section: %v", err)
	}
}
