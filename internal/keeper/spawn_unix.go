//go:build unix

package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Launch says how a keeper is started.
type Launch struct {
	// Program is the command that calls [Main], without Main's arguments, such as the path of the command troupe, and "keeper". Required.
	Program []string

	// Boot is what the marks of its processes begin with: letters, digits and underscores, the same for each keeper of one socket, so that the next one finds what one has left that was killed, and ends it. Empty is that of the keeper
	// that had the socket before, which lies in the file of the socket's lock, and without one a new word.
	Boot string

	// Keep is how long it keeps what nobody has, from now on if it is there already. Zero is [DefaultKeep], or what it does already; less than zero keeps nothing.
	Keep time.Duration

	// Log is the file that its log is appended to. Empty is the standard error of this process, which it has for as long as it lives.
	Log string

	// Env is more of its environment, beside what is passed on of this process' own: PATH, HOME, TMPDIR, LANG, TZ and the limits of the Go runtime. Processes get nothing of either.
	Env []string
}

// passedOn are the variables that a keeper gets of its parent's environment. MarkName is for a keeper below another one, which has to find it.
var passedOn = []string{"PATH", "HOME", "TMPDIR", "LANG", "TZ", "GOMAXPROCS", "GOMEMLIMIT", "GOGC", MarkName}

// Spawn starts a keeper in a session of its own, and connects to it. With an empty [Options.Socket] there is no socket: the keeper ends with this connection.
//
// The keeper outlives this process. It gets no file of this process but its standard error, unless it has a log.
func Spawn(ctx context.Context, o Options, l Launch) (*Client, error) {
	if len(l.Program) == 0 {
		return nil, errors.New("keeper: spawn: no program")
	}
	if l.Boot == "" && o.Socket == "" {
		l.Boot = newToken()
	}
	args := append(slices.Clone(l.Program[1:]), "--ready", "3")
	if l.Boot != "" {
		if err := checkBoot(l.Boot); err != nil {
			return nil, err
		}
		args = append(args, "--boot", l.Boot)
	}
	ready, readyW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("keeper: spawn: %w", err)
	}
	defer func() { _ = ready.Close() }()
	switch {
	case l.Keep > 0:
		args = append(args, "--keep", l.Keep.String())
	case l.Keep < 0:
		args = append(args, "--keep", "0s")
	}
	if l.Log != "" {
		args = append(args, "--log", l.Log)
	}
	if o.Release != "" {
		args = append(args, "--release", o.Release)
	}
	cmd := exec.Command(l.Program[0])
	cmd.ExtraFiles = []*os.File{readyW}
	var ours net.Conn
	if o.Socket != "" {
		args = append(args, "--socket", o.Socket)
	} else {
		var theirs *os.File
		if ours, theirs, err = socketPair(); err != nil {
			_ = readyW.Close()
			return nil, fmt.Errorf("keeper: spawn: %w", err)
		}
		args = append(args, "--fd", "4")
		cmd.ExtraFiles = append(cmd.ExtraFiles, theirs)
	}
	cmd.Args = append(l.Program[:1:1], args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Env = append(environmentOf(os.Environ()), l.Env...)
	if l.Log == "" {
		cmd.Stderr = os.Stderr
	}
	err = cmd.Start()
	for _, f := range cmd.ExtraFiles {
		_ = f.Close()
	}
	if err != nil {
		if ours != nil {
			_ = ours.Close()
		}
		return nil, fmt.Errorf("keeper: spawn: %w", err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	c, err := connectReady(ctx, o, ready, ours)
	if err != nil {
		if ours != nil {
			_ = ours.Close()
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if errors.Is(err, errNotReady) && l.Log != "" {
			err = fmt.Errorf("%w: %s may say why", err, l.Log)
		}
		return nil, fmt.Errorf("keeper: spawn: %w", err)
	}
	go func() {
		err := <-exited
		if err == nil {
			err = errors.New("exit status 0")
		}
		c.mu.Lock()
		c.detail = err
		c.mu.Unlock()
		if o.Socket == "" && !cmd.ProcessState.Success() { // nobody else knows of what it has left
			sweepLeft(context.Background(), l.Boot, c.options.Log)
		}
	}()
	return c, nil
}

// errNotReady says that a keeper has ended and has not said why.
var errNotReady = errors.New("it ended before it was ready")

// connectReady waits until a keeper can be used, and connects to it.
func connectReady(ctx context.Context, o Options, ready *os.File, ours net.Conn) (*Client, error) {
	unwatch := context.AfterFunc(ctx, func() { _ = ready.SetReadDeadline(time.Now()) })
	defer unwatch()
	text, err := io.ReadAll(io.LimitReader(ready, 64<<10))
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	case string(text) != readyWord && len(text) == 0:
		return nil, errNotReady
	case string(text) != readyWord:
		if why, runs := strings.CutPrefix(string(text), ErrRuns.Error()); runs {
			return nil, fmt.Errorf("%w%s", ErrRuns, why)
		}
		return nil, errors.New(string(text))
	case ours != nil:
		return newClient(ctx, o, ours, nil)
	}
	c, err := Dial(ctx, o)
	if nobodyThere(err) { // somebody else has used it and left it with nothing
		return nil, fmt.Errorf("%w: %w", ErrEnding, err)
	}
	return c, err
}

// environmentOf returns what a keeper gets of an environment.
func environmentOf(all []string) []string {
	var some []string
	for _, entry := range all {
		if name, _, _ := strings.Cut(entry, "="); slices.Contains(passedOn, name) || strings.HasPrefix(name, "LC_") {
			some = append(some, entry)
		}
	}
	return some
}

// socketPair returns the two ends of a connection, one of which is for a child.
func socketPair() (net.Conn, *os.File, error) {
	syscall.ForkLock.RLock()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, err
	}
	mine, theirs := os.NewFile(uintptr(fds[0]), "keeper"), os.NewFile(uintptr(fds[1]), "serve")
	conn, err := net.FileConn(mine)
	_ = mine.Close()
	if err != nil {
		_ = theirs.Close()
		return nil, nil, err
	}
	return conn, theirs, nil
}
