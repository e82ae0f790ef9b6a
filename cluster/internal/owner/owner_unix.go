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
	switch {
	case !ok:
	case int(sys.Uid) != user && sys.Uid != 0:
		why = fmt.Sprintf("it belongs to user %d, and this process runs as %d", sys.Uid, user)
		advice = fmt.Sprintf("chown %d '%s'", user, path)
	case mayWrite(st, sys, int(sys.Uid) == user):
		why = fmt.Sprintf("its mode is %04o, and its group %d", st.Mode().Perm(), sys.Gid)
		advice = fmt.Sprintf("chmod go-w '%s'", path)
		if st.Mode()&fs.ModeSticky != 0 { // Otherwise a directory in it would be no safer.
			advice += ", or name a directory in it with --data, which is then made with mode 0700"
		}
	}
	return why, advice
}

// replaces is Above for a process of a user, and one directory.
func replaces(path string, st fs.FileInfo, user int) (why, advice string) {
	sys, ok := st.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
	case int(sys.Uid) != user && sys.Uid != 0:
		why = fmt.Sprintf("%s, above it, belongs to user %d, and this process runs as %d", path, sys.Uid, user)
		advice = fmt.Sprintf("run it as user %d, or name a directory elsewhere with --data", sys.Uid)
	case st.Mode()&fs.ModeSticky == 0 && mayWrite(st, sys, true):
		why = fmt.Sprintf("%s, above it, has the mode %04o and the group %d", path, st.Mode().Perm(), sys.Gid)
		advice = fmt.Sprintf("chmod go-w '%s', or chmod +t where others need it, or name a directory elsewhere with --data", path)
	}
	return why, advice
}

// mayWrite reports whether the mode of a directory lets others than its owner write. own says that a group with the owner's number is the owner's own.
func mayWrite(st fs.FileInfo, sys *syscall.Stat_t, own bool) bool {
	mode := st.Mode().Perm()
	return mode&0o002 != 0 || mode&0o020 != 0 && (sys.Gid != sys.Uid || !own)
}

// current is the user of this process.
func current() int { return os.Geteuid() }
