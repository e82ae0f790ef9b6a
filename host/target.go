package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
)

// A Target is where a backend is. [Command], [URL] and [Serve] make one; the zero Target is none.
type Target struct {
	name   string
	args   []string
	url    string
	serves bool // it is a server of this process
	run    func(ctx context.Context, in io.Reader, out io.Writer) error
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

// Serve is a server in this process, such as one that is written with another library. run is called for each instance,
// on a goroutine of its own: it reads what the client says from in, and writes what the server says to out, in lines as
// over standard input and output. The instance ends when run returns; its error is why. When the instance is to end, in
// ends first, and ctx after a while: then run must return, as nothing can end it from outside.
//
// The name is for logs and for telling one server from another: a configuration that has another name is another server.
func Serve(name string, run func(ctx context.Context, in io.Reader, out io.Writer) error) Target {
	return Target{name: name, serves: true, run: run}
}

// Command returns what [Command] was given; ok is false for another Target.
func (t Target) Command() (name string, args []string, ok bool) {
	if t.serves || t.name == "" {
		return "", nil, false
	}
	return t.name, slices.Clone(t.args), true
}

// Serve returns what the function [Serve] was given; ok is false for another Target.
func (t Target) Serve() (name string, run func(ctx context.Context, in io.Reader, out io.Writer) error, ok bool) {
	if !t.serves {
		return "", nil, false
	}
	return t.name, t.run, true
}

// URL returns what [URL] was given; ok is false for another Target.
func (t Target) URL() (url string, ok bool) { return t.url, t.url != "" }

// String returns the name of a command without its arguments, that of a server in this process, or a URL without its user
// and its query, which may have secrets as arguments do.
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
	case t.serves && (t.name == "" || t.run == nil):
		return errors.New("Serve: want a name and a function")
	case t.serves:
	case t.name == "":
		return errors.New("Target names neither a command nor a URL")
	case strings.ContainsRune(t.name, 0):
		return errors.New("Command: the name has a zero byte")
	case slices.ContainsFunc(t.args, func(a string) bool { return strings.ContainsRune(a, 0) }):
		return errors.New("Command: an argument has a zero byte")
	}
	return nil
}
