package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/configfile"
	"github.com/troupe-run/troupe/internal/hostfile"
)

// failure is an error after a valid command line: the program ends with exit code 1
// and not 2. Its text is one line that says what to do next.
type failure struct {
	text string
	err  error
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.err }

// explain turns the error that stopped a server into a failure that a person can act on.
func explain(err error, o troupe.Options) error {
	dir, listen, flag := o.Dir, o.Listen, "--listen"
	if strings.HasPrefix(oneLine(err), "health: ") {
		listen, flag = o.HTTP.HealthListen, "--health-listen"
	}
	var text string
	switch {
	case errors.Is(err, troupe.ErrLocked):
		text = fmt.Sprintf("another process%s uses the data directory %s: stop it and wait for its end, %s as it drains, or give this one its own with --data DIR", holderOf(dir), dir, longestEnd(o))
	case errors.Is(err, troupe.ErrNewer):
		text = fmt.Sprintf("a newer release has written the data directory %s, which is left as it was: run that release, or choose another directory with --data DIR", dir)
	case errors.Is(err, troupe.ErrDamaged):
		text = fmt.Sprintf("the data directory %s is damaged and left as it was (%s): restore it from a backup, or move it away and start with an empty one", dir, oneLine(err))
	case errors.Is(err, troupe.ErrForeign):
		text = fmt.Sprintf("%s holds files that are not troupe's and is left as it was: choose an empty or new directory with --data DIR", dir)
	case errors.Is(err, troupe.ErrExposed):
		text = fmt.Sprintf("other machines can reach %s without authentication: listen on 127.0.0.1, add --auth-issuer or --api-keys, or add --allow-anonymous if a proxy in front of this server authenticates clients", listen)
	case errors.Is(err, troupe.ErrNATS):
		text = oneLine(err)
	case errors.Is(err, syscall.EADDRINUSE):
		text = fmt.Sprintf("another process listens on %s already: stop it, or choose another address with %s (port 0 takes a free one)", listen, flag)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		text = fmt.Sprintf("this machine has no address %s: choose another with %s", listen, flag)
	case errors.Is(err, fs.ErrPermission) && !isPathError(err):
		text = fmt.Sprintf("not permitted (%s): choose another address with %s, or get the permission to listen on it", oneLine(err), flag)
	case isPathError(err):
		text = fmt.Sprintf("the data directory %s cannot be used (%s): choose another with --data DIR, or repair it", dir, oneLine(err))
	default:
		text = oneLine(err)
	}
	return &failure{text, err}
}

// holderOf is the id of the process that uses a data directory, in parentheses, "" if it is not known.
func holderOf(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, "lock"))
	pid, bad := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || bad != nil {
		return ""
	}
	return fmt.Sprintf(" (%d)", pid)
}

// afterDrain is how long the end of the process may take once DrainWait is over: 9 s, of which a second is for the calls that are given up, five
// are for the store and its connections, and the rest is for the log and a collector, and 2 s to spare. A service manager kills it then.
const afterDrain = (9 + 2) * time.Second

// longestEnd says how long a process with these settings may take to end.
func longestEnd(o troupe.Options) string {
	if o.DrainWait == 0 {
		return "half a minute"
	}
	return "up to " + shortTime((max(0, o.DrainDelay) + o.DrainWait + afterDrain).String())
}

// isPathError reports whether the error is about a file or directory. Once its settings
// are checked, a server opens only those of the data directory.
func isPathError(err error) bool {
	_, ok := errors.AsType[*fs.PathError](err)
	return ok
}

// oneLine returns the text of an error without the prefixes of packages, and with
// joined errors on one line.
func oneLine(err error) string {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "troupe: "), "cluster: ")
	return strings.ReplaceAll(text, "\n", "; ")
}

// placed is an error that says in which line of which file it is.
type placed struct{ error }

func (p placed) Unwrap() error { return p.error }

// saysPlace reports whether an error names the file that is wrong: the help of a command would add nothing.
func saysPlace(err error) bool {
	_, settings := errors.AsType[placed](err)
	_, backends := errors.AsType[*hostfile.Error](err)
	_, file := errors.AsType[*configfile.Error](err)
	return settings || backends || file || isPathError(err)
}
