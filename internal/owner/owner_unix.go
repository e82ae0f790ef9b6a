//go:build unix

package owner

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// others is Others for a process of a user.
func others(path string, st fs.FileInfo, user int) (why, advice string) {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return "", ""
	}
	const move = ", or name a directory in it with --data, which is then made with mode 0700"
	switch mode := st.Mode().Perm(); {
	case int(sys.Uid) != user && sys.Uid != 0:
		return fmt.Sprintf("it belongs to user %d, and this process runs as %d", sys.Uid, user), fmt.Sprintf("chown %d '%s'", user, path) + move
	case mode&0o002 != 0, mode&0o020 != 0 && (sys.Gid != sys.Uid || int(sys.Uid) != user):
		return fmt.Sprintf("its mode is %04o, and its group %d", mode, sys.Gid), fmt.Sprintf("chmod go-w '%s'", path) + move
	}
	return "", ""
}

// current is the user of this process.
func current() int { return os.Geteuid() }
