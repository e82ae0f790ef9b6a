package hostfile

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A Source is where a file comes from, and what its references name.
type Source struct {
	// Path is the absolute path of the file, for errors and for relative paths in it.
	Path string
	// Lookup returns a variable of the environment.
	Lookup func(name string) (value string, ok bool)
	// ReadFile returns the content of a file, if it is not too large.
	ReadFile func(path string) ([]byte, error)
	// Home is the directory of the user; "" where it is not known.
	Home string
}

// SystemSource is the source of a file of this machine, with the environment of this process.
func SystemSource(path string) (Source, error) {
	whole, err := filepath.Abs(path)
	if err != nil {
		return Source{}, err
	}
	home, _ := os.UserHomeDir() // ${userHome} is an error then, and nothing else needs it
	return Source{Path: whole, Lookup: os.LookupEnv, ReadFile: readFile, Home: home}, nil
}

// mostBytes bounds a file of backends, of variables, and a text that a reference names.
const mostBytes = 1 << 20

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, mostBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > mostBytes {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("more than %d bytes", mostBytes)}
	}
	return data, nil
}

// folder is the directory that clients take for the project's: that of the file, or the one above where only the client has
// files, such as .vscode.
func (s Source) folder() string {
	dir := filepath.Dir(s.Path)
	if name := filepath.Base(dir); strings.HasPrefix(name, ".") && name != "." && name != ".." {
		return filepath.Dir(dir)
	}
	return dir
}

// inProject reports whether the file lies where clients look for that of a project.
func (s Source) inProject() bool {
	return filepath.Base(s.Path) == ".mcp.json" || s.folder() != filepath.Dir(s.Path)
}

// windowsPath matches absolute paths of Windows, which stay as they are elsewhere, too.
var windowsPath = regexp.MustCompile(`^([A-Za-z]:[\\/]|\\\\)`)

// path returns an absolute path: ~ is the directory of the user, and a relative one begins in the folder of the file.
func (s Source) path(p string) string {
	switch {
	case filepath.IsAbs(p) || windowsPath.MatchString(p):
		return p
	case (p == "~" || strings.HasPrefix(p, "~/") || strings.HasPrefix(p, `~\`)) && s.Home != "":
		return filepath.Join(s.Home, p[1:])
	}
	return filepath.Join(s.folder(), p)
}

// showPath is a path for an error: where it has references it is shown with them, since what comes out may be secret.
func (s Source) showPath(named string) string {
	if strings.Contains(named, "${") {
		return named
	}
	return s.path(named)
}
