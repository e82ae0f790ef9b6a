//go:build unix

package keeper

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// roleExec is the first argument of a process that confines itself and becomes a program. Keepers start it.
const roleExec = "exec"

// DefaultKeep is how long a keeper keeps what nobody has, if it is not told otherwise.
const DefaultKeep = 30 * time.Second

// flags are what a keeper is started with.
type flags struct {
	socket, boot, log, release string
	keep                       time.Duration
	stay                       bool
	fd, ready                  int
}

func readFlags(args []string, output io.Writer) (flags, error) {
	var f flags
	set := flag.NewFlagSet("keeper", flag.ContinueOnError)
	set.SetOutput(output)
	set.StringVar(&f.socket, "socket", "", "the path of the UNIX socket that it serves, with the mode 0600")
	set.IntVar(&f.fd, "fd", -1, "the open file that is its only connection, in place of a socket")
	set.StringVar(&f.boot, "boot", "", "the name by which what it leaves behind is found if it is killed: letters, digits and underscores (that of the keeper that had the socket before)")
	set.DurationVar(&f.keep, "keep", DefaultKeep, "how long it keeps processes that nobody has, and waits for the first client")
	set.BoolVar(&f.stay, "stay", false, "stay without processes, as a service that somebody starts anew when it ends")
	set.StringVar(&f.log, "log", "", "the file that its log is appended to, in place of standard error")
	set.StringVar(&f.release, "release", "", "what it says of its release")
	set.IntVar(&f.ready, "ready", -1, "the open file that is told when it can be used, or why not")
	err := set.Parse(args)
	switch {
	case err != nil:
		return f, err
	case set.NArg() > 0:
		return f, fmt.Errorf("unknown argument %q", set.Arg(0))
	case (f.socket == "") == (f.fd < 0):
		return f, errors.New("one of --socket and --fd is needed")
	case f.keep < 0:
		return f, errors.New("--keep is below zero")
	}
	if f.fd >= 0 {
		f.keep = 0 // nobody can come back
	}
	if f.boot == "" && f.socket != "" {
		return f, nil
	}
	return f, checkBoot(f.boot)
}

// Main is a keeper: the whole of the process that calls it, with the arguments that follow those that chose it. It returns the status to exit with, when all processes of the keeper and their
// descendants have ended: after SIGTERM, or when nobody has it any more and it has nothing.
//
// With the first argument "exec" it is what a keeper makes a process of that confines itself: for keepers alone.
//
// Nothing else of a program may run before it, since it waits for all children of the process and closes the files that the process was given.
func Main(args []string) int {
	if len(args) > 0 && args[0] == roleExec {
		return runShim()
	}
	// Notify in place of Ignore: what is ignored would be ignored in all processes that are started here. Those that are for serve are not for its keeper.
	deaf := make(chan os.Signal, 1)
	signal.Notify(deaf, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGQUIT)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	f, err := readFlags(args, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "keeper:", err)
		return 2
	}
	shim := os.Args[:len(os.Args)-len(args)]
	if err := runKeeper(ctx, f, shim); err != nil {
		f.reportStart(err.Error())
		fmt.Fprintln(os.Stderr, "keeper:", err)
		return 1
	}
	return 0
}

// reportStart tells whoever waits for the start of the keeper how it went. The second time it tells nobody.
func (f *flags) reportStart(text string) {
	if f.ready >= 0 {
		file := os.NewFile(uintptr(f.ready), "ready")
		_, _ = io.WriteString(file, text)
		_ = file.Close()
		f.ready = -1
	}
}

func runKeeper(ctx context.Context, f flags, shim []string) error {
	closeInherited(f.fd, f.ready)
	log, err := openLog(f)
	if err != nil {
		return err
	}
	if err := dropCores(); err != nil {
		log.Warn("core dumps are not forbidden", "why", err)
	}
	var listener *net.UnixListener
	if f.socket != "" {
		var release func()
		if listener, f.boot, release, err = listen(ctx, log, f.socket, f.boot, f.stay); err != nil {
			return err
		}
		defer release()
	}
	e := newEngine(log, f.boot, f.release, f.keep, f.stay, true, shim)
	var connections sync.WaitGroup
	if listener != nil {
		connections.Go(func() { e.accept(listener, &connections) })
	} else {
		conn, err := net.FileConn(os.NewFile(uintptr(f.fd), "serve"))
		if err != nil {
			return fmt.Errorf("the file %d: %w", f.fd, err)
		}
		connections.Go(func() { _ = e.serve(conn) })
	}
	log.Info("keeper ready", "pid", os.Getpid(), "socket", f.socket, "boot", f.boot, "keep", f.keep)
	f.reportStart(readyWord)
	if err := notifyReady(); err != nil {
		log.Warn("the service manager does not hear that the keeper is ready", "why", err)
	}
	e.run(ctx)
	if listener != nil {
		_ = listener.Close()
	}
	e.hangUp()
	connections.Wait()
	log.Info("keeper ended")
	return nil
}

// readyWord is what a keeper tells when it can be used.
const readyWord = "ready"

// notifyReady tells the service manager that has started the keeper, if one has, that it can be used (sd_notify).
func notifyReady() error {
	address := os.Getenv("NOTIFY_SOCKET")
	if address == "" {
		return nil
	}
	conn, err := net.Dial("unixgram", address) // @ begins a name without a file, here as there
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, err = conn.Write([]byte("READY=1"))
	return err
}

// checkMayUse returns an error unless the other end of a connection may use a keeper, which is this process, or 0 where descendants are not known: it is of the same user, and none of the keeper's own processes. Those could
// be confined, and would have it start others that are not.
func checkMayUse(conn *net.UnixConn, keeper int) error {
	pid, err := checkSameUser(conn)
	if err == nil && keeper != 0 && descendsFrom(pid, keeper, readProcess, hasBadge) {
		err = fmt.Errorf("keeper: the other process, %d, is one that it keeps, or may be: it has ended, or is hidden and has a limit of RLIMIT_RTTIME", pid)
	}
	return err
}

// accept serves who connects, if that one may use the keeper.
func (e *engine) accept(l *net.UnixListener, connections *sync.WaitGroup) {
	for {
		conn, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as too many open files
			e.log.Warn("accept", "err", err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if err := checkMayUse(conn, e.forest.keeper); err != nil {
			e.log.Warn("a connection was refused", "why", err)
			_ = conn.Close()
			continue
		}
		connections.Go(func() {
			if err := e.serve(conn); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				e.log.Warn("a connection has ended", "why", err)
			}
		})
	}
}

// closeInherited closes the files that this process was given and does not need: what its parent did not mark as its own is not opened here, where all are marked.
func closeInherited(needed ...int) {
	var inherited []int
	for _, fd := range openFiles() {
		flags, err := fdFlags(fd)
		if fd > 2 && err == nil && flags&syscall.FD_CLOEXEC == 0 {
			inherited = append(inherited, fd)
		}
	}
	for _, fd := range inherited {
		keep := false
		for _, n := range needed {
			keep = keep || n == fd
		}
		if keep {
			syscall.CloseOnExec(fd)
		} else {
			_ = syscall.Close(fd)
		}
	}
}
