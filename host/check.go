package host

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/internal/scope"
	"github.com/troupe-run/troupe/mcp"
)

// Check returns what is wrong with the options of a target, and with the target. The error names the field of everything
// that is wrong, and has no value that may be secret. It opens no file, starts nothing and connects to nothing.
func (o Options) Check(t Target) error {
	var c checker
	if err := t.check(); err != nil {
		c.faults = append(c.faults, err)
	}
	oneOf(&c, "Isolation", o.Isolation, BySession, ByPrincipal, ByCall, Shared)
	oneOf(&c, "Era", o.Era, Legacy, Modern)
	oneOf(&c, "Transport", o.Transport, HTTP, SSE)
	oneOf(&c, "OnLoss", o.OnLoss, Restart, End)
	if o.Prefix != "" && !prefixes.MatchString(o.Prefix) {
		c.addFault("Prefix", "%q: want up to 48 of A-Z a-z 0-9 _ . -, or NoPrefix", o.Prefix)
	}
	c.checkPatterns("Tools.Allow", o.Tools.Allow)
	c.checkPatterns("Tools.Deny", o.Tools.Deny)
	c.checkScopes("Scopes", o.Scopes)
	for _, pattern := range slices.Sorted(maps.Keys(o.ToolScopes)) {
		c.checkPatterns("ToolScopes", []string{pattern})
		c.checkScopes(fmt.Sprintf("ToolScopes[%q]", pattern), o.ToolScopes[pattern])
	}
	c.checkPatterns("Rerun.Safe", o.Rerun.Safe)
	c.checkPatterns("Rerun.Never", o.Rerun.Never)
	c.checkRoots(o.Roots)
	c.checkPool(o.Pool)
	if math.IsNaN(o.StderrRate) || math.IsInf(o.StderrRate, 0) {
		c.addFault("StderrRate", "is no number")
	}
	c.checkEnv(o.Env)
	c.checkConfinement(o.Confinement)
	c.checkHeaders(o.Headers, o.PassHeaders)
	if i := slices.Index(o.Hide, ""); i >= 0 {
		c.addFault(fmt.Sprintf("Hide[%d]", i), "is empty")
	}
	c.checkOptionsFit(t, o)
	return errors.Join(c.faults...)
}

