package hostfile

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/configfile"
)

// shown is what the file says where the backend has what came out of references.
type shown struct {
	command string
	args    []string
	url     string
	dir     string
	envFile string
}

// Lines are the backend as the section backends has it, without secrets: references stand as in the file, and each value of
// a variable or a header is a mask.
func (b Backend) Lines() []string {
	w := writer{lines: []string{"  " + b.Name + ":"}}
	b.writeTarget(&w)
	b.writeOptions(&w)
	return w.lines
}

// ShowBackend is a backend that runs as an operator sees it: its command with its arguments, or its URL, and each of its options as a line
// of the section backends. What is secret is masked: of less than six bytes where it is a whole argument, or the value of a flag.
func ShowBackend(t host.Target, o host.Options) (target string, options []string) {
	b := Backend{Target: t, Options: o}
	b.secrets = usefulSecrets(slices.Concat(o.Hide, slices.Collect(maps.Values(o.Env)), slices.Collect(maps.Values(o.Headers))))
	target = b.Mask(t.String())
	if _, args, ok := t.Command(); ok {
		for _, arg := range b.maskAll(maskArguments(args)) {
			if name, value, isFlag := strings.Cut(arg, "="); isFlag && slices.Contains(o.Hide, value) {
				arg = name + "=" + mask
			} else if slices.Contains(o.Hide, arg) {
				arg = mask
			}
			target += " " + quoteIfNeeded(arg)
		}
	}
	w := writer{}
	b.writeOptions(&w)
	for _, line := range w.lines {
		options = append(options, strings.TrimPrefix(line, "    "))
	}
	return target, options
}

// quoteIfNeeded is an argument as one word among others.
func quoteIfNeeded(arg string) string {
	if arg == "" || strings.ContainsFunc(arg, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) || r == '"' }) {
		return strconv.Quote(arg)
	}
	return arg
}

// writeTarget writes where the backend is.
func (b Backend) writeTarget(w *writer) {
	if name, args, ok := b.Target.Command(); ok {
		if b.shown.command != "" {
			name, args = b.shown.command, b.shown.args
		}
		w.text("command", name)
		w.list("args", maskArguments(args))
	} else if url, ok := b.Target.URL(); ok {
		if b.shown.url != "" {
			url = b.shown.url
		}
		w.text("url", maskURL(url))
	}
}

// writeOptions writes the options that are not their zero values.
func (b Backend) writeOptions(w *writer) {
	o := b.Options
	w.text("transport", string(o.Transport))
	w.secrets("headers", o.Headers)
	w.list("pass-headers", o.PassHeaders)
	w.secrets("env", o.Env)
	w.text("env-file", cmp.Or(b.shown.envFile, b.Mask(o.EnvFile)))
	w.text("cwd", cmp.Or(b.shown.dir, b.Mask(o.Dir)))
	w.flag("disabled", b.Disabled)
	w.text("isolation", string(o.Isolation))
	w.text("era", string(o.Era))
	w.text("prefix", o.Prefix)
	w.lists("tools", "allow", o.Tools.Allow, "deny", o.Tools.Deny)
	w.list("scopes", o.Scopes)
	w.listsByName("tool-scopes", o.ToolScopes)
	w.lists("rerun", "safe", o.Rerun.Safe, "never", o.Rerun.Never)
	w.text("on-loss", string(o.OnLoss))
	if o.Roots.Forward {
		w.text("roots", "forward")
	}
	var roots []string
	for _, r := range o.Roots.List {
		roots = append(roots, b.Mask(r.URI))
	}
	w.list("roots", roots)
	w.pool(o.Pool)
	w.rate("stderr-rate", o.StderrRate)
	o.Confinement.Files.Read, o.Confinement.Files.Write = b.maskAll(o.Confinement.Files.Read), b.maskAll(o.Confinement.Files.Write)
	w.confinement(o.Confinement)
}

func (b Backend) maskAll(texts []string) (masked []string) {
	for _, t := range texts {
		masked = append(masked, b.Mask(t))
	}
	return masked
}

// writer writes the keys of a backend that have a value.
type writer struct{ lines []string }

func (w *writer) line(key, value string) { w.lines = append(w.lines, "    "+key+": "+value) }

func (w *writer) text(key, value string) {
	if value != "" {
		w.line(key, configfile.Text(value))
	}
}

func (w *writer) list(key string, all []string) {
	if len(all) > 0 {
		w.line(key, configfile.Texts(all))
	}
}

func (w *writer) flag(key string, set bool) {
	if set {
		w.line(key, "true")
	}
}

func (w *writer) secrets(key string, all host.Secrets) {
	if len(all) == 0 {
		return
	}
	w.lines = append(w.lines, "    "+key+":")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		w.lines = append(w.lines, "      "+configfile.Text(name)+": "+configfile.Text(mask))
	}
}

