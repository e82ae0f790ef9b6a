package admin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// SocketName is the name of the socket in a data directory.
const SocketName = "admin.sock"

// maxPath is the longest path of a UNIX socket on all systems, in bytes; Linux has 107.
const maxPath = 103

// ErrLongPath reports that the path of a socket is longer than the system allows.
var ErrLongPath = errors.New("the path is too long for a UNIX socket")

// fdDir has the open files of the process, on systems that have such a directory.
const fdDir = "/proc/self/fd"

// shortSocketPath returns a path of the socket that the system takes. A long one is reached through the open directory. The caller calls
// done when it needs the path no more.
func shortSocketPath(dir string) (path string, done func(), err error) {
	path = filepath.Join(dir, SocketName)
	if len(path) <= maxPath {
		return path, func() {}, nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return "", nil, err
	}
	through := fmt.Sprintf("%s/%d", fdDir, d.Fd())
	if _, err := os.Stat(through); err != nil {
		_ = d.Close()
		return "", nil, fmt.Errorf("%w: %s has %d bytes, of at most %d: use a data directory with a shorter path", ErrLongPath, path, len(path), maxPath)
	}
	return through + "/" + SocketName, func() { _ = d.Close() }, nil
}