// prefixes are what may be put in front of a name.
var prefixes = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,48}$`)

// A checker collects what is wrong.
type checker struct{ faults []error }

func (c *checker) addFault(field, format string, args ...any) {
	c.faults = append(c.faults, fmt.Errorf("Options."+field+" "+format, args...))
}

// oneOf refuses a word that is none of those known; "" is the default.
func oneOf[T ~string](c *checker, field string, value T, known ...T) {
	if value == "" || slices.Contains(known, value) {
		return
	}
	var words []string
	for _, k := range known {
		words = append(words, string(k))
	}
	c.addFault(field, "is %q: want %s", value, strings.Join(words, ", "))
}

func (c *checker) checkPatterns(field string, all []string) {
	for i, p := range all {
		if p == "" || len(p) > 256 {
			c.addFault(fmt.Sprintf("%s[%d]", field, i), "is no pattern of 1 to 256 bytes")
		}
	}
}

func (c *checker) checkScopes(field string, all []string) {
	for i := range all {
		if err := scope.Check(all[i : i+1]); err != nil {
			c.addFault(field, "has %w", err)
		}
	}
}

func (c *checker) checkRoots(r Roots) {
	if r.Forward && len(r.List) > 0 {
		c.addFault("Roots", "has Forward and List: set one of them")
	}
	for i, root := range r.List {
		if !isFileURI(root) {
			c.addFault(fmt.Sprintf("Roots.List[%d].URI", i), "is no file:// URI, as roots are")
		}
	}
}

func isFileURI(r mcp.Root) bool { return strings.HasPrefix(r.URI, "file:///") }

func (c *checker) checkPool(p Pool) {
	if p.Warm < 0 {
		c.addFault("Pool.Warm", "is negative")
	}
	if p.Queue < 0 {
		c.addFault("Pool.Queue", "is negative: it must be bounded")
	}
	if p.StartTimeout < 0 || p.StartTimeout > 0 && p.StartTimeout < time.Millisecond {
		c.addFault("Pool.StartTimeout", "is %v: want a millisecond or more", p.StartTimeout)
	}
	if p.Idle > 0 && p.Idle < time.Second {
		c.addFault("Pool.Idle", "is %v: want a second or more", p.Idle)
	}
	if p.MaxLife > 0 && p.MaxLife < time.Second {
		c.addFault("Pool.MaxLife", "is %v: want a second or more", p.MaxLife)
	}
	with := Options{Pool: p}.WithDefaults().Pool
	if with.Max > 0 && p.Warm > with.Max {
		c.addFault("Pool.Warm", "is %d, more than Pool.Max", p.Warm)
	}
}

func (c *checker) checkEnv(env Secrets) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if before, _, found := strings.Cut(name, "="); name == "" || found || strings.ContainsRune(name, 0) {
			c.addFault("Env", "has a name that begins with %q, and that no variable can have", before) // behind = may be a value
		} else if strings.ContainsRune(env[name], 0) {
			c.addFault("Env", "has a zero byte in %s", name)
		}
	}
}

func (c *checker) checkConfinement(x Confinement) {
	oneOf(c, "Confinement.NoNewPrivs", x.NoNewPrivs, Off, Try, Require)
	oneOf(c, "Confinement.NoNetwork", x.NoNetwork, Off, Try, Require)
	oneOf(c, "Confinement.OwnPIDs", x.OwnPIDs, Off, Try, Require)
	oneOf(c, "Confinement.Rlimits.Enforce", x.Rlimits.Enforce, Off, Try, Require)
	oneOf(c, "Confinement.Files.Enforce", x.Files.Enforce, Off, Try, Require)
	oneOf(c, "Confinement.Cgroup.Enforce", x.Cgroup.Enforce, Off, Try, Require)
	for _, n := range []struct {
		field string
		value int64
	}{
		{"Rlimits.OpenFiles", int64(x.Rlimits.OpenFiles)}, {"Rlimits.Processes", int64(x.Rlimits.Processes)}, {"Rlimits.FileSize", x.Rlimits.FileSize},
		{"Rlimits.AddressSpace", x.Rlimits.AddressSpace}, {"Cgroup.Memory", x.Cgroup.Memory}, {"Cgroup.Processes", int64(x.Cgroup.Processes)},
	} {
		if n.value < 0 {
			c.addFault("Confinement."+n.field, "is negative")
		}
	}
	if x.Rlimits.CPU != 0 && x.Rlimits.CPU < time.Second {
		c.addFault("Confinement.Rlimits.CPU", "is %v: want a second or more", x.Rlimits.CPU)
	}
	if !(x.Cgroup.CPUs >= 0) || math.IsInf(x.Cgroup.CPUs, 0) || x.Cgroup.CPUs > 0 && x.Cgroup.CPUs < 0.01 {
		c.addFault("Confinement.Cgroup.CPUs", "is %v: want 0.01 or more", x.Cgroup.CPUs)
	}
	c.requireAbsolute("Confinement.Files.Read", x.Files.Read)
	c.requireAbsolute("Confinement.Files.Write", x.Files.Write)
}

func (c *checker) requireAbsolute(field string, paths []string) {
	for i, path := range paths {
		if !filepath.IsAbs(path) {
			c.addFault(fmt.Sprintf("%s[%d]", field, i), "is %q: want an absolute path", path)
		}
	}
}

// token matches the names of headers (RFC 9110).
var token = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// ownHeaders are those that the client half of a connection writes itself; a name that ends with - stands for all that
// begin with it.
var ownHeaders = []string{"host", "content-", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "accept", "accept-encoding", "last-event-id", "mcp-"}

// secretHeaders are for this server alone.
var secretHeaders = []string{"authorization", "proxy-", "cookie", "set-cookie", "forwarded", "x-forwarded-"}

// isListedHeader reports whether a list has the name of a header.
func isListedHeader(list []string, name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(list, func(r string) bool {
		return name == r || strings.HasSuffix(r, "-") && strings.HasPrefix(name, r)
	})
}

func (c *checker) checkHeaders(sent Secrets, passed []string) {
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(sent)) {
		switch value := sent[name]; {
		case !token.MatchString(name):
			c.addFault("Headers", "has the name %q, which no header can have", name)
		case isListedHeader(ownHeaders, name):
			c.addFault("Headers", "has %s, which belongs to the connection or the protocol", name)
		case seen[strings.ToLower(name)]:
			c.addFault("Headers", "has %s twice, in capitals and small letters", name)
		case strings.ContainsAny(value, "\r\n\x00"):
			c.addFault("Headers", "has a line break or a zero byte in %s", name)
		}
		seen[strings.ToLower(name)] = true
	}
	for i, name := range passed {
		field := fmt.Sprintf("PassHeaders[%d]", i)
		switch {
		case !token.MatchString(name):
			c.addFault(field, "is %q, which no header can be called", name)
		case isListedHeader(ownHeaders, name):
			c.addFault(field, "is %s, which belongs to the connection or the protocol", name)
		case isListedHeader(secretHeaders, name):
			c.addFault(field, "is %s, which is for this server and never passed on", name)
		case seen[strings.ToLower(name)]:
			c.addFault(field, "is %s, which comes twice, or is in Headers", name)
		}
		seen[strings.ToLower(name)] = true
	}
}

// checkOptionsFit refuses what a target of another kind has.
func (c *checker) checkOptionsFit(t Target, o Options) {
	set := func(fields map[string]bool, of, kind string) {
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			if fields[field] {
				c.addFault(field, "is for %s, and the target is %s", of, kind)
			}
		}
	}
	kind := "a command"
	raw, isURL := t.URL()
	switch {
	case isURL:
		kind = "a URL"
	case t.serves:
		kind = "a server of this process"
	case t.name == "":
		return
	}
	if isURL || t.serves {
		fields := map[string]bool{"Env": len(o.Env) > 0, "EnvFile": o.EnvFile != "", "Dir": o.Dir != "", "StderrRate": o.StderrRate != 0, "Pool.MaxMemory": o.Pool.MaxMemory != 0}
		for f, v := range reflect.ValueOf(o.Confinement).Fields() {
			fields["Confinement."+f.Name] = !v.IsZero()
		}
		set(fields, "commands", kind)
	}
	if !isURL {
		set(map[string]bool{"Headers": len(o.Headers) > 0, "PassHeaders": len(o.PassHeaders) > 0, "Transport": o.Transport != ""}, "URLs", kind)
	} else if u, err := url.Parse(raw); err == nil && u.User != nil && hasHeader(o.Headers, "Authorization") {
		c.addFault("Headers", "has Authorization, and the URL a user: set one of them")
	}
}

func hasHeader(sent Secrets, name string) bool {
	for other := range sent {
		if strings.EqualFold(other, name) {
			return true
		}
	}
	return false
}