// lists writes a mapping of two lists.
func (w *writer) lists(key, first string, a []string, second string, b []string) {
	var parts []string
	if len(a) > 0 {
		parts = append(parts, first+": "+configfile.Texts(a))
	}
	if len(b) > 0 {
		parts = append(parts, second+": "+configfile.Texts(b))
	}
	w.parts(key, parts)
}

// listsByName writes a mapping of lists by names.
func (w *writer) listsByName(key string, all map[string][]string) {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		parts = append(parts, configfile.Text(name)+": "+configfile.Texts(all[name]))
	}
	w.parts(key, parts)
}

func (w *writer) parts(key string, parts []string) {
	if len(parts) > 0 {
		w.line(key, "{"+strings.Join(parts, ", ")+"}")
	}
}

// number writes an option that is set: a negative one is 0 in a file.
func (w *writer) number(key string, n int) {
	if n != 0 {
		w.line(key, strconv.Itoa(max(n, 0)))
	}
}

func (w *writer) time(key string, d time.Duration) {
	switch {
	case d < 0:
		w.line(key, "0")
	case d > 0:
		w.line(key, d.String())
	}
}

func (w *writer) rate(key string, r float64) {
	if r != 0 {
		w.line(key, strconv.FormatFloat(max(r, 0), 'f', -1, 64))
	}
}

func (w *writer) pool(p host.Pool) {
	w.number("warm", p.Warm)
	w.number("max", p.Max)
	w.number("max-per-principal", p.MaxPerPrincipal)
	w.number("queue", p.Queue)
	w.time("start-timeout", p.StartTimeout)
	w.time("idle", p.Idle)
	if p.MaxLife > 0 {
		w.time("max-life", p.MaxLife)
	}
	if p.MaxMemory > 0 {
		w.line("max-memory", configfile.Size(p.MaxMemory))
	}
}

func (w *writer) confinement(c host.Confinement) {
	var parts []string
	add := func(key, value string, is bool) {
		if is {
			parts = append(parts, key+": "+value)
		}
	}
	done := func(key string) { w.parts(key, parts); parts = nil }

	l := c.Rlimits
	add("open-files", strconv.Itoa(l.OpenFiles), l.OpenFiles != 0)
	add("processes", strconv.Itoa(l.Processes), l.Processes != 0)
	add("file-size", configfile.Size(l.FileSize), l.FileSize != 0)
	add("address-space", configfile.Size(l.AddressSpace), l.AddressSpace != 0)
	add("cpu", l.CPU.String(), l.CPU != 0)
	add("enforce", configfile.Text(string(l.Enforce)), l.Enforce != "")
	done("rlimits")
	w.text("no-new-privs", string(c.NoNewPrivs))
	add("read", configfile.Texts(c.Files.Read), len(c.Files.Read) > 0)
	add("write", configfile.Texts(c.Files.Write), len(c.Files.Write) > 0)
	add("enforce", configfile.Text(string(c.Files.Enforce)), c.Files.Enforce != "")
	done("files")
	add("none", configfile.Text(string(c.NoNetwork)), c.NoNetwork != "")
	done("network")
	w.text("own-pids", string(c.OwnPIDs))
	g := c.Cgroup
	add("memory", configfile.Size(g.Memory), g.Memory != 0)
	add("cpus", strconv.FormatFloat(g.CPUs, 'f', -1, 64), g.CPUs != 0)
	add("processes", strconv.Itoa(g.Processes), g.Processes != 0)
	add("enforce", configfile.Text(string(g.Enforce)), g.Enforce != "")
	done("cgroup")
}

// isReference reports whether a text is one reference, which is nobody's secret.
func isReference(text string) bool {
	return strings.HasPrefix(text, "${") && referenceEnd(text) == len(text)-1
}

// maskArguments masks what seems to be a secret in arguments as the file has them.
func maskArguments(args []string) (masked []string) {
	next := false
	for _, arg := range args {
		value := ""
		if next && !strings.HasPrefix(arg, "-") {
			value, next = arg, false
		} else {
			value, next = secretFlagValue(arg)
		}
		if value != "" && !isReference(value) {
			arg = strings.TrimSuffix(arg, value) + mask
		}
		if strings.Contains(arg, "://") {
			arg = maskURL(arg)
		}
		masked = append(masked, arg)
	}
	return masked
}

// userInURL matches the user of a URL, and secretQuery a parameter that seems to be secret. Both match in a URL with references,
// which is none yet.
var (
	userInURL   = regexp.MustCompile(`(://)([^/@\s]+)(@)`)
	secretQuery = regexp.MustCompile(`(?i)([?&][^=&#]*(?:key|token|secret|passw|pwd|credential|auth|signature)[^=&#]*=)([^&#]+)()`)
)

// maskURL masks what is, or seems to be, a secret in a URL as the file has it.
func maskURL(raw string) string {
	for _, part := range []*regexp.Regexp{userInURL, secretQuery} {
		raw = part.ReplaceAllStringFunc(raw, func(found string) string {
			m := part.FindStringSubmatch(found)
			if isReference(m[2]) {
				return found
			}
			return m[1] + mask + m[3]
		})
	}
	return raw
}
