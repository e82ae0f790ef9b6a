package host

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// A Target is where a backend is. [Command] and [URL] make one; the zero Target is none.
type Target struct {
	name string
	args []string
	url  string
}

// Command is a program that speaks MCP over its standard input and output, with its arguments. A name without a slash is
// looked for in PATH. There is no shell: arguments arrive as they are.
//
// Whoever may list the processes of the machine sees the arguments: give secrets to a command by Options.Env.
func Command(name string, args ...string) Target {
	return Target{name: name, args: slices.Clone(args)}
}

// URL is a server that is reached over HTTP: Streamable HTTP, or HTTP+SSE where the server does not know that. A user
// and password in the URL are sent by HTTP Basic, and are secret.
func URL(url string) Target { return Target{url: url} }

// Command returns what [Command] was given; ok is false for another Target.
func (t Target) Command() (name string, args []string, ok bool) {
	return t.name, slices.Clone(t.args), t.name != ""
}

// URL returns what [URL] was given; ok is false for another Target.
func (t Target) URL() (url string, ok bool) { return t.url, t.url != "" }

// String returns the name of a command without its arguments, or a URL without its user and its query, either of which
// may have secrets.
func (t Target) String() string {
	if t.url == "" {
		return t.name
	}
	u, err := url.Parse(t.url)
	if err != nil {
		return "a URL that cannot be read"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// GoString is String for %#v.
func (t Target) GoString() string { return fmt.Sprintf("host.Target(%q)", t.String()) }

// check returns what is wrong with a target.
func (t Target) check() error {
	switch {
	case t.url != "":
		u, err := url.Parse(t.url)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return errors.New("URL: want http://HOST/PATH or https://HOST/PATH")
		}
	case t.name == "":
		return errors.New("Target names neither a command nor a URL")
	case strings.ContainsRune(t.name, 0):
		return errors.New("Command: the name has a zero byte")
	case slices.ContainsFunc(t.args, func(a string) bool { return strings.ContainsRune(a, 0) }):
		return errors.New("Command: an argument has a zero byte")
	}
	return nil
}
