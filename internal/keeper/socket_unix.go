//go:build unix

package keeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxPath is the longest path of a UNIX socket on all systems, in bytes; Linux has 107.
const maxPath = 103

// shortenPath returns a path of a socket that the system takes: a long one is reached through its open directory, where there are paths of open files. done closes that.
func shortenPath(path string) (through string, done func(), err error) {
	if len(path) <= maxPath {
		return path, func() {}, nil
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	through = fmt.Sprintf("/proc/self/fd/%d", d.Fd())
	if _, err := os.Stat(through); err != nil {
		_ = d.Close()
		return "", nil, fmt.Errorf("keeper: the path %s has %d bytes, of at most %d for a UNIX socket", path, len(path), maxPath)
	}
	return through + "/" + filepath.Base(path), func() { _ = d.Close() }, nil
}

// listen serves a socket for this user alone. Who has the lock beside it replaces the socket of a killed keeper, and ends what that has left. The boot that counts is the one that is given, or else that of the keeper before, or else a new one.
func listen(ctx context.Context, log *slog.Logger, path, boot string, stay bool) (*net.UnixListener, string, func(), error) {
	lock, err := os.OpenFile(lockOf(path), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600) // whose text is replaced: no file that somebody else has laid a link to
	if err != nil {
		return nil, "", nil, err
	}
	fail := func(err error) (*net.UnixListener, string, func(), error) {
		_ = lock.Close()
		return nil, "", nil, err
	}
	if err := lockSocket(ctx, lock, path); err != nil {
		return fail(err)
	}
	stored, _ := storedBoot(path)
	left := cmp.Or(boot, stored)
	boot, err = storeBoot(lock, path, boot, stay)
	if err != nil {
		return fail(err)
	}
	if left != "" {
		sweepLeft(ctx, left, log)
	}
	through, done, err := shortenPath(path)
	if err != nil {
		return fail(err)
	}
	defer done()
	switch info, err := os.Lstat(through); {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return fail(err)
	case info.Mode().Type() != os.ModeSocket:
		return fail(fmt.Errorf("keeper: %s is there and is no socket: remove it, or name another path", path))
	default:
		if err := os.Remove(through); err != nil {
			return fail(err)
		}
	}
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), 0o600) }) // where the file has the mode of the socket
	}}
	l, err := config.Listen(context.Background(), "unix", through)
	if err != nil {
		return fail(err)
	}
	listener := l.(*net.UnixListener)
	listener.SetUnlinkOnClose(false)
	if err := os.Chmod(through, 0o600); err != nil {
		_ = listener.Close()
		return fail(err)
	}
	return listener, boot, func() {
		_ = os.Remove(path)
		_ = lock.Close() // the file of the lock stays, or two could have it
	}, nil
}

// lockOf returns the file of the lock of a socket. It stays, and has the boot of the last keeper.
func lockOf(socket string) string { return socket + ".lock" }

// lockText is what a lock says of a keeper: its boot, whether it stays, and which file this is, since a copy of its directory has nothing of what the keeper has started.
func lockText(lock *os.File, boot string, stay bool) (string, error) {
	info, err := lock.Stat()
	if err != nil {
		return "", err
	}
	stat, stays := info.Sys().(*syscall.Stat_t), ""
	if stay {
		stays = " stay"
	}
	return fmt.Sprintf("%s %d:%d%s\n", boot, stat.Dev, stat.Ino, stays), nil
}

// storedBoot returns the boot of the keeper that had a socket last, and "" if there was none. stay says that it stays without processes, and so that somebody starts it anew.
func storedBoot(socket string) (boot string, stay bool) {
	lock, err := os.Open(lockOf(socket))
	if err != nil {
		return "", false
	}
	defer func() { _ = lock.Close() }()
	text, err := io.ReadAll(io.LimitReader(lock, 1024))
	if err != nil {
		return "", false
	}
	boot, _, _ = strings.Cut(string(text), " ")
	stay = strings.HasSuffix(string(text), " stay\n")
	if want, err := lockText(lock, boot, stay); err != nil || string(text) != want || checkBoot(boot) != nil { // cut short by a kill, before anything was started
		return "", false
	}
	return boot, stay
}

// storeBoot stores the boot of a keeper in the lock of its socket, so that whoever comes after it finds what it leaves if it is killed.
func storeBoot(lock *os.File, path, boot string, stay bool) (string, error) {
	stored, stays := storedBoot(path)
	if boot = cmp.Or(boot, stored); boot == "" {
		boot = newToken()
	}
	if boot == stored && stay == stays {
		return boot, nil
	}
	text, err := lockText(lock, boot, stay)
	if err == nil {
		err = lock.Truncate(0)
	}
	if err == nil {
		_, err = lock.WriteAt([]byte(text), 0)
	}
	return boot, err
}

// lockSocket takes the lock of a socket. Who has it and does not answer any more is about to end.
func lockSocket(ctx context.Context, lock *os.File, path string) error {
	for until := time.Now().Add(lockTime); ; sleep(ctx, 10*time.Millisecond) {
		err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %s: %w", ErrRuns, path, context.Cause(ctx))
		}
		if conn, e := dial(ctx, path); e == nil {
			_ = conn.Close()
			return fmt.Errorf("%w: %s", ErrRuns, path)
		}
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(until) {
			return fmt.Errorf("%w: %s: %w", ErrRuns, path, err)
		}
	}
}

// dial connects to a socket.
func dial(ctx context.Context, path string) (net.Conn, error) {
	through, done, err := shortenPath(path)
	if err != nil {
		return nil, err
	}
	defer done()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", through)
	if err != nil {
		return nil, err
	}
	if _, err := checkSameUser(conn.(*net.UnixConn)); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// checkSameUser returns an error unless the other end of a connection is a process of this user, and which one it is, if the system tells.
func checkSameUser(conn *net.UnixConn) (pid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	uid, failure := -1, error(nil)
	if err := raw.Control(func(fd uintptr) { uid, pid, failure = peerProcess(int(fd)) }); err != nil {
		return 0, err
	}
	switch {
	case errors.Is(failure, errNoPeer):
		return 0, nil // the mode of the file is all there is
	case failure != nil:
		return 0, failure
	case uid != os.Geteuid():
		return 0, fmt.Errorf("keeper: the other process is of the user %d, and this one of %d", uid, os.Geteuid())
	}
	return pid, nil
}

// errNoPeer says that the system does not tell whose the other end is.
var errNoPeer = errors.New("keeper: the system does not tell")

// openFiles returns the open files of this process, by number.
func openFiles() []int {
	var all []int
	for _, dir := range []string{"/proc/self/fd", "/dev/fd"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, entry := range entries {
			if fd, err := strconv.Atoi(entry.Name()); err == nil {
				all = append(all, fd)
			}
		}
		return all
	}
	for fd := range 1024 {
		all = append(all, fd)
	}
	return all
}

func fdFlags(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0) }
