package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/troupe-run/troupe"
)

// failure is an error of a command line that was right: the program ends with 1
// and not with 2. Its text is one line that says what to do next.
type failure struct {
	text string
	err  error
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.err }

// explain turns what stopped a server into a failure that a person can act on.
func explain(err error, o troupe.Options) error {
	dir, listen := o.Dir, o.Listen
	var text string
	switch {
	case errors.Is(err, troupe.ErrLocked):
		text = fmt.Sprintf("another process uses the data directory %s: stop it, or give this one its own with --data DIR", dir)
	case errors.Is(err, troupe.ErrNewer):
		text = fmt.Sprintf("a newer release has written the data directory %s, which is left as it was: run that release, or choose another directory with --data DIR", dir)
	case errors.Is(err, troupe.ErrDamaged):
		text = fmt.Sprintf("the data directory %s is damaged and left as it was (%s): restore it from a backup, or move it away and start with an empty one", dir, oneLine(err))
	case errors.Is(err, troupe.ErrForeign):
		text = fmt.Sprintf("%s holds something else than troupe's data and is left as it was: choose an empty or new directory with --data DIR", dir)
	case errors.Is(err, troupe.ErrExposed):
		text = fmt.Sprintf("%s can be reached from other machines, and nothing asks who they are: listen on 127.0.0.1, or add --allow-anonymous when something in front of this server does", listen)
	case errors.Is(err, syscall.EADDRINUSE):
		text = fmt.Sprintf("something listens on %s already: stop it, or choose another address with --listen (port 0 takes a free one)", listen)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		text = fmt.Sprintf("this machine has no address %s: choose another with --listen", listen)
	case errors.Is(err, fs.ErrPermission) && !isPathError(err):
		text = fmt.Sprintf("not permitted (%s): choose another address with --listen, or ask for the right to it", oneLine(err))
	case isPathError(err):
		text = fmt.Sprintf("the data directory %s cannot be used (%s): choose another with --data DIR, or mend it", dir, oneLine(err))
	default:
		text = oneLine(err)
	}
	return &failure{text, err}
}

// isPathError says whether a file or directory is what failed; the data
// directory's are the only ones a server opens once its settings are checked.
func isPathError(err error) bool {
	_, ok := errors.AsType[*fs.PathError](err)
	return ok
}

// oneLine writes an error without the prefixes that tell a person nothing, and
// joined errors beside each other.
func oneLine(err error) string {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "troupe: "), "cluster: ")
	return strings.ReplaceAll(text, "\n", "; ")
}
